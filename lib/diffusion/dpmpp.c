// DPM-Solver++ multistep samplers in the variable t = -ln sigma. s, s1: the noise level before and after a step, h = ln(s/s1)
// the step in t. Lu et al. 2022, arXiv:2211.01095.
#include "diffusion/run.h"
#include <math.h>
#include <string.h>

static void swap(float **a, float **b) { float *c = *a; *a = *b; *b = c; }

// Algorithm 2, DPM-Solver++(2M).
int kd_dpmpp_2m(kd_sampler_run *r, kd_err *err)
{
    float *D, *last;
    KD_TRY(kd_run_buffer(r, &D, err));
    KD_TRY(kd_run_buffer(r, &last, err));
    double h_last = 0;
    for (r->step = 0; r->step < r->steps; r->step++) {
        const double s = r->sigmas[r->step], s1 = r->sigmas[r->step + 1];
        const double h = s1 > 0 ? log(s / s1) : INFINITY;
        KD_TRY(kd_run_denoise(r, D, r->x, s, err));
        // x = (s1/s) x + (1 - exp(-h)) D*, and exp(-h) = s1/s. D* = D, or D + (D - last) / (2 h_last/h).
        const double k = 1 - s1 / s, c = r->step > 0 && s1 > 0 ? h / (2 * h_last) : 0;
        kd_run_mix(r, r->x, s1 / s, r->x, k * (1 + c), D);
        if (c != 0) kd_run_mix(r, r->x, 1, r->x, -k * c, last);
        swap(&D, &last);
        h_last = h;
    }
    return 0;
}

// SDE-DPM-Solver++(2M), appendix D, with eta between the ODE (0) and the SDE (1); the factor of the second-order term is
// that of a midpoint or of a Heun step.
int kd_dpmpp_2m_sde(kd_sampler_run *r, kd_err *err)
{
    const double eta = r->o->eta;
    const bool heun = !strcmp(r->o->solver, "heun");
    float *D, *last, *z;
    KD_TRY(kd_run_buffer(r, &D, err));
    KD_TRY(kd_run_buffer(r, &last, err));
    KD_TRY(kd_run_buffer(r, &z, err));
    double h_last = 0;
    for (r->step = 0; r->step < r->steps; r->step++) {
        const double s = r->sigmas[r->step], s1 = r->sigmas[r->step + 1];
        KD_TRY(kd_run_denoise(r, D, r->x, s, err));
        if (s1 == 0) {
            kd_run_mix(r, r->x, 0, r->x, 1, D);
            return 0;
        }
        const double h = log(s / s1), k = h * (1 + eta), first = -expm1(-k);
        const double second = r->step == 0 ? 0 : (heun ? 1 - first / k : first / 2) * h / h_last;
        kd_run_mix(r, r->x, s1 / s * exp(-eta * h), r->x, first + second, D);
        if (second != 0) kd_run_mix(r, r->x, 1, r->x, -second, last);  // x += second (D - last)
        KD_TRY(kd_run_add_noise(r, r->x, s1 * sqrt(-expm1(-2 * eta * h)) * r->o->s_noise, r->step, s, s1, z, err));
        swap(&D, &last);
        h_last = h;
    }
    return 0;
}

// SDE-DPM-Solver++(3M): the second and third differences of D in t, with the factors phi_2 and phi_3 of exponential
// integrators. There is no paper; it is k-diffusion's. There phi_3 multiplies the divided difference, which is half of the
// second derivative that it belongs to: so with eta 0 it converges with order 2, from a smaller error than 2M's. With twice the
// factor it would with order 3, but not draw the peer's images (tests/unit/toy.c measures it).
int kd_dpmpp_3m_sde(kd_sampler_run *r, kd_err *err)
{
    const double eta = r->o->eta;
    float *D, *last, *before, *z;                                      // D of this step and the two before
    KD_TRY(kd_run_buffer(r, &D, err));
    KD_TRY(kd_run_buffer(r, &last, err));
    KD_TRY(kd_run_buffer(r, &before, err));
    KD_TRY(kd_run_buffer(r, &z, err));
    double h_last = 0, h_before = 0;
    for (r->step = 0; r->step < r->steps; r->step++) {
        const double s = r->sigmas[r->step], s1 = r->sigmas[r->step + 1];
        KD_TRY(kd_run_denoise(r, D, r->x, s, err));
        if (s1 == 0) {
            kd_run_mix(r, r->x, 0, r->x, 1, D);
            return 0;
        }
        const double h = log(s / s1), k = h * (1 + eta), phi2 = expm1(-k) / k + 1, phi3 = phi2 / k - 0.5;
        // With r0 = h_last/h, r1 = h_before/h, a = (D - last)/r0, b = (last - before)/r1, the sum
        // phi2 (a + (a - b) r0/(r0+r1)) - phi3 (a - b)/(r0+r1) is c0 a + c1 b, here in the step's three D.
        const double r0 = h_last / h, r1 = h_before / h;
        const double second = r->step > 1 ? (phi2 * r0 - phi3) / (r0 + r1) : 0;
        const double ca = r->step > 0 ? (phi2 + second) / r0 : 0, cb = r->step > 1 ? -second / r1 : 0;
        kd_run_mix(r, r->x, exp(-k), r->x, -expm1(-k) + ca, D);
        if (r->step > 0) kd_run_mix(r, r->x, 1, r->x, cb - ca, last);
        if (r->step > 1) kd_run_mix(r, r->x, 1, r->x, -cb, before);
        KD_TRY(kd_run_add_noise(r, r->x, s1 * sqrt(-expm1(-2 * eta * h)) * r->o->s_noise, r->step, s, s1, z, err));
        swap(&before, &last);
        swap(&last, &D);
        h_before = h_last, h_last = h;
    }
    return 0;
}
