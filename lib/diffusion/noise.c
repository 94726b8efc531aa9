// A sampler's noise from counters, image by image.
#include "base/memory.h"
#include "base/random.h"
#include "diffusion/run.h"

typedef struct source {
    kd_noise_kind kind;
    double low, high;                  // the Brownian path's ends
    kd_vec_images images;              // of the run
} source;

static int draw_images(void *arg, kd_vec *vec, int64_t request, double from, double to, int64_t first, int64_t n, int64_t size, float *z,
                       kd_err *err)
{
    const source *s = arg;
    if (s->kind == KD_NOISE_BROWNIAN)
        return kd_vec_brownian(vec, n, size, z, &s->images, first, (kd_brownian_attr){ from, to, s->low, s->high }, err);
    return kd_vec_normal(vec, n, size, z, &s->images, first, (kd_draw_attr){ KD_RNG_STEP, (uint32_t)request }, err);
}

// The images' seeds and numbers on the backend.
static int send_images(source *s, kd_backend *be, int64_t n, const kd_draw *draw, kd_err *err)
{
    const size_t rows = (size_t)n + 1;
    int64_t *index = kd_alloc(rows * sizeof *index);
    uint64_t *rng = kd_alloc(2 * rows * sizeof *rng);
    if (!index || !rng) kd_fail_memory(err, "the sampler's noise");
    for (int64_t i = 0; i < n && !err->code; i++) index[i] = (int64_t)draw[i].index, rng[2 * i] = draw[i].seed;
    if (!err->code && !be->alloc(be, (void **)&s->images.index, rows * sizeof *index, err)
        && !be->alloc(be, (void **)&s->images.rng, 2 * rows * sizeof *rng, err)
        && !be->upload(be, s->images.index, index, rows * sizeof *index, err))
        be->upload(be, s->images.rng, rng, 2 * rows * sizeof *rng, err);
    kd_free(index);
    kd_free(rng);
    return err->code;
}

int kd_sample(const kd_sampling *s, int64_t n, int64_t size, const kd_draw *draw, float *x, int64_t *calls, kd_err *err)
{
    if (s->steps < 1) return kd_fail(err, KD_EUSAGE, "steps: expected at least 1, got %lld", (long long)s->steps);
    source from = { .kind = s->sampler->noise, .low = kd_run_lowest(s->sigmas, s->steps), .high = s->sigmas[0] };
    const kd_noise noise = { draw_images, &from };
    if (from.kind == KD_NOISE_NONE || !send_images(&from, s->be, n, draw, err)) kd_sample_with(s, n, size, &noise, x, calls, err);
    if (from.images.index) s->be->free(s->be, from.images.index);
    if (from.images.rng) s->be->free(s->be, from.images.rng);
    return err->code;
}

void kd_sample_start(float *x, int64_t size, kd_draw draw, float sigma)
{
    const kd_rng r = kd_rng_of(draw.seed, KD_RNG_START, 0, draw.index, 0);
    kd_rng_normal(&r, x, 0, size);
    for (int64_t i = 0; i < size; i++) x[i] *= sigma;
}
