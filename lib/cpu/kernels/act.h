// Rows of activations and of their gradients, for activate.c and group_norm.c. The kind is a constant of each loop, so all are
// vector code.
#ifndef KD_KERNEL_ACT_H
#define KD_KERNEL_ACT_H
#include "cpu/kernels/vmath.h"
#include "op/backend.h"

#define ACT_ROWS(expression) \
    do { \
        _Pragma("GCC ivdep") \
        for (int64_t i = 0; i < n; i++) y[i] = (expression); \
    } while (0)

/// y = act(x); y may be x.
static inline void act_row(float *y, const float *x, int64_t n, kd_act kind)
{
    switch (kind) {
    case KD_ACT_SILU: ACT_ROWS(x[i] * kd_vsigmoid(x[i])); break;
    case KD_ACT_GELU: ACT_ROWS(kd_vgelu(x[i])); break;
    case KD_ACT_RELU: ACT_ROWS(x[i] > 0 ? x[i] : 0); break;
    case KD_ACT_QUICK_GELU: ACT_ROWS(x[i] * kd_vsigmoid(1.702f * x[i])); break;
    default: ACT_ROWS(x[i]);
    }
}

/// d/dx (x sigmoid(f x))
static inline float act_gate_grad(float x, float f)
{
    const float s = kd_vsigmoid(f * x);
    return s * (1 + f * x * (1 - s));
}

/// y = dy act'(x); y may be x or dy.
static inline void act_grad_row(float *y, const float *x, const float *dy, int64_t n, kd_act kind)
{
    switch (kind) {
    case KD_ACT_SILU: ACT_ROWS(dy[i] * act_gate_grad(x[i], 1)); break;
    case KD_ACT_GELU: ACT_ROWS(dy[i] * kd_vgelu_grad(x[i])); break;
    case KD_ACT_RELU: ACT_ROWS(x[i] > 0 ? dy[i] : 0); break;
    case KD_ACT_QUICK_GELU: ACT_ROWS(dy[i] * act_gate_grad(x[i], 1.702f)); break;
    default: ACT_ROWS(dy[i]);
    }
}

#endif
