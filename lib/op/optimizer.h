// Nodes for the optimizer's flat passes, built by hand: no graph, no gradient. Each function fills a node on the caller's
// stack over arrays of the backend; run it with be->run and, for sum_squares, be->scratch bytes of scratch.
#ifndef KD_OP_OPTIMIZER_H
#define KD_OP_OPTIMIZER_H
#include "op/op.h"

/// A node with its values. Points into itself: do not copy.
typedef struct kd_flat_node {
    kd_node node;
    kd_val in[5], out;
} kd_flat_node;

/// sum [1] F64 = sum of x^2 over n elements: squares and sums in double, tiles of 4096 elements, then a fixed tree.
void kd_sum_squares_node(kd_flat_node *o, int64_t n, const float *x, double *sum);

/// y += x
void kd_accumulate_node(kd_flat_node *o, int64_t n, float *y, const float *x);

/// p = min(p, most), in place
void kd_clamp_max_node(kd_flat_node *o, int64_t n, float *p, double most);

/// AdamW, Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2; as in PyTorch:
///   p *= 1 - lr wd;   m += (1 - beta1)(g - m);   v += (1 - beta2)(g^2 - v)
///   p -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
/// Node: in p, g, m, v, ema; out p; a.adamw. ema may be NULL.
void kd_adamw_node(kd_flat_node *o, int64_t n, float *p, const float *g, float *m, float *v, float *ema,
                   const kd_step *s, double beta1, double beta2, double eps);

/// SGD as in PyTorch:
///   g += wd p;   m = g in step 1, then momentum m + g;   p -= lr (nesterov ? g + momentum m : m)
/// m is NULL without momentum: then p -= lr g.
/// Node: in p, g, m, NULL, ema; out p; a.sgd. ema may be NULL.
void kd_sgd_node(kd_flat_node *o, int64_t n, float *p, const float *g, float *m, float *ema,
                 const kd_step *s, double momentum, bool nesterov);
#endif
