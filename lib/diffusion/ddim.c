// DDPM and DDIM, in the letters of their papers: a = alpha_t, a1 = alpha_{t-1} (products up to there), x_t = sqrt(a) x0 +
// sqrt(1-a) noise. The run's x is x_t / sqrt(a), and s^2 = (1-a)/a. Song et al. 2020, arXiv:2010.02502, eq. 12 and 16; with
// eta 1 the deviation is that of Ho et al. 2020, arXiv:2006.11239, sec. 3.2, sigma_t^2 = (1-a1)/(1-a) (1 - a/a1).
// On a model's own noise levels (--schedule model) these are its training's steps; others are as good.
#include "diffusion/run.h"
#include <math.h>

static int steps(kd_sampler_run *r, double eta, kd_err *err)
{
    float *D, *z;
    KD_TRY(kd_run_buffer(r, &D, err));
    KD_TRY(kd_run_buffer(r, &z, err));
    for (r->step = 0; r->step < r->steps; r->step++) {
        const double s = r->sigmas[r->step], s1 = r->sigmas[r->step + 1];
        // sigma_t / sqrt(a1), written in s: 1 - a has no digits left where s is small. DDIM goes up the levels too.
        const double deviation = eta > 0 ? eta * s1 / s * sqrt(s * s - s1 * s1) : 0;
        KD_TRY(kd_run_denoise(r, D, r->x, s, err));
        // x_{t-1} = sqrt(a1) x0 + sqrt(1 - a1 - sigma_t^2) eps + sigma_t z, eps = (x - x0)/s, all over sqrt(a1)
        const double c = sqrt(s1 * s1 - deviation * deviation) / s;
        kd_run_mix(r, r->x, c, r->x, 1 - c, D);
        KD_TRY(kd_run_add_noise(r, r->x, r->o->s_noise * deviation, r->step, s, s1, z, err));
    }
    return 0;
}

int kd_ddim(kd_sampler_run *r, kd_err *err) { return steps(r, 0, err); }
int kd_ddpm(kd_sampler_run *r, kd_err *err) { return steps(r, 1, err); }
