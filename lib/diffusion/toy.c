#include "diffusion/toy.h"
#include "base/memory.h"
#include "base/parallel.h"
#include <math.h>
#include <string.h>

typedef struct toy {
    const kd_config *c;
    const float *weight, *std, *mean;  // [k], [k], [k] or [k,c,h,w]
    int64_t k, size;
    const float *x, *sigma, *v; float *denoised, *vjp;
    double *scratch;                   // [threads, 3 k]
} toy;

static const float *parameter(const kd_model *m, const char *name) { return m->w + kd_params_find(m->params, name)->offset; }

// Mean of component k at element i of an image, which is NHWC while `mean` is NCHW.
static double mean_at(const toy *t, int64_t k, int64_t i)
{
    if (t->c->per_pixel) return t->mean[k];
    const int64_t channels = t->c->channels, pixels = t->size / channels;
    return t->mean[k * t->size + i % channels * pixels + i / channels];
}

// The elements first .. first+n-1 of an image, as one draw from the mixture. at: their place in the batch.
static void solve(const toy *t, double s, int64_t first, int64_t n, int64_t at, double *scratch)
{
    const int64_t K = t->k;
    double *r = scratch, *dot = r + K, *shrink = dot + K;              // responsibilities; v . (m_k s^2 + x q_k^2)/v_k; q_k^2/v_k
    double most = -INFINITY, sum = 0, mean_shrink = 0, mean_dot = 0;
    for (int64_t k = 0; k < K; k++) {
        const double q2 = (double)t->std[k] * t->std[k], var = q2 + s * s;
        double square = 0;
        dot[k] = 0, shrink[k] = q2 / var;
        for (int64_t i = 0; i < n; i++) {
            const double x = t->x[at + i], d = x - mean_at(t, k, first + i);
            square += d * d;
            if (t->vjp) dot[k] += t->v[at + i] * (x - d * s * s / var);
        }
        r[k] = log(t->weight[k]) - 0.5 * (double)n * log(var) - square / (2 * var);
        most = fmax(most, r[k]);
    }
    for (int64_t k = 0; k < K; k++) sum += r[k] = exp(r[k] - most);
    for (int64_t k = 0; k < K; k++) {
        r[k] /= sum;
        mean_shrink += r[k] * shrink[k], mean_dot += r[k] * dot[k];
    }
    for (int64_t i = 0; i < n; i++) {
        const double x = t->x[at + i];
        double D = 0, g = 0;
        for (int64_t k = 0; k < K; k++) {
            const double d = x - mean_at(t, k, first + i);
            D += r[k] * (x - d * (1 - shrink[k]));
            // dr_k/dx = r_k (g_k - sum r g), g_k = -d/v_k; sum over k of dot_k dr_k
            if (t->vjp) g += r[k] * (dot[k] - mean_dot) * -d / ((double)t->std[k] * t->std[k] + s * s);
        }
        if (t->denoised) t->denoised[at + i] = (float)D;
        if (t->vjp) t->vjp[at + i] = (float)(mean_shrink * t->v[at + i] + g);
    }
}

static void solve_image(void *arg, int64_t image, int thread)
{
    const toy *t = arg;
    double *scratch = t->scratch + thread * 3 * t->k;
    const int64_t at = image * t->size, n = t->c->per_pixel ? 1 : t->size;
    for (int64_t i = 0; i < t->size; i += n) solve(t, t->sigma[image], i, n, at + i, scratch);
}

int kd_toy_denoise(const kd_model *m, int64_t n, const float *x, const float *sigma, const float *v, float *denoised, float *vjp,
                   kd_err *err)
{
    const kd_config *c = m->config;
    toy t = { .c = c, .weight = parameter(m, "weight"), .std = parameter(m, "std"), .mean = parameter(m, "mean"), .k = c->components,
              .size = c->size[0] * c->size[1] * c->channels, .x = x, .sigma = sigma, .v = v, .denoised = denoised, .vjp = vjp,
              .scratch = kd_alloc((size_t)(kd_threads() * 3 * c->components) * sizeof(double)) };
    if (!t.scratch) return kd_fail_memory(err, "a toy model");
    kd_parallel(n, solve_image, &t);
    kd_free(t.scratch);
    return 0;
}
