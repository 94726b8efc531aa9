// Euler, Heun and Euler ancestral. s, s1: the noise level before and after a step.
#include "diffusion/run.h"

int kd_euler(kd_sampler_run *r, kd_err *err)
{
    float *d;
    KD_TRY(kd_run_buffer(r, &d, err));
    for (r->step = 0; r->step < r->steps; r->step++) {
        const double s1 = r->sigmas[r->step + 1];
        double s;
        KD_TRY(kd_run_churn(r, r->sigmas[r->step], &s, d, err));
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
        KD_TRY(kd_run_churn(r, r->sigmas[r->step], &s, d, err));
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

int kd_euler_ancestral(kd_sampler_run *r, kd_err *err)
{
    float *d;
    KD_TRY(kd_run_buffer(r, &d, err));
    for (r->step = 0; r->step < r->steps; r->step++) {
        const double s = r->sigmas[r->step], s1 = r->sigmas[r->step + 1];
        const kd_ancestral a = kd_ancestral_of(s, s1, r->o->eta);
        KD_TRY(kd_run_slope(r, d, r->x, s, err));
        kd_run_mix(r, r->x, 1, r->x, a.down - s, d);
        KD_TRY(kd_run_add_noise(r, r->x, r->o->s_noise * a.up, r->step, s, s1, d, err));
    }
    return 0;
}
