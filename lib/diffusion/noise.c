// A sampler's noise from counters, image by image.
#include "diffusion/run.h"
#include "diffusion/brownian.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"

typedef struct source {
    const kd_draw *draw;               // of all images of the run
    kd_noise_kind kind;
    double low, high;                  // the Brownian path's ends
    float *scratch;                    // [threads, size]
    // the present request
    int64_t request, first, size; double from, to; float *z;
} source;

static void draw_image(void *arg, int64_t k, int thread)
{
    const source *s = arg;
    const kd_draw *d = &s->draw[s->first + k];
    float *z = s->z + k * s->size;
    if (s->kind == KD_NOISE_BROWNIAN) {
        const kd_brownian w = { d->seed, d->index, s->low, s->high };
        kd_brownian_noise(&w, s->from, s->to, z, s->size, s->scratch + thread * s->size);
    } else {
        const kd_rng r = kd_rng_of(d->seed, KD_RNG_STEP, 0, d->index, (uint32_t)s->request);
        kd_rng_normal(&r, z, 0, s->size);
    }
}

static int draw_images(void *arg, int64_t request, double from, double to, int64_t first, int64_t n, int64_t size, float *z, kd_err *err)
{
    source *s = arg;
    (void)err;
    s->request = request, s->from = from, s->to = to, s->first = first, s->size = size, s->z = z;
    kd_parallel(n, draw_image, s);
    return 0;
}

int kd_sample(const kd_sampling *s, int64_t n, int64_t size, const kd_draw *draw, float *x, int64_t *calls, kd_err *err)
{
    if (s->steps < 1) return kd_fail(err, KD_EUSAGE, "steps: expected at least 1, got %lld", (long long)s->steps);
    source from = { .draw = draw, .kind = s->sampler->noise, .low = kd_run_lowest(s->sigmas, s->steps), .high = s->sigmas[0] };
    const kd_noise noise = { draw_images, &from };
    if (from.kind == KD_NOISE_BROWNIAN) {
        from.scratch = kd_alloc((size_t)kd_threads() * (size_t)size * sizeof *from.scratch);
        if (!from.scratch) return kd_fail_memory(err, "the sampler's noise");
    }
    const int code = kd_sample_with(s, n, size, &noise, x, calls, err);
    kd_free(from.scratch);
    return code;
}

void kd_sample_start(float *x, int64_t size, kd_draw draw, float sigma)
{
    const kd_rng r = kd_rng_of(draw.seed, KD_RNG_START, 0, draw.index, 0);
    kd_rng_normal(&r, x, 0, size);
    for (int64_t i = 0; i < size; i++) x[i] *= sigma;
}
