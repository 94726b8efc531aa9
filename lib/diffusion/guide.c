#include "diffusion/guide.h"
#include "base/io.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static kd_backend *backend(const kd_guide *g) { return kd_denoiser_backend(g->d); }

static int make_room(kd_guide *g, int64_t n, kd_err *err)
{
    kd_backend *be = backend(g);
    g->vec.be = be;
    if (n <= g->room) return 0;
    if (g->other) be->free(be, g->other);
    kd_free(g->sorted);
    kd_free(g->class_cond);
    g->other = NULL, g->room = 0;
    g->sorted = kd_alloc((size_t)g->size * sizeof *g->sorted);
    g->class_cond = kd_alloc((size_t)n * sizeof *g->class_cond);
    if (!g->sorted || !g->class_cond) return kd_fail_memory(err, "guidance");
    if (g->g.scale != 1) KD_TRY(be->alloc(be, (void **)&g->other, (size_t)(n * g->size) * sizeof *g->other, err));
    g->room = n;
    return 0;
}

static void return_pictures(kd_guide *g)
{
    kd_backend_return(backend(g), g->known, g->known_there);
    kd_backend_return(backend(g), g->mask, g->mask_there);
    g->known_there = g->mask_there = NULL;
}

int kd_guide_begin(kd_guide *g, int64_t n, kd_err *err)
{
    const size_t bytes = (size_t)(n * g->size) * sizeof *g->known;
    return_pictures(g);
    if (!g->mask) return 0;
    KD_TRY(kd_backend_lend(backend(g), g->known, bytes, (void **)&g->known_there, err));
    return kd_backend_lend(backend(g), g->mask, bytes, (void **)&g->mask_there, err);
}

void kd_guide_free(kd_guide *g)
{
    if (!g->d) return;
    if (g->other) backend(g)->free(backend(g), g->other);
    return_pictures(g);
    kd_vec_free(&g->vec);
    kd_free(g->sorted);
    kd_free(g->class_cond);
    g->other = g->sorted = NULL, g->class_cond = NULL, g->room = 0;
}

static int denoise(const kd_guide *g, kd_denoiser *d, int64_t n, const float *x, const float *sigma, float *out, kd_err *err)
{
    const kd_cond cond = { .class_cond = g->label ? g->class_cond : NULL };
    return kd_denoise_on(d, n, x, sigma, &cond, out, err);
}

// D of the weaker model, or of the same without class.
static int denoise_other(kd_guide *g, int64_t n, const float *x, const float *sigma, float *out, kd_err *err)
{
    if (g->weak) return denoise(g, g->weak, n, x, sigma, out, err);
    for (int64_t i = 0; i < n; i++) g->class_cond[i] = kd_denoiser_config(g->d)->classes;
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
    for (int64_t i = 0, k; i < n; i = k) {             // neighbours that are guided, or not
        for (k = i + 1; k < n && is_guided(g, sigma[k]) == is_guided(g, sigma[i]);) k++;
        if (!is_guided(g, sigma[i])) continue;
        float *to = out + i * g->size;
        const float *other = g->other + i * g->size;
        const int64_t count = (k - i) * g->size;
        if (g->g.scale != 0) KD_TRY(kd_vec_extrapolate(&g->vec, count, to, other, g->g.scale, to, err));
        else KD_TRY(backend(g)->copy(backend(g), to, other, (size_t)count * sizeof *to, err));
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

// Divides by what exceeds 1: the host sorts each image.
static int threshold_dynamic(kd_guide *g, int64_t n, float *D, kd_err *err)
{
    kd_backend *be = backend(g);
    void *host;
    KD_TRY(be->map(be, D, (size_t)(n * g->size) * sizeof *D, KD_MAP_READ | KD_MAP_WRITE, &host, err));
    for (int64_t k = 0; k < n; k++) {
        float *d = (float *)host + k * g->size;
        const double q = fmax(1, percentile(d, g->size, g->g.percentile, g->sorted));
        for (int64_t i = 0; i < g->size; i++)
            if (!isnan(d[i])) d[i] = (float)(fmin(fmax(d[i], -q), q) / q);         // NaN remains: the sampler reports it
    }
    return be->unmap(be, host, err);
}

static int threshold(kd_guide *g, int64_t n, float *D, kd_err *err)
{
    switch (g->g.threshold) {
    case KD_THRESHOLD_STATIC: return kd_vec_clamp(&g->vec, n * g->size, D, -1, 1, err);
    case KD_THRESHOLD_DYNAMIC: return threshold_dynamic(g, n, D, err);
    case KD_THRESHOLD_NONE: break;
    }
    return 0;
}

// The known parts of the images, whose places are image [n].
static int keep_known(kd_guide *g, int64_t n, const int64_t *image, float *D, kd_err *err)
{
    for (int64_t i = 0, k; g->mask && i < n; i = k) {  // neighbours in D that are neighbours in the run
        for (k = i + 1; k < n && image[k] == image[k - 1] + 1;) k++;
        const int64_t at = image[i] * g->size;
        KD_TRY(kd_vec_keep(&g->vec, (k - i) * g->size, D + i * g->size, g->known_there + at, g->mask_there + at, err));
    }
    return 0;
}

int kd_guide_call(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err)
{
    kd_guide *g = arg;
    if (kd_interrupted()) return kd_fail_interrupted(err);
    KD_TRY(make_room(g, n, err));
    for (int64_t i = 0; g->label && i < n; i++) g->class_cond[i] = g->label[image[i]];
    KD_TRY(guided(g, n, x, sigma, out, err));
    KD_TRY(threshold(g, n, out, err));
    KD_TRY(keep_known(g, n, image, out, err));
    if (g->tick) g->tick(g->arg);
    return 0;
}
