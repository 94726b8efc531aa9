// What vision transformers share (Dosovitskiy et al. 2020, arXiv:2010.11929). Tokens x are [N,1,1+T,C], the class token first. Names
// of parameters are those in the present scope. Given NULL for x (a graph with an error) they return NULL.
#ifndef KD_VIT_H
#define KD_VIT_H
#include "model/feature_private.h"

/// x w^T + b + res (NULL: none), parameters `weight` [out,in] and `bias` [out].
kd_val *kd_vit_linear(kd_net *m, const char *weight, const char *bias, kd_val *x, int64_t out, kd_val *res);
/// Layer norm with the parameters `layer`.weight and `layer`.bias.
kd_val *kd_vit_norm(kd_net *m, const char *layer, kd_val *x, double eps);
/// Patches of the image x [N,H,W,3] by the weight [width,3,patch,patch] and bias (NULL: none) [N,H/patch,W/patch,width].
kd_val *kd_vit_patches(kd_net *m, const char *weight, const char *bias, kd_val *x, const kd_vit *v);
/// softmax(q k^T / sqrt(d)) v of qkv [N,1,1+T,3C].
kd_val *kd_vit_attention(kd_net *m, kd_val *qkv, const kd_vit *v);
/// The class token, [N,1,1,C].
kd_val *kd_vit_first(kd_net *m, kd_val *x);

// Sizes and weights ----------------------------------------------------------------------------------------------------

/// How many layers a file has: '#' in the name of a tensor that each has stands for 0, 1, ...
int64_t kd_vit_count(const kd_raw *r, const char *name);
/// Side of a square of n patches; 0 if n is no square.
int64_t kd_vit_side(int64_t n);
/// Sets v's heads. errors KD_EUSAGE with what cannot be: a size of 0, a width between multiples of 64, a side of too many pixels
int kd_vit_check(kd_vit *v, const kd_raw *r, kd_err *err);
/// s, b, l, h of the known sizes; else "w32x2", width and layers, in buf.
const char *kd_vit_letter(const kd_vit *v, char buf[48]);
/// Mean and deviation of pixels at 0..1.
void kd_vit_pixels(kd_feature_net *f, const double mean[3], const double deviation[3]);

#endif
