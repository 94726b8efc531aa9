// DPM-Solver-2: a step by the slope in its middle, the middle in ln sigma. Lu et al. 2022, arXiv:2206.00927, algorithm 1, in
// the variable sigma, with the churn of Karras et al. 2022 or ancestral noise. s, s1: the noise level before and after.
#include "diffusion/run.h"
#include <math.h>

// From s to s1 by the ODE.
static int step(kd_sampler_run *r, double s, double s1, float *d, float *y, kd_err *err)
{
    KD_TRY(kd_run_slope(r, d, r->x, s, err));
    if (s1 > 0) {
        const double middle = sqrt(s * s1);
        kd_run_mix(r, y, 1, r->x, middle - s, d);
        KD_TRY(kd_run_slope(r, d, y, middle, err));
    }
    kd_run_mix(r, r->x, 1, r->x, s1 - s, d);
    return 0;
}

int kd_dpm_2(kd_sampler_run *r, kd_err *err)
{
    float *d, *y;
    KD_TRY(kd_run_buffer(r, &d, err));
    KD_TRY(kd_run_buffer(r, &y, err));
    for (r->step = 0; r->step < r->steps; r->step++) {
        double s;
        KD_TRY(kd_run_churn(r, r->sigmas[r->step], &s, d, err));
        KD_TRY(step(r, s, r->sigmas[r->step + 1], d, y, err));
    }
    return 0;
}

int kd_dpm_2_ancestral(kd_sampler_run *r, kd_err *err)
{
    float *d, *y;
    KD_TRY(kd_run_buffer(r, &d, err));
    KD_TRY(kd_run_buffer(r, &y, err));
    for (r->step = 0; r->step < r->steps; r->step++) {
        const double s = r->sigmas[r->step], s1 = r->sigmas[r->step + 1];
        const kd_ancestral a = kd_ancestral_of(s, s1, r->o->eta);
        KD_TRY(step(r, s, a.down, d, y, err));
        KD_TRY(kd_run_add_noise(r, r->x, r->o->s_noise * a.up, r->step, s, s1, d, err));
    }
    return 0;
}
