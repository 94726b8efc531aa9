// The optimizer on flat arrays: clip, AdamW or SGD by parameter group, EMA. golden README section 8.
#ifndef KD_OPTIMIZER_H
#define KD_OPTIMIZER_H
#include "model/net.h"
#include "op/backend.h"

/// Backend arrays [params->total] (grad, m, v: [params->trained]); v is NULL for SGD, m too without momentum. grad is the
/// caller's, 0 between the parameters and at idle ones.
typedef struct kd_opt_state {
    float *w, *ema, *grad, *m, *v;
    double *sum; void *scratch;        // of kd_grad_norm
} kd_opt_state;

/// Allocates the config's arrays, all zero, but for grad. On failure nothing is left to free.
int kd_opt_state_new(kd_opt_state *s, kd_backend *be, const kd_params *ps, const kd_config *c, kd_err *err);
void kd_opt_state_free(kd_opt_state *s, kd_backend *be);       // a zeroed one is fine
int64_t kd_opt_state_bytes(const kd_params *ps, const kd_config *c);

/// Does the config's optimizer keep a first moment (SGD: momentum), a second one?
bool kd_opt_has_m(const kd_config *c);
bool kd_opt_has_v(const kd_config *c);

/// Norm of the gradient, in double, by a fixed tree.
int kd_grad_norm(kd_backend *be, const kd_params *ps, const kd_opt_state *s, double *norm, kd_err *err);
/// What the gradient is multiplied by so that its norm is at most `limit` (0: no limit): min(1, limit / (norm + 1e-6)).
double kd_clip_factor(double norm, double limit);
/// to += part, for a gradient summed over micro-batches. Arrays of [params->trained].
int kd_grad_accumulate(kd_backend *be, const kd_params *ps, float *to, const float *part, kd_err *err);

/// Rates of groups 0..3: base, base, base/3, base/3 (the mapping network learns at a third).
void kd_group_rates(double lr[4], double base);

/// One step: gradient times clip factor, then each group by its rule (decay in groups 0 and 2 only), then
/// ema += (1 - decay)(w - ema). Of idle parameters only ema moves, as in the peer. Buffers are not touched: they never
/// change, and ema holds them from the start.
/// step: 1 for the first (AdamW's bias correction; SGD's first buffer). lr[4]: rate of each group.
int kd_opt_step(kd_backend *be, const kd_params *ps, const kd_config *c, const kd_opt_state *s, int64_t step,
                const double lr[4], double clip_factor, double ema_decay, kd_err *err);
#endif
