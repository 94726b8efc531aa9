// The augmentation pipeline of Karras et al. 2022 (appendix F.2), as k_diffusion/augmentation.py does it.
#ifndef KD_AUGMENT_H
#define KD_AUGMENT_H
#include "base/random.h"
#include <stdbool.h>

enum { KD_AUGMENT_DRAWS = 13, KD_AUGMENT_COND = 9 };
/// The 13 numbers of golden augmentation.safetensors' draw_order, from a stream (elements fixed: all are always drawn).
void kd_augment_draw(float draws[KD_AUGMENT_DRAWS], const kd_rng *r);
/// Matrix M on (x, y, 1), which takes a pixel of the input to its place in the output (golden README section 10), and condition
/// vector from draws. prob 0: the identity and zeros.
void kd_augment_matrix(double m[9], float cond[KD_AUGMENT_COND], const float draws[KD_AUGMENT_DRAWS], int64_t h, int64_t w, double prob);
/// Warps u8 pixels [h,w,c] into f32 [h,w,c] at [-1,1], values may leave it: Catmull-Rom bicubic, reflection without repeating the edge.
void kd_augment_warp(float *out, const uint8_t *in, int64_t h, int64_t w, int64_t c, const double m[9]);
#endif
