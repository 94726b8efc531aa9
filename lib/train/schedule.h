// Learning rate and EMA decay as functions of a step count. Peer: k_diffusion/utils.py InverseLR, ExponentialLR,
// ConstantLRWithWarmup, EMAWarmup.
#ifndef KD_SCHEDULE_H
#define KD_SCHEDULE_H
#include "model/config.h"

/// The learning rate after k earlier steps, with the keys of lr_sched:
///   constant     w base                                               w = 1 - warmup^(k+1)
///   inverse      w max(min_lr, base (1 + k/inv_gamma)^-power)
///   exponential  w max(min_lr, base decay^(k/num_steps))
/// With --accum, k counts optimizer steps. (train.py's scheduler counts micro-batches, so its rates move faster then.)
double kd_lr_at(const kd_config *c, double base, int64_t k);

/// The average's decay after k updates, with the keys of ema_sched: min(max_value, 1 - (1 + k)^-power). It is 0 at k = 0,
/// so after the first step the average equals the weights. (train.py leaves EMAWarmup's inv_gamma at 1, min_value and start_at
/// at 0.)
double kd_ema_decay_at(const kd_config *c, int64_t k);
#endif
