// The optimizer of a training program: clipping, AdamW or SGD by parameter group, and the average of the weights (EMA). The
// rules are PyTorch's (op/optimizer.h); groups and order are k-diffusion's (train.py):
//   1. the gradient of the mean loss of each micro-batch, averaged over the step's micro-batches
//   2. clipping by the norm of all parameters together
//   3. the update, with the learning rates after the steps done so far (kd_lr_at)
//   4. the average, with the decay after the updates done so far (kd_ema_decay_at)
// Groups: 0 decayed, 1 not decayed, 2 and 3 the same of the mapping network and of all `norm.linear` (transformers). Decayed
// are the transformers' linear layers but time_in_proj, aug_in_proj, mapping_cond_in_proj, and v1's in_proj and out_proj;
// image_v1's names that begin with `mapping` or `u_net` and end in `.weight`; all of guided_diffusion's.
#ifndef KD_OPTIMIZER_H
#define KD_OPTIMIZER_H
#include "model/net.h"
#include "op/backend.h"
#include "op/optimizer.h"

/// Backend arrays [params->total] (m, v: [params->trained]); v is NULL for SGD, m too without momentum. stopped [1]: not 0 once a
/// gradient or a loss was not finite (kd_clip). Steps change nothing then, until it is cleared.
typedef struct kd_opt_state { float *w, *ema, *m, *v; double *stopped; } kd_opt_state;

/// Allocates the config's arrays, all zero. On failure nothing is left to free.
int kd_opt_state_new(kd_opt_state *s, kd_backend *be, const kd_params *ps, const kd_config *c, kd_err *err);
void kd_opt_state_free(kd_opt_state *s, kd_backend *be);       // a zeroed one is fine
int64_t kd_opt_state_bytes(const kd_params *ps, const kd_config *c);

/// Does the config's optimizer keep a first moment (SGD: momentum), a second one?
bool kd_opt_has_m(const kd_config *c);
bool kd_opt_has_v(const kd_config *c);

/// The pinned gradients of a graph as one array [params->trained], 0 between the parameters and at idle ones.
kd_val *kd_opt_flatten(kd_graph *g, const kd_params *ps);

/// What an optimizer step adds to a graph. Both outputs must be among the program's.
typedef struct kd_opt_step {
    kd_val *rates;                     // input F64 [KD_RATES]: set it with kd_opt_rates before each run
    kd_val *clip;                      // output F64 [2]: the factor that the gradient was multiplied by, and its norm
    kd_val *done;                      // output: the weights, in their place
} kd_opt_step;

/// Appends one step: the gradient is clipped to `limit` (0: no limit), each group updated by its rule (weight decay in groups 0
/// and 2 only), then ema += (1 - decay)(w - ema), and bounded parameters are cut. Of idle parameters only ema moves, as in the
/// peer. Buffers never change, and ema holds them from the start. If the gradient or a loss is not finite,
/// this step and later ones change nothing (s->stopped).
/// grad  [params->trained]
/// loss  NULL or F32 [N]
/// errors  the graph's
void kd_opt_append(kd_opt_step *o, kd_graph *g, const kd_params *ps, const kd_config *c, const kd_opt_state *s, kd_val *grad,
                   kd_val *loss, double limit);

/// step: 1 for the first (AdamW's bias correction; SGD's first momentum). lr: rate of each group. decay: of the average.
void kd_opt_rates(double rates[KD_RATES], const kd_config *c, int64_t step, const double lr[4], double decay);

/// Rates of groups 0..3: base, base, base/3, base/3 (the mapping network learns at a third).
void kd_group_rates(double lr[4], double base);
#endif
