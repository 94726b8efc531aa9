#include "train/batch.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include "diffusion/density.h"
#include "train/augment.h"
#include <string.h>

int kd_batch_new(kd_batch *b, const kd_config *c, int64_t n, kd_err *err)
{
    *b = (kd_batch){ .n = n, .h = c->size[0], .w = c->size[1], .c = c->channels };
    const size_t images = (size_t)n, pixels = images * (size_t)(b->h * b->w * b->c);
    b->x0 = kd_alloc(pixels * sizeof *b->x0);
    b->noise = kd_alloc(pixels * sizeof *b->noise);
    b->sigma = kd_alloc(images * sizeof *b->sigma);
    b->aug_cond = kd_alloc(images * KD_AUGMENT_COND * sizeof *b->aug_cond);
    b->class_cond = kd_alloc(images * sizeof *b->class_cond);
    b->index = kd_alloc(images * sizeof *b->index);
    if (b->x0 && b->noise && b->sigma && b->aug_cond && b->class_cond && b->index) return 0;
    kd_batch_free(b);
    return kd_fail_memory(err, "a batch of images");
}

void kd_batch_free(kd_batch *b)
{
    kd_free(b->x0);
    kd_free(b->noise);
    kd_free(b->sigma);
    kd_free(b->aug_cond);
    kd_free(b->class_cond);
    kd_free(b->index);
    *b = (kd_batch){0};
}

int64_t kd_batch_bytes(const kd_batch *b)
{
    return b->n * (2 * b->h * b->w * b->c * 4 + 4 + KD_AUGMENT_COND * 4 + 8 + 8);
}

typedef struct fill {
    kd_batch *b; const kd_config *c; const kd_dataset *d;
    uint64_t seed; uint32_t step; int64_t p, part, parts;
} fill;

static float draw_sigma(const fill *f, int64_t i, uint64_t position)
{
    const kd_density *density = &f->c->density;
    const kd_rng r = kd_rng_of(f->seed, KD_RNG_SIGMA, 0, position, f->step);
    double u = kd_rng_uniform(&r, 0);
    float z = 0;

    if (density->type == KD_DENSITY_SPLIT_LOGNORMAL) kd_rng_normal(&r, &z, 4, 1);      // the one that is not stratified
    else if (f->parts) u = kd_stratified(u, i, f->b->n, f->part, f->parts);
    return (float)kd_density_sigma(density, u, z);
}

static int64_t draw_class(const fill *f, int64_t label, uint64_t position)
{
    const kd_rng r = kd_rng_of(f->seed, KD_RNG_CLASS, 0, position, f->step);
    return kd_rng_uniform(&r, 0) < f->c->cond_dropout ? f->c->classes : label;
}

static void augment(const fill *f, const uint8_t *in, float *x0, float *cond, uint64_t position)
{
    const kd_batch *b = f->b;
    float draws[KD_AUGMENT_DRAWS];
    double m[9];
    const kd_rng r = kd_rng_of(f->seed, KD_RNG_AUGMENT, 0, position, f->step);

    kd_augment_draw(draws, &r);
    kd_augment_matrix(m, cond, draws, b->h, b->w, f->c->augment_prob);
    if (f->c->augment_prob == 0) kd_images_float(x0, in, b->h * b->w * b->c);
    else kd_augment_warp(x0, in, b->h, b->w, b->c, m);
}

static void fill_image(void *arg, int64_t i, int thread)
{
    (void)thread;
    const fill *f = arg;
    kd_batch *b = f->b;
    const int64_t size = b->h * b->w * b->c;
    const uint64_t position = (uint64_t)(f->p + i);
    const int64_t at = kd_dataset_at(f->d, f->seed, position);
    const kd_rng r = kd_rng_of(f->seed, KD_RNG_NOISE, 0, position, f->step);

    b->index[i] = (int64_t)position;
    b->sigma[i] = draw_sigma(f, i, position);
    kd_rng_normal(&r, b->noise + i * size, 0, size);
    augment(f, f->d->image + at * size, b->x0 + i * size, b->aug_cond + i * KD_AUGMENT_COND, position);
    if (f->c->classes) b->class_cond[i] = draw_class(f, f->d->label[at], position);
}

void kd_batch_fill(kd_batch *b, const kd_config *c, const kd_dataset *d, uint64_t seed, int64_t step, int64_t p,
                   int64_t part, int64_t parts)
{
    fill f = { b, c, d, seed, (uint32_t)step, p, part, parts };
    kd_parallel(b->n, fill_image, &f);
}
