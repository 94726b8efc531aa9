// The conditions of some of a call's images, from what its frame holds.
#ifndef KD_COND_H
#define KD_COND_H
#include "diffusion/denoiser.h"
#include "formats/denoised.h"

/// Those of image k and the ones behind it; they point into `in`.
kd_cond kd_cond_at(const kd_call_inputs *in, const kd_call_shape *s, int64_t k);

#endif
