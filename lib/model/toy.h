// Models of type toy_mixture: a mixture of Gaussians as a model file. What they compute: diffusion/toy.h.
#ifndef KD_MODEL_TOY_H
#define KD_MODEL_TOY_H
#include "model/model.h"

/// The parameters of a toy_mixture, none of them trained: weight [k], std [k], mean [k] or [k,c,h,w].
int kd_toy_params(kd_params *ps, const kd_config *c, kd_err *err);
extern const char *const kd_toy_modules[];

/// A model of the tensors weight, std and mean in a frame. shape: NULL, or c, h, w for a mean [k].
/// errors  KD_EUSAGE if a tensor is missing or of another shape, a weight or deviation is not above 0, or the shape is not
///         known or given twice
int kd_toy_new(kd_model **m, const kd_frame *f, const char *file, const int64_t *shape, kd_err *err);

#endif
