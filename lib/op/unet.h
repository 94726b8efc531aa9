// Constructors for what transformers v2 do without: convolutions, group and layer norm, resampling, cross-attention, and
// what transformer v1, guided-diffusion and the feature networks need beside. Read op.h first; formulas are in ops.def,
// kd_conv, kd_act and the like in attr.h. F32 and [N,H,W,C] unless said otherwise. Weights have the shapes of the peers' files.
#ifndef KD_OP_UNET_H
#define KD_OP_UNET_H
#include "op/op.h"

// Convolution ------------------------------------------------------------------------------------------------------

/// y [N,(H + 2 pad_h - kh) / stride + 1,..,Co] = correlation of x [N,H,W,Ci] with w [Co,Ci,kh,kw], + b [Co] + res (y's shape).
/// b, res: NULL if none. A 1x1 kernel with stride 1 and no padding becomes kd_linear, which takes w [M,K,1,1] and [M,K,1] too.
kd_val *kd_conv2d(kd_graph *g, kd_val *x, kd_val *w, kd_val *b, kd_val *res, kd_conv c);

// Normalisation and activations --------------------------------------------------------------------------------------

kd_val *kd_activate(kd_graph *g, kd_val *x, kd_act kind);                           // NONE: x itself

/// y = act(((x - mean) / sqrt(variance + eps) w + b) (1 + ada[n,:C]) + ada[n,C:]), mean and variance of an image's group of
/// C / groups neighbouring channels. x [N,..,C]. w, b [C]: both or neither (NULL). ada [N,2C], or NULL.
kd_val *kd_group_norm(kd_graph *g, kd_val *x, kd_val *w, kd_val *b, kd_val *ada, int64_t groups, double eps, kd_act act);
/// Over the last axis; x [..,C], w, b [C]
kd_val *kd_layer_norm(kd_graph *g, kd_val *x, kd_val *w, kd_val *b, double eps);

// Attention ----------------------------------------------------------------------------------------------------------
// Self-attention is kd_attention of op.h: a.factor, a.order and a.dropout are for these networks.

/// softmax(a.factor q k^T - 10000 padding) v. q [N,H,W,heads*d], kv [N,L,2*heads*d] with k of all heads, then v of all heads;
/// padding [N,L], 1 where there is nothing, is data; NULL: none. index, rng: as kd_attention's. It reads a's heads, factor and
/// dropout.
kd_val *kd_cross_attention(kd_graph *g, kd_val *q, kd_val *kv, kd_val *padding, kd_val *index, kd_val *rng, kd_attn a);

/// Transformer v1. freqs_h, freqs_w [heads,d/4] are logarithms (parameters), pos [H*W,2] = (y, x) data: cos and sin of
/// y exp(freqs_h), x exp(freqs_w): [H*W,heads,d/2,2].
kd_val *kd_rope_table_v1(kd_graph *g, kd_val *freqs_h, kd_val *freqs_w, kd_val *pos);
/// q and k of each head times exp(scale / 2 - ln(d) / 4) / sqrt(mean square + 1e-6), then neighbouring pairs of features turned.
/// qkv [N,H,W,3*heads*d] in feature order (q,k,v) x head x d; scale [heads]; rope from kd_rope_table_v1. Attention's factor
/// is then 1/sqrt(d) still.
kd_val *kd_qk_norm_rope_v1(kd_graph *g, kd_val *qkv, kd_val *scale, kd_val *rope);
/// min(max(x, low), high), NaN where x is; its gradient passes as if nothing had been cut.
kd_val *kd_clamp(kd_graph *g, kd_val *x, double low, double high);

// Resampling and pools -----------------------------------------------------------------------------------------------

/// Down: [N,H,W,C] -> [N,H/2,W/2,C], a last odd row or column is read by FIR_DOWN alone; up: -> [N,2H,2W,C].
kd_val *kd_resample(kd_graph *g, kd_val *x, kd_resampling how);

kd_val *kd_pool(kd_graph *g, kd_val *x, kd_pooling p);                              // no gradient

/// A vision transformer's tokens: the class token, then an image's patches in rows, and to each its position embedding.
/// x [N,H,W,C], first [..,C] of one row, pos [..,C] of 1+HW rows -> [N,1,1+HW,C]. No gradient.
kd_val *kd_tokens(kd_graph *g, kd_val *x, kd_val *first, kd_val *pos);

kd_val *kd_image_mean(kd_graph *g, kd_val *x);                                       // [N,..,C] -> [N,C]

// Channels and elements ----------------------------------------------------------------------------------------------

kd_val *kd_concat(kd_graph *g, kd_val *a, kd_val *b);                                // [..,A], [..,B] -> [..,A+B]
kd_val *kd_slice(kd_graph *g, kd_val *x, int64_t first, int64_t count);              // of the last axis
/// [N,H,W,C] -> [N,H/p,W/q,C*p*q] in the order c*p*q + row*q + column (PyTorch's pixel_unshuffle, transformer v1's patches),
/// and back. (kd_patch_merge has channels fastest.)
kd_val *kd_pixel_unshuffle(kd_graph *g, kd_val *x, int64_t p, int64_t q);
kd_val *kd_pixel_shuffle(kd_graph *g, kd_val *x, int64_t p, int64_t q);
kd_val *kd_add_image(kd_graph *g, kd_val *x, kd_val *b);                             // y[n,..,c] = x[n,..,c] + b[n,c]
kd_val *kd_scale(kd_graph *g, kd_val *x, double f);                                  // f x
/// Dropout of whole channels of an image: the uniform of a channel is that of element c in kd_dropout.
kd_val *kd_dropout_channels(kd_graph *g, kd_val *x, kd_val *index, kd_val *rng, double p);

/// [cos(t f), sin(t f)], f_k = max_period^(-k / h), h = dim / 2; odd dim: a last 0. t [N] or [N,1] is data; angles in double.
kd_val *kd_timestep_embedding(kd_graph *g, kd_val *t, int64_t dim, double max_period);

// Loss -----------------------------------------------------------------------------------------------------------------

/// l[n] = mean(((a - b)^2 / exp(logvar[n]) + logvar[n]) / 2). a, b [N,..]; logvar [N] or [N,1]; b is data.
kd_val *kd_gauss_nll(kd_graph *g, kd_val *a, kd_val *b, kd_val *logvar);

/// A step's term of the variational bound, in bits an element, as a lesson for the variance alone: only `range` has a
/// gradient. The predicted log variance is L = mid + half range, the mean's error m (eps - noise). k [N,KD_BOUND_FACTORS] is
/// data, in the order of the enum: mid, half, the true posterior's log variance, m, 1 at the first step (else 0), w:
///   l[n] = w[n] mean((L - true + exp(true - L) + m^2 (eps - noise)^2 exp(-L) - 1) / 2) / ln 2
/// and at the first step minus the log-likelihood of x0, an image of 256 levels at [-1, 1], under the normal distribution cut
/// into its levels. Nichol & Dhariwal 2021, arXiv:2102.09672, sec. 3.1; peer guided_diffusion/losses.py.
/// range, eps, noise, x0 [N,..]
kd_val *kd_bound(kd_graph *g, kd_val *range, kd_val *eps, kd_val *noise, kd_val *x0, kd_val *k);

#endif
