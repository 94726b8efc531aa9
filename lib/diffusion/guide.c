#include "diffusion/guide.h"
#include "base/io.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int make_room(kd_guide *g, int64_t n, kd_err *err)
{
    if (n <= g->room) return 0;
    kd_guide_free(g);
    g->other = kd_alloc((size_t)(n * g->size) * sizeof *g->other);
    g->sorted = kd_alloc((size_t)g->size * sizeof *g->sorted);
    g->class_cond = kd_alloc((size_t)n * sizeof *g->class_cond);
    if (!g->other || !g->sorted || !g->class_cond) return kd_fail_memory(err, "guidance");
    g->room = n;
    return 0;
}

void kd_guide_free(kd_guide *g)
{
    kd_free(g->other);
    kd_free(g->sorted);
    kd_free(g->class_cond);
    g->other = g->sorted = NULL, g->class_cond = NULL, g->room = 0;
}

static int denoise(const kd_guide *g, kd_denoiser *d, int64_t n, const float *x, const float *sigma, float *out, kd_err *err)
{
    const kd_cond cond = { .class_cond = g->label ? g->class_cond : NULL };
    return kd_denoise(d, n, x, sigma, &cond, NULL, out, err);
}

// D of the weaker model, or of the same without class.
static int denoise_other(kd_guide *g, int64_t n, const float *x, const float *sigma, float *out, kd_err *err)
{
    if (g->weak) return denoise(g, g->weak, n, x, sigma, out, err);
    for (int64_t i = 0; i < n; i++) g->class_cond[i] = kd_denoiser_model(g->d)->config->classes;
    return denoise(g, g->d, n, x, sigma, out, err);
}

static bool is_guided(const kd_guide *g, float sigma)
{
    return g->g.scale != 1 && g->g.low <= sigma && sigma <= g->g.high && (g->weak || g->label);
}

static int guided(kd_guide *g, int64_t n, const float *x, const float *sigma, float *out, kd_err *err)
{
    int64_t guided = 0;
    for (int64_t i = 0; i < n; i++) guided += is_guided(g, sigma[i]);
    if (g->g.scale == 0 && guided == n) return denoise_other(g, n, x, sigma, out, err);
    KD_TRY(denoise(g, g->d, n, x, sigma, out, err));
    if (!guided) return 0;
    KD_TRY(denoise_other(g, n, x, sigma, g->other, err));
    for (int64_t i = 0; i < n * g->size; i++) {
        const double a = g->other[i], b = out[i];
        if (is_guided(g, sigma[i / g->size])) out[i] = g->g.scale == 0 ? g->other[i] : (float)(a + g->g.scale * (b - a));
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// The percentile p of |D|, between neighbours by a line.
static double percentile(const float *D, int64_t n, double p, float *sorted)
{
    for (int64_t i = 0; i < n; i++) sorted[i] = fabsf(D[i]);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    const double at = p / 100 * (double)(n - 1), part = at - floor(at);
    const int64_t low = (int64_t)at, high = low + 1 < n ? low + 1 : low;
    return sorted[low] + part * ((double)sorted[high] - sorted[low]);
}

static void threshold(const kd_guide *g, float *D)
{
    if (g->g.threshold == KD_THRESHOLD_NONE) return;
    const double q = g->g.threshold == KD_THRESHOLD_DYNAMIC ? fmax(1, percentile(D, g->size, g->g.percentile, g->sorted)) : 1;
    for (int64_t i = 0; i < g->size; i++)
        if (!isnan(D[i])) D[i] = (float)(fmin(fmax(D[i], -q), q) / q);             // the sampler tells of NaN
}

int kd_guide_call(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err)
{
    kd_guide *g = arg;
    if (kd_interrupted()) return kd_fail_interrupted(err);
    KD_TRY(make_room(g, n, err));
    for (int64_t i = 0; g->label && i < n; i++) g->class_cond[i] = g->label[image[i]];
    KD_TRY(guided(g, n, x, sigma, out, err));
    for (int64_t i = 0; i < n; i++) {
        float *D = out + i * g->size;
        threshold(g, D);
        for (int64_t k = 0, at = image[i] * g->size; g->mask && k < g->size; k++, at++)
            if (g->mask[at] == 0) D[k] = g->known[at];
    }
    if (g->tick) g->tick(g->arg);
    return 0;
}
