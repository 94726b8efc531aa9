// The augmentation pipeline of Karras et al. 2022 (appendix F.2), as k_diffusion/augmentation.py does it.
#ifndef KD_AUGMENT_H
#define KD_AUGMENT_H
#include "base/random.h"
#include <stdbool.h>

enum { KD_AUGMENT_DRAWS = 13, KD_AUGMENT_COND = 9 };
/// The 13 numbers that decide an augmentation, from a stream. All are always drawn, whether they are used or not. In order:
/// x flip, then for each of y flip, scale, rotation, stretch and shift a uniform that switches it on and its numbers
///   draws = flip_x, on, flip_y, on, scale, on, angle, on, angle of the stretch, stretch, on, shift_x, shift_y
/// Flips are bits; scale, stretch and shifts are normal; the others are uniform in [0, 1).
void kd_augment_draw(float draws[KD_AUGMENT_DRAWS], const kd_rng *r);
/// The matrix M on (x, y, 1) that takes a pixel of the input to its place in the output, and the condition vector. A number
/// is used if its `on` is below prob, else it is 0; flip_x has no `on`. With a0, a1 the flips, a2 the scale, a3 and a4 the two
/// angles (2 pi u - pi), a5 the stretch, a6 and a7 the shifts, and T, S, R a shift, a scaling and a rotation (x towards y):
///   M = T(w/2 - 1/2, h/2 - 1/2) S(1 - 2 a0, 1 - 2 a1) S(2^(a2/5)) R(-a3) R(a4) S(2^(a5/5), 2^(-a5/5)) R(-a4)
///       T(h a6/8, w a7/8) T(1/2 - w/2, 1/2 - h/2)            x moves by a part of the height and y of the width, as in the peer
///   cond = a0, a1, a2, cos a3 - 1, sin a3, a5 cos a4, a5 sin a4, a6, a7
/// prob 0: the identity and zeros, and no flip either.
void kd_augment_matrix(double m[9], float cond[KD_AUGMENT_COND], const float draws[KD_AUGMENT_DRAWS], int64_t h, int64_t w, double prob);
/// Warps u8 pixels [h,w,c] into f32 [h,w,c], scaled to [-1,1]: output pixel (x, y) is read at M^-1 (x, y, 1), by Catmull-Rom
/// bicubic interpolation of 4x4 pixels, mirrored at the edges without repeating them. Values may leave [-1,1].
void kd_augment_warp(float *out, const uint8_t *in, int64_t h, int64_t w, int64_t c, const double m[9]);
#endif
