// DPM-Solver++ with two calls a step: 2S with ancestral noise, and SDE. In the variable t = -ln sigma a step of length h by
// a denoised image D is x = exp(-h) x + (1 - exp(-h)) D, and exp(-h) = down/s. Lu et al. 2022, arXiv:2211.01095.
#include "diffusion/run.h"
#include <math.h>

// out = the step from s to s1 with D
static void step(const kd_sampler_run *r, float *out, double s, double s1, const float *D)
{
    kd_run_mix(r, out, s1 / s, r->x, 1 - s1 / s, D);
}

// Algorithm 1, DPM-Solver++(2S), with the middle at r = 1/2.
int kd_dpmpp_2s_ancestral(kd_sampler_run *r, kd_err *err)
{
    float *D, *y;
    KD_TRY(kd_run_buffer(r, &D, err));
    KD_TRY(kd_run_buffer(r, &y, err));
    for (r->step = 0; r->step < r->steps; r->step++) {
        const double s = r->sigmas[r->step], s1 = r->sigmas[r->step + 1];
        const kd_ancestral a = kd_ancestral_of(s, s1, r->o->eta);
        KD_TRY(kd_run_denoise(r, D, r->x, s, err));
        if (a.down > 0) {
            const double middle = sqrt(s * a.down);
            step(r, y, s, middle, D);
            KD_TRY(kd_run_denoise(r, D, y, middle, err));
        }
        step(r, r->x, s, a.down, D);
        KD_TRY(kd_run_add_noise(r, r->x, r->o->s_noise * a.up, r->step, s, s1, y, err));
    }
    return 0;
}

// Both of a step's noises are increments of the path from s: the second contains the first.
int kd_dpmpp_sde(kd_sampler_run *r, kd_err *err)
{
    const kd_sampler_opts *o = r->o;
    const double f = 1 / (2 * o->r);
    float *D, *D2, *y;
    KD_TRY(kd_run_buffer(r, &D, err));
    KD_TRY(kd_run_buffer(r, &D2, err));
    KD_TRY(kd_run_buffer(r, &y, err));
    for (r->step = 0; r->step < r->steps; r->step++) {
        const double s = r->sigmas[r->step], s1 = r->sigmas[r->step + 1];
        KD_TRY(kd_run_denoise(r, D, r->x, s, err));
        if (s1 == 0) {
            kd_run_mix(r, r->x, 0, r->x, 1, D);
            return 0;
        }
        const double middle = s * pow(s1 / s, o->r);
        const kd_ancestral first = kd_ancestral_of(s, middle, o->eta), whole = kd_ancestral_of(s, s1, o->eta);
        step(r, y, s, first.down, D);
        KD_TRY(kd_run_add_noise(r, y, o->s_noise * first.up, 2 * r->step, s, middle, D2, err));
        KD_TRY(kd_run_denoise(r, D2, y, middle, err));
        kd_run_mix(r, D, 1 - f, D, f, D2);
        step(r, r->x, s, whole.down, D);
        KD_TRY(kd_run_add_noise(r, r->x, o->s_noise * whole.up, 2 * r->step + 1, s, s1, y, err));
    }
    return 0;
}
