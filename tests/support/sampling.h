// The options of a golden sampling run.
#ifndef KD_TEST_SAMPLING_H
#define KD_TEST_SAMPLING_H
#include "base/json.h"
#include "diffusion/sampler.h"

/// From k-diffusion's keyword arguments; the strings are the JSON's.
kd_sampler_opts golden_sampler_opts(json_t *kwargs);
#endif
