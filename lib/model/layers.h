// Layers that several networks have, by the peers' names. Each takes the scope it stands in; given NULL for what it works
// on (a graph with an error), it returns NULL.
#ifndef KD_LAYERS_H
#define KD_LAYERS_H
#include "model/net.h"

/// A part of the network: a scope, and, with checkpointing, a recompute block.
void kd_layer_begin(kd_net *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void kd_layer_end(kd_net *m);

// Transformers: no linear layer has a bias. Peer: k_diffusion/models/image_transformer_v1.py, _v2.py ------------------

/// The parameter `layer`.weight [out,in].
kd_val *kd_layer_weight(kd_net *m, const char *layer, int64_t out, int64_t in, kd_init init, unsigned tags);

/// x W^T + res (NULL: none)
kd_val *kd_layer_linear(kd_net *m, const char *name, kd_val *x, int64_t out, kd_init init, unsigned tags, kd_val *res);

/// GEGLU of x up_proj^T, d_ff features. It decays.
kd_val *kd_layer_geglu(kd_net *m, kd_val *x, int64_t d_ff, unsigned tags);

/// RMS norm with the parameter `name`, eps 1e-6.
kd_val *kd_layer_rms_norm(kd_net *m, const char *name, kd_val *x, unsigned tags);

/// RMS norm with the scale 1 + cond W^T, one for each image.
kd_val *kd_layer_ada_rms_norm(kd_net *m, kd_val *x, kd_val *cond);

/// By element, in training only.
kd_val *kd_layer_dropout(kd_net *m, kd_val *x, double rate);

/// What the noise level, the augmentation and the class say, [N,width]: the sum that the mapping network starts from.
kd_val *kd_layer_embeddings(kd_net *m, const kd_config *c, const kd_net_in *in, int64_t width);

#endif
