#include "diffusion/sigmas.h"
#include <math.h>

static int check(int64_t n, double smin, double smax, double rho, kd_err *err)
{
    if (n < 1) return kd_fail(err, KD_EUSAGE, "steps: expected at least 1, got %lld", (long long)n);
    if (!isnormal((float)smin) || smin <= 0)
        return kd_fail(err, KD_EUSAGE, "sigma_min: expected a number above 0, got %g", smin);
    if (!isnormal((float)smax) || smax < smin)
        return kd_fail(err, KD_EUSAGE, "sigma_max: expected a number, at least sigma_min (%g), got %g", smin, smax);
    if (!isfinite(rho) || rho <= 0) return kd_fail(err, KD_EUSAGE, "rho: expected a number above 0, got %g", rho);
    return 0;
}

static double ramp(int64_t i, int64_t n) { return n > 1 ? (double)i / (double)(n - 1) : 0; }

int kd_sigmas_karras(float *out, int64_t n, double smin, double smax, double rho, kd_err *err)
{
    KD_TRY(check(n, smin, smax, rho, err));
    const double high = pow(smax, 1 / rho), low = pow(smin, 1 / rho);
    for (int64_t i = 0; i < n; i++) out[i] = (float)pow(high + ramp(i, n) * (low - high), rho);
    out[n] = 0;
    return 0;
}

int kd_sigmas_exponential(float *out, int64_t n, double smin, double smax, kd_err *err)
{
    return kd_sigmas_polyexponential(out, n, smin, smax, 1, err);
}

int kd_sigmas_polyexponential(float *out, int64_t n, double smin, double smax, double rho, kd_err *err)
{
    KD_TRY(check(n, smin, smax, rho, err));
    for (int64_t i = 0; i < n; i++) out[i] = (float)exp(pow(1 - ramp(i, n), rho) * log(smax / smin) + log(smin));
    out[n] = 0;
    return 0;
}

int kd_sigmas_vp(float *out, int64_t n, double beta_d, double beta_min, double eps_s, kd_err *err)
{
    if (n < 1) return kd_fail(err, KD_EUSAGE, "steps: expected at least 1, got %lld", (long long)n);
    if (!(beta_d >= 0 && beta_d < 100)) return kd_fail(err, KD_EUSAGE, "beta_d: expected a number from 0 to 100, got %g", beta_d);
    if (!(beta_min > 0 && beta_min < 100))
        return kd_fail(err, KD_EUSAGE, "beta_min: expected a number above 0 and below 100, got %g", beta_min);
    if (!(eps_s > 1e-30 && eps_s < 1)) return kd_fail(err, KD_EUSAGE, "eps_s: expected a number above 0 and below 1, got %g", eps_s);
    for (int64_t i = 0; i < n; i++) {
        const double t = 1 + ramp(i, n) * (eps_s - 1);
        out[i] = (float)sqrt(expm1(beta_d * t * t / 2 + beta_min * t));
    }
    out[n] = 0;
    return 0;
}

int kd_sigmas_steps(float *out, int64_t n, const kd_steps *s, kd_err *err)
{
    if (n < 1 || n > s->n) return kd_fail(err, KD_EUSAGE, "steps: expected 1 to the model's %lld, got %lld", (long long)s->n, (long long)n);
    for (int64_t i = 0; i < n; i++) out[i] = (float)kd_steps_sigma(s, (double)(s->n - 1) * (1 - ramp(i, n)));
    out[n] = 0;
    return 0;
}
