#include "diffusion/sigmas.h"
#include <math.h>

int kd_sigma_check(const char *name, double sigma, kd_err *err)
{
    if (sigma >= KD_SIGMA_LEAST && sigma <= KD_SIGMA_MOST) return 0;
    return kd_fail(err, KD_EUSAGE, "%s: expected a noise level from %g to %g, got %g", name, KD_SIGMA_LEAST, KD_SIGMA_MOST, sigma);
}

int kd_sigma_check_ends(double smin, double smax, kd_err *err)
{
    KD_TRY(kd_sigma_check("sigma_min", smin, err));
    KD_TRY(kd_sigma_check("sigma_max", smax, err));
    if ((float)smax > (float)smin) return 0;
    return kd_fail(err, KD_EUSAGE, "sigma_max: expected a number above sigma_min (%g), got %g", smin, smax);
}

int kd_sigmas_check(const float *sigmas, int64_t levels, const char *what, kd_err *err)
{
    const float least = (float)(KD_SIGMA_LEAST * (1 - 1e-6)), most = (float)(KD_SIGMA_MOST * (1 + 1e-6));      // rounded, both are in
    for (int64_t i = 0; i < levels; i++) {
        const float s = sigmas[i];
        const bool falls = i == 0 || s < sigmas[i - 1], end = i == levels - 1 && s == 0;
        if (falls && ((s >= least && s <= most) || end)) continue;
        return kd_fail(err, KD_EUSAGE, "%s: level number %lld is %.9g%s: expected levels from %g to %g that fall, the last may be 0", what,
                       (long long)i, (double)s, i > 0 && s == sigmas[i - 1] ? " again" : "", KD_SIGMA_MOST, KD_SIGMA_LEAST);
    }
    return 0;
}

static int check_steps(int64_t n, kd_err *err)
{
    return n >= 1 ? 0 : kd_fail(err, KD_EUSAGE, "steps: expected at least 1, got %lld", (long long)n);
}

// One level needs no room between the ends.
static int check(int64_t n, double smin, double smax, double rho, kd_err *err)
{
    KD_TRY(check_steps(n, err));
    if (n > 1 || smin != smax) KD_TRY(kd_sigma_check_ends(smin, smax, err));
    else KD_TRY(kd_sigma_check("sigma_max", smax, err));
    return isfinite(rho) && rho > 0 ? 0 : kd_fail(err, KD_EUSAGE, "rho: expected a number above 0, got %g", rho);
}

// Powers lose their digits, or leave the range of numbers, where rho is far from 1: the ends then are not where they should be.
static int check_rho(const float *out, int64_t n, double smin, double smax, double rho, kd_err *err)
{
    const double near = 1e-4;
    if (fabs(out[0] - smax) <= near * smax && (n == 1 || fabs(out[n - 1] - smin) <= near * smin)) return 0;
    return kd_fail(err, KD_EUSAGE, "rho: with %g the levels would miss their ends, %g and %g", rho, smax, smin);
}

static double ramp(int64_t i, int64_t n) { return n > 1 ? (double)i / (double)(n - 1) : 0; }

int kd_sigmas_karras(float *out, int64_t n, double smin, double smax, double rho, kd_err *err)
{
    KD_TRY(check(n, smin, smax, rho, err));
    const double high = pow(smax, 1 / rho), low = pow(smin, 1 / rho);
    for (int64_t i = 0; i < n; i++) out[i] = (float)pow(high + ramp(i, n) * (low - high), rho);
    out[n] = 0;
    KD_TRY(check_rho(out, n, smin, smax, rho, err));
    return kd_sigmas_check(out, n + 1, "sigma_min, sigma_max and rho for so many steps", err);
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
    KD_TRY(check_rho(out, n, smin, smax, rho, err));
    return kd_sigmas_check(out, n + 1, rho == 1 ? "sigma_min and sigma_max for so many steps"
                                                : "sigma_min, sigma_max and rho for so many steps", err);
}

int kd_sigmas_vp(float *out, int64_t n, double beta_d, double beta_min, double eps_s, kd_err *err)
{
    KD_TRY(check_steps(n, err));
    if (!(beta_d >= 0 && beta_d < 100)) return kd_fail(err, KD_EUSAGE, "beta_d: expected a number from 0 to 100, got %g", beta_d);
    if (!(beta_min > 0 && beta_min < 100))
        return kd_fail(err, KD_EUSAGE, "beta_min: expected a number above 0 and below 100, got %g", beta_min);
    if (!(eps_s > 0 && eps_s < 1)) return kd_fail(err, KD_EUSAGE, "eps_s: expected a number above 0 and below 1, got %g", eps_s);
    for (int64_t i = 0; i < n; i++) {
        const double t = 1 + ramp(i, n) * (eps_s - 1);
        out[i] = (float)sqrt(expm1(beta_d * t * t / 2 + beta_min * t));
    }
    out[n] = 0;
    return kd_sigmas_check(out, n + 1, "beta_d, beta_min and eps_s for so many steps", err);
}

int kd_sigmas_steps(float *out, int64_t n, const kd_steps *s, kd_err *err)
{
    if (n < 1 || n > s->n) return kd_fail(err, KD_EUSAGE, "steps: expected 1 to the model's %lld, got %lld", (long long)s->n, (long long)n);
    for (int64_t i = 0; i < n; i++) out[i] = (float)kd_steps_sigma(s, (double)(s->n - 1) * (1 - ramp(i, n)));
    out[n] = 0;
    return kd_sigmas_check(out, n + 1, "the model's steps", err);
}
