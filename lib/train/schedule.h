// Learning rate and EMA decay as functions of a step count. Peer: k_diffusion/utils.py InverseLR, ExponentialLR,
// ConstantLRWithWarmup, EMAWarmup. golden README section 7.
#ifndef KD_SCHEDULE_H
#define KD_SCHEDULE_H
#include "model/config.h"
double kd_lr_at(const kd_config *c, double base, int64_t k);         // k: scheduler calls so far
double kd_ema_decay_at(const kd_config *c, int64_t k);               // k: EMA updates so far; 0 at k = 0
#endif
