#include "model/steps.h"
#include "base/memory.h"
#include <math.h>

static double cosine_alpha(double u)
{
    const double c = cos((u + 0.008) / 1.008 * M_PI / 2);
    return c * c;
}

static double beta_of(kd_steps_type type, int64_t i, int64_t n, double start, double end)
{
    const double last = (double)(n - 1), at = (double)i, scale = 1000.0 / (double)n;
    double root;
    switch (type) {
    case KD_STEPS_LINEAR: return scale * (0.0001 + (0.02 - 0.0001) * at / last);
    case KD_STEPS_COSINE: return fmin(1 - cosine_alpha((at + 1) / (double)n) / cosine_alpha(at / (double)n), 0.999);
    case KD_STEPS_SCALED_LINEAR:
        root = sqrt(start) + (sqrt(end) - sqrt(start)) * at / last;
        return root * root;
    }
    return NAN;
}

int kd_steps_new(kd_steps **out, kd_steps_type type, int64_t n, double start, double end, kd_err *err)
{
    kd_steps *s = *out = kd_alloc(sizeof *s);
    if (!s)
        return kd_fail_memory(err, "a noise schedule");
    s->n = n;
    s->beta = kd_alloc((size_t)n * sizeof *s->beta), s->alpha = kd_alloc((size_t)n * sizeof *s->alpha);
    s->sigma = kd_alloc((size_t)n * sizeof *s->sigma), s->log_sigma = kd_alloc((size_t)n * sizeof *s->log_sigma);
    if (!s->beta || !s->alpha || !s->sigma || !s->log_sigma) {
        kd_steps_free(s);
        *out = NULL;
        return kd_fail_memory(err, "a noise schedule");
    }
    double product = 1;
    for (int64_t i = 0; i < n; i++) {
        s->beta[i] = beta_of(type, i, n, start, end);
        s->alpha[i] = product *= 1 - s->beta[i];
        const float alpha = (float)product;
        s->sigma[i] = sqrtf((1 - alpha) / alpha);
        s->log_sigma[i] = logf(s->sigma[i]);
    }
    return 0;
}

void kd_steps_free(kd_steps *s)
{
    if (!s)
        return;
    kd_free(s->beta);
    kd_free(s->alpha);
    kd_free(s->sigma);
    kd_free(s->log_sigma);
    kd_free(s);
}

double kd_steps_of(const kd_steps *s, double sigma, bool quantize)
{
    int64_t low = 0, high = s->n - 1;
    const double x = log(sigma);
    while (high - low > 1) {                                // log_sigma[low] <= x < log_sigma[high], but for x at the ends
        const int64_t mid = low + (high - low) / 2;
        if (s->log_sigma[mid] <= x || s->sigma[mid] == (float)sigma)
            low = mid;
        else
            high = mid;
    }
    if ((float)sigma == s->sigma[low])
        return (double)low;
    if ((float)sigma == s->sigma[high])
        return (double)high;
    const double a = s->log_sigma[low], b = s->log_sigma[high];
    if (quantize)
        return (double)(fabs(x - a) <= fabs(x - b) ? low : high);
    return (double)low + fmin(fmax((x - a) / (b - a), 0), 1);
}

double kd_steps_sigma(const kd_steps *s, double t)
{
    const int64_t low = (int64_t)floor(t), high = (int64_t)ceil(t);
    const double w = t - floor(t);
    return exp((1 - w) * (double)s->log_sigma[low] + w * (double)s->log_sigma[high]);
}
