// Learning rate and EMA decay as functions of a step count: nothing to store but the count.
#include "train/schedule.h"
#include <math.h>

double kd_lr_at(const kd_config *c, double base, int64_t k)
{
    const double warm = 1 - pow(c->lr_warmup, (double)k + 1);     // 0^(k+1) = 0: no warm-up
    double lr = base;
    if (c->lr_type == KD_LR_INVERSE) lr = fmax(c->lr_min, base * pow(1 + (double)k / c->lr_inv_gamma, -c->lr_power));
    if (c->lr_type == KD_LR_EXPONENTIAL) lr = fmax(c->lr_min, base * pow(c->lr_decay, (double)k / c->lr_num_steps));
    return warm * lr;
}

double kd_ema_decay_at(const kd_config *c, int64_t k)
{
    // At k = 0 this is 0: the average starts as the weights after the first step.
    return fmin(c->ema_max, fmax(0, 1 - pow(1 + (double)k, -c->ema_power)));
}
