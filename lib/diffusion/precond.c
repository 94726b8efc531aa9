// The factors around the inner model and the weights of its loss. Karras et al. 2022, arXiv:2206.00364, table 1.
#include "diffusion/denoiser.h"
#include <math.h>

kd_precond kd_precond_of(double s, double d)
{
    const double v = s * s + d * d;
    return (kd_precond){ .c_skip = (float)(d * d / v), .c_out = (float)(s * d / sqrt(v)), .c_in = (float)(1 / sqrt(v)),
                         .c_noise = (float)(log(s) / 4) };
}

/// What the network is told of a level's step. There is no ln 0: k-diffusion's networks are told 1/1000 at the lowest.
static double told_step(const kd_config *c, double s)
{
    const double t = kd_steps_of(c->steps, s, c->quantize) * (c->rescale_timesteps ? 1000.0 / (double)c->steps->n : 1);
    return kd_net_time(c, c->type == KD_MODEL_GUIDED ? t : fmax(t, 1e-3));
}

kd_precond kd_precond_at(const kd_config *c, double s)
{
    const double v = s * s + 1, r = sqrt(v);
    kd_precond p = { .c_skip = (float)(1 / v), .c_out = (float)(-s / r), .c_in = (float)(1 / r) };
    switch (c->wrapper) {
    case KD_WRAP_KARRAS:
        p = kd_precond_of(s, c->sigma_data);
        p.c_noise = (float)kd_net_time(c, s);
        break;
    case KD_WRAP_V:
        p.c_noise = (float)kd_net_time(c, atan(s) * M_2_PI);
        break;
    case KD_WRAP_EPS:
        p.c_skip = 1, p.c_out = (float)-s;
        p.c_noise = (float)told_step(c, s);
        break;
    case KD_WRAP_VD:
        p.c_noise = (float)told_step(c, s);
        break;
    }
    return p;
}

double kd_loss_weight(kd_weight_type w, double s, double d)
{
    const double v = s * s + d * d;
    switch (w) {
    case KD_WEIGHT_KARRAS:       return 1;
    case KD_WEIGHT_SOFT_MIN_SNR: return (s * d) * (s * d) / (v * v);     // Hang et al. 2023, arXiv:2303.09556, softened
    case KD_WEIGHT_SNR:          return d * d / v;
    }
    return NAN;
}

// Weight of frequency i of n: -log2 of a value that runs evenly from 0.5/n (i = 0) to 0.5, at most `scales`.
static double frequency_weight(int64_t i, int64_t n, int64_t scales)
{
    const double first = 0.5 / (double)n;
    const double r = n == 1 ? first : first + (0.5 - first) * (double)i / (double)(n - 1);
    return fmin(-log2(r), (double)scales);
}

void kd_frequency_weights(float *f, int64_t h, int64_t w, int64_t scales)
{
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++)
            f[y * w + x] = (float)fmin(frequency_weight(y, h, scales), frequency_weight(x, w, scales));
}
