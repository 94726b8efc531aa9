// Ops for the end of a training step: the gradient as one array, its norm and the factor that clips it, and the update
// rules. They change arrays of the caller's in place, and have no gradient.
#ifndef KD_OP_OPTIMIZER_H
#define KD_OP_OPTIMIZER_H
#include "op/op.h"

/// All pinned values of the graph made so far as one array [n], which is pinned at 0 itself. What lies between them is set
/// to 0: gaps [n_gaps] are (first element, count) pairs. n_gaps may be 0.
kd_val *kd_flatten(kd_graph *g, int64_t n, const int64_t (*gaps)[2], int64_t n_gaps);

/// F64 [1], the sum of x^2: squares and sums in double, tiles of 4096 elements, then a fixed tree.
kd_val *kd_sum_squares(kd_graph *g, kd_val *x);

/// y += x. y is bound; the result is bound to the same memory.
kd_val *kd_accumulate(kd_graph *g, kd_val *y, kd_val *x);

/// F64 [2]: the factor by which a gradient is multiplied so that its norm is at most `limit` (0: no limit), and its norm.
///   norm = sqrt(square);  factor = min(1, limit / (norm + 1e-6)), but 0 if the norm or a loss is not finite
/// square   F64 [1], from kd_sum_squares
/// loss     NULL or F32 [N]
/// stopped  NULL or F64 [1], bound: set to 1 if the norm or a loss is not finite. As long as it is not 0, the factor is 0, so
///          steps that are already queued change nothing
kd_val *kd_clip(kd_graph *g, kd_val *square, kd_val *loss, kd_val *stopped, double limit);

/// The arrays of an update. p, m, v and ema are bound and changed in place; the result is bound to p's memory.
typedef struct kd_update {
    kd_val *p, *grad;
    kd_val *m, *v;                    // kd_sgd: v is NULL, without momentum m too
    kd_val *ema;                      // NULL: no average is kept
    kd_val *clip;                     // from kd_clip. The gradient is multiplied by its factor; factor 0 changes nothing at all
    kd_val *rates;                    // F64 [KD_RATES], an input: what changes from step to step
    kd_val *runs;                     // F64 [runs,KD_RUN_COLUMNS], a constant: the parts of the arrays that follow one rule
} kd_update;

/// AdamW, Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2; as in PyTorch:
///   p *= 1 - lr wd;   m += (1 - beta1)(g - m);   v += (1 - beta2)(g^2 - v)
///   p -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
/// then ema += (1 - decay)(p - ema), so that decay 0 copies p exactly, and p = min(p, most).
kd_val *kd_adamw(kd_graph *g, const kd_update *u, double weight_decay, double beta1, double beta2, double eps);

/// SGD as in PyTorch, then the average and the cut as above:
///   g += wd p;   m = g in step 1, then momentum m + g;   p -= lr (nesterov ? g + momentum m : m)
/// Without m: p -= lr g.
kd_val *kd_sgd(kd_graph *g, const kd_update *u, double weight_decay, double momentum, bool nesterov);
#endif
