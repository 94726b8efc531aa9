// Euler, Heun and Euler ancestral. s, s1: the noise level before and after a step.
#include "diffusion/run.h"
#include <math.h>

// Stochastic churn: raises x from level s to a higher level by fresh noise; returns that level.
// Karras et al. 2022, arXiv:2206.00364, algorithm 2.
static int churn(kd_sampler_run *r, double s, double *raised, float *z, kd_err *err)
{
    const kd_sampler_opts *o = r->o;
    const double gamma = o->s_tmin <= s && s <= o->s_tmax ? fmin(o->s_churn / (double)r->steps, sqrt(2) - 1) : 0;
    *raised = s * (1 + gamma);
    return kd_run_add_noise(r, r->x, o->s_noise * sqrt(*raised * *raised - s * s), s, *raised, z, err);
}

int kd_euler(kd_sampler_run *r, kd_err *err)
{
    float *d;
    KD_TRY(kd_run_buffer(r, &d, err));
    for (r->step = 0; r->step < r->steps; r->step++) {
        const double s1 = r->sigmas[r->step + 1];
        double s;
        KD_TRY(churn(r, r->sigmas[r->step], &s, d, err));
        KD_TRY(kd_run_slope(r, d, r->x, s, err));
        kd_run_mix(r, r->x, 1, r->x, s1 - s, d);                       // x += (s1 - s) d
    }
    return 0;
}

// Karras et al. 2022, algorithm 1 (with the churn of algorithm 2).
int kd_heun(kd_sampler_run *r, kd_err *err)
{
    float *d, *d1, *y;
    KD_TRY(kd_run_buffer(r, &d, err));
    KD_TRY(kd_run_buffer(r, &d1, err));
    KD_TRY(kd_run_buffer(r, &y, err));
    for (r->step = 0; r->step < r->steps; r->step++) {
        const double s1 = r->sigmas[r->step + 1];
        double s;
        KD_TRY(churn(r, r->sigmas[r->step], &s, d, err));
        KD_TRY(kd_run_slope(r, d, r->x, s, err));
        if (s1 > 0) {
            kd_run_mix(r, y, 1, r->x, s1 - s, d);                      // y = x + (s1 - s) d
            KD_TRY(kd_run_slope(r, d1, y, s1, err));
            kd_run_mix(r, d, 0.5, d, 0.5, d1);                         // the mean of both slopes
        }
        kd_run_mix(r, r->x, 1, r->x, s1 - s, d);
    }
    return 0;
}

// A step down to `down` by the ODE and up again to s1 by noise `up`, so that the variance fits: up^2 + down^2 = s1^2.
// Song et al. 2020, arXiv:2010.02502, eq. 16, in the variable sigma; eta 0 is the ODE, 1 the ancestral sampler.
int kd_euler_ancestral(kd_sampler_run *r, kd_err *err)
{
    float *d;
    KD_TRY(kd_run_buffer(r, &d, err));
    for (r->step = 0; r->step < r->steps; r->step++) {
        const double s = r->sigmas[r->step], s1 = r->sigmas[r->step + 1];
        const double up = fmin(s1, r->o->eta * sqrt(s1 * s1 * (s * s - s1 * s1) / (s * s)));
        const double down = sqrt(s1 * s1 - up * up);
        KD_TRY(kd_run_slope(r, d, r->x, s, err));
        kd_run_mix(r, r->x, 1, r->x, down - s, d);
        KD_TRY(kd_run_add_noise(r, r->x, r->o->s_noise * up, s, s1, d, err));
    }
    return 0;
}
