// Noise drawn where it is used: in a training program, and between a sampler's model calls.
#ifndef KD_OP_RANDOM_H
#define KD_OP_RANDOM_H
#include "op/op.h"

/// Unit normals of images: element e of image n is element e of the stream (seed, purpose, image index[n], step) of
/// base/random.h.
/// shape  [N,..]
/// index  I64 [N]: the images' numbers
/// rng    U64 {seed, step}: [2] for all images, or [N,2]
/// draw   what for, and a number added to the step
kd_val *kd_normal(kd_graph *g, kd_shape shape, kd_val *index, kd_val *rng, kd_draw_attr draw);

/// Increments of the images' Brownian paths between two noise levels, with unit variance (base/brownian.h). The path of image n
/// belongs to (seed, index[n]); the step is not used.
kd_val *kd_brownian_steps(kd_graph *g, kd_shape shape, kd_val *index, kd_val *rng, kd_brownian_attr path);

#endif
