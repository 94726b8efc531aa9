// What the two ways to convolve share: conv2d.c takes any shape, winograd.c kernels of 3x3 with stride 1 and many channels.
#ifndef KD_CONV_H
#define KD_CONV_H
#include "cpu/kernels/gemm.h"

typedef struct conv {
    int64_t n, h, w, ci;                   // x [n,h,w,ci]
    int64_t rows, cols, co;                // of the result, with kh x kw taps of kernel
    int64_t kh, kw, stride, top, left;     // place o reads o * stride + tap - top (or - left)
    int64_t y_h, y_w, y_step, y_top, y_left;   // place o goes to o * y_step + y_top of an image of y_h x y_w
    const float *x, *b, *res;
    float *y;
    // where weights lie: out * out_step + c * c_step + (r_first + r * r_step) * row_step + s_first + s * s_step
    const float *weight;
    int64_t out_step, c_step, row_step, r_first, r_step, s_first, s_step;
    // how conv2d.c cuts the work
    int64_t block_rows, block_images, blocks_down, blocks, panels, groups, group;
    float *packed, *scratch;
} conv;

/// Is it for winograd.c? A matter of the layer alone: an image's bits do not depend on the batch.
static inline bool winograd_fits(int64_t kh, int64_t kw, int64_t stride, int64_t rows, int64_t cols, int64_t ci, int64_t co)
{
    return kh == 3 && kw == 3 && stride == 1 && rows >= 3 && cols >= 3 && ci >= 32 && co >= 32 && ci % NR == 0 && co % NR == 0;
}

void KD_ISA_NAME(winograd)(const conv *c, float *scratch);
size_t KD_ISA_NAME(winograd_floats)(const conv *c);          // of its scratch

/// The gradient for the weights: x and dy as above, rows and cols those of dy; c->y is dw [co,ci,3,3].
void KD_ISA_NAME(winograd_grad_w)(const conv *c, const float *dy, float *scratch);
size_t KD_ISA_NAME(winograd_grad_w_floats)(const conv *c);

#endif
