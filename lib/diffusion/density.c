// Noise levels for training, each density by its inverse distribution function. Read density.h first.
#include "diffusion/density.h"
#include <math.h>

static double ratio(const double *num, const double *den, double x)    // of polynomials of degree 7, highest power first
{
    double a = num[0], b = den[0];
    for (int i = 1; i < 8; i++) { a = a * x + num[i]; b = b * x + den[i]; }
    return a / b;
}

// Inverse of the standard normal distribution function for 1e-11 < p < 1 - 1e-11, to 1e-15 relative: the lognormal
// density never leaves 1e-7 .. 1 - 1e-7, so the far tail's polynomials are left out.
// M. J. Wichura 1988, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37.
static double normal_quantile(double p)
{
    static const double a[8] = { 2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4,
        4.5921953931549871457e+4, 1.3731693765509461125e+4, 1.9715909503065514427e+3, 1.3314166789178437745e+2,
        3.3871328727963666080e+0 };
    static const double b[8] = { 5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4,
        2.1213794301586595867e+4, 5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0 };
    static const double c[8] = { 7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
        1.27045825245236838258e+0, 3.64784832476320460504e+0, 5.76949722146069140550e+0, 4.63033784615654529590e+0,
        1.42343711074968357734e+0 };
    static const double d[8] = { 1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
        1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e+0, 2.05319162663775882187e+0, 1.0 };
    const double q = p - 0.5;
    if (fabs(q) <= 0.425) return q * ratio(a, b, 0.180625 - q * q);
    const double r = sqrt(-log(q < 0 ? p : 1 - p));
    return copysign(ratio(c, d, r - 1.6), q);
}

static double lerp(double a, double b, double u) { return a + u * (b - a); }

static double loglogistic(const kd_density *d, double u)
{
    // The distribution function at x, 1 / (1 + exp(-(ln x - loc) / scale)), holds at x = 0 and infinity too.
    const double low = 1 / (1 + exp(-(log(d->min_value) - d->loc) / d->scale));
    const double high = 1 / (1 + exp(-(log(d->max_value) - d->loc) / d->scale));
    const double p = lerp(low, high, u);
    return exp(d->loc + d->scale * (log(p) - log1p(-p)));
}

// Karras' truncated v-diffusion density, that is, the angle atan(sigma / sigma_data) is uniform.
static double v_diffusion(const kd_density *d, double u)
{
    return d->sigma_data * tan(lerp(atan(d->min_value / d->sigma_data), atan(d->max_value / d->sigma_data), u));
}

// The cosine schedule moved from an image of side image_d to the resolution noise_d. u = 0 is its noisiest end.
static double shifted_cosine(const kd_density *d, double noise_d, double u)
{
    const double rho = noise_d / d->image_d;
    const double angle = lerp(atan(rho * d->max_value / d->sigma_data), atan(rho * d->min_value / d->sigma_data), u);
    return d->sigma_data * tan(angle) / rho;
}

// Hoogeboom et al. 2023, "simple diffusion", arXiv:2301.11093: from the low resolution's schedule to the high one's.
static double cosine_interpolated(const kd_density *d, double u)
{
    return exp(lerp(log(shifted_cosine(d, d->noise_d_low, u)), log(shifted_cosine(d, d->noise_d_high, u)), u));
}

static double split_lognormal(const kd_density *d, double u, double normal)
{
    const double n = fabs(normal);
    const bool left = u < d->scale / (d->scale + d->scale_2);
    return exp(left ? d->loc - d->scale * n : d->loc + d->scale_2 * n);
}

static double step(const kd_steps *s, double u)
{
    const int64_t i = (int64_t)(u * (double)s->n);
    return s->sigma[i < s->n ? i : s->n - 1];           // u just below 1 may round up
}

double kd_density_sigma(const kd_density *d, double u, double normal)
{
    switch (d->type) {
    case KD_DENSITY_LOGNORMAL:           return exp(d->loc + d->scale * normal_quantile(u * (1 - 2e-7) + 1e-7));
    case KD_DENSITY_LOGLOGISTIC:         return loglogistic(d, u);
    case KD_DENSITY_LOGUNIFORM:          return exp(lerp(log(d->min_value), log(d->max_value), u));
    case KD_DENSITY_V_DIFFUSION:         return v_diffusion(d, u);
    case KD_DENSITY_SPLIT_LOGNORMAL:     return split_lognormal(d, u, normal);
    case KD_DENSITY_COSINE_INTERPOLATED: return cosine_interpolated(d, u);
    case KD_DENSITY_STEPS:               return step(d->steps, u);
    }
    return NAN;
}

double kd_stratified(double r, int64_t i, int64_t n, int64_t group, int64_t groups)
{
    return ((double)group + (double)(i * groups) + r) / (double)(n * groups);
}
