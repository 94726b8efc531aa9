#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][3] = { { 1, 1, 0 }, { 3, 37, 0 }, { 3, 41, 1 }, { 2, 5000, 1 } };       // N, elements an image, first step

/// Factors of image n. Variances stay where no probability is so small that the reference loses its digits.
static void factors(double k[KD_BOUND_FACTORS], int64_t n, bool first)
{
    k[KD_BOUND_MID] = -3 + 0.25 * (double)n, k[KD_BOUND_HALF] = 0.5, k[KD_BOUND_TRUE] = -3.5;
    k[KD_BOUND_MEAN] = 0.03125, k[KD_BOUND_FIRST] = first, k[KD_BOUND_WEIGHT] = 1 + (double)n;
}

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *range = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1]), NORMAL(0, 1)), *data[3];
    for (int i = 0; i < 3; i++) data[i] = t_input(b, T_IMAGES | T_DATA, KD_SHAPE(c[0], c[1]), NORMAL(0, 1));
    kd_val *k = kd_const(b->g, "k", KD_SHAPE(c[0], KD_BOUND_FACTORS), NULL);
    for (int64_t n = 0; k && n < c[0]; n++) {
        double f[KD_BOUND_FACTORS];
        factors(f, n, c[2]);
        for (int i = 0; i < KD_BOUND_FACTORS; i++) ((float *)k->host)[n * KD_BOUND_FACTORS + i] = (float)f[i];
    }
    return kd_bound(b->g, range, data[0], data[1], data[2], k);
}

static double cdf(double z) { return 0.5 * (1 + tanh(sqrt(2 / M_PI) * (z + 0.044715 * pow(z, 3)))); }

/// guided_diffusion/losses.py discretized_gaussian_log_likelihood
static double log_likelihood(double x, double mean, double log_scale)
{
    const double inv = exp(-log_scale), plus = cdf(inv * (x - mean + 1 / 255.0)), minus = cdf(inv * (x - mean - 1 / 255.0));
    return log(fmax(1e-12, x < -0.999 ? plus : x > 0.999 ? 1 - minus : plus - minus));
}

/// guided_diffusion/losses.py normal_kl
static double normal_kl(double mean1, double logvar1, double mean2, double logvar2)
{
    return 0.5 * (-1 + logvar2 - logvar1 + exp(logvar1 - logvar2) + pow(mean1 - mean2, 2) * exp(-logvar2));
}

static void ref(const t_ref *r)
{
    const int64_t m = r->c[1];
    for (int64_t n = 0; n < r->c[0]; n++) {
        double sum = 0, f[KD_BOUND_FACTORS];
        factors(f, n, r->c[2]);
        for (int64_t i = n * m; i < (n + 1) * m; i++) {
            const double L = f[KD_BOUND_MID] + f[KD_BOUND_HALF] * r->in[0][i], x = r->in[3][i];
            const double error = f[KD_BOUND_MEAN] * (r->in[1][i] - r->in[2][i]);
            sum += r->c[2] ? -log_likelihood(x, x - error, L / 2) : normal_kl(error, f[KD_BOUND_TRUE], 0, L);
        }
        r->y[n] = f[KD_BOUND_WEIGHT] * sum / (double)m / log(2);
    }
}

KD_TEST_OP(bound, cases, .build = build, .ref = ref, .grad_tol = 2e-5)
