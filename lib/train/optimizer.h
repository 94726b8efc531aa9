// The optimizer on flat arrays: clip, AdamW or SGD by parameter group, EMA. golden README section 8.
#ifndef KD_OPTIMIZER_H
#define KD_OPTIMIZER_H
#include "model/net.h"
#include "op/backend.h"

/// Backend arrays [params->total] (grad, m, v: [params->trained]); v is NULL for SGD, m too without momentum.
typedef struct kd_opt_state { float *w, *ema, *grad, *m, *v; } kd_opt_state;

/// Norm of the gradient, in double, by a fixed tree.
int kd_grad_norm(kd_backend *be, const kd_params *ps, const kd_opt_state *s, double *norm, kd_err *err);

/// to += part, for a gradient summed over micro-batches. Arrays of [params->trained].
int kd_grad_accumulate(kd_backend *be, const kd_params *ps, float *to, float *part, kd_err *err);

/// One step: gradient times clip factor, then each group by its rule, then ema += (1 - decay)(w - ema); buffers are copied.
/// step: 1 for the first (AdamW's bias correction; SGD's first buffer). lr[4]: rate of each group.
int kd_opt_step(kd_backend *be, const kd_params *ps, const kd_config *c, const kd_opt_state *s, int64_t step,
                const double lr[4], double clip_factor, double ema_decay, kd_err *err);
#endif
