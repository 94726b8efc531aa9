#include "train/batch.h"
#include "base/parallel.h"
#include "base/random.h"
#include "diffusion/density.h"
#include "train/augment.h"
#include <string.h>

typedef struct fill {
    const kd_batch *b; const kd_config *c; const kd_dataset *d;
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

// x0 and cond may be NULL.
static void augment(const fill *f, const uint8_t *in, float *x0, float *cond, uint64_t position)
{
    const kd_batch *b = f->b;
    float draws[KD_AUGMENT_DRAWS], own[KD_AUGMENT_COND];
    double m[9];
    const kd_rng r = kd_rng_of(f->seed, KD_RNG_AUGMENT, 0, position, f->step);

    kd_augment_draw(draws, &r);
    kd_augment_matrix(m, cond ? cond : own, draws, b->h, b->w, f->c->augment_prob);
    if (!x0) return;
    if (f->c->augment_prob == 0) kd_images_float(x0, in, b->h * b->w * b->c);
    else kd_augment_warp(x0, in, b->h, b->w, b->c, m);
}

static void fill_image(void *arg, int64_t i, int thread)
{
    (void)thread;
    const fill *f = arg;
    const kd_batch *b = f->b;
    const int64_t size = b->h * b->w * b->c;
    const uint64_t position = (uint64_t)(f->p + i);
    const int64_t at = kd_dataset_at(f->d, f->seed, position);
    const uint8_t *image = f->d->image + at * size;

    if (b->index) b->index[i] = (int64_t)position;
    if (b->sigma) b->sigma[i] = draw_sigma(f, i, position);
    if (b->pixels) memcpy(b->pixels + i * size, image, (size_t)size);
    if (b->x0 || b->aug_cond)
        augment(f, image, b->x0 ? b->x0 + i * size : NULL, b->aug_cond ? b->aug_cond + i * KD_AUGMENT_COND : NULL, position);
    if (b->class_cond) b->class_cond[i] = draw_class(f, f->d->label[at], position);
}

void kd_batch_fill(const kd_batch *b, const kd_config *c, const kd_dataset *d, uint64_t seed, int64_t step, int64_t p,
                   int64_t part, int64_t parts)
{
    fill f = { b, c, d, seed, (uint32_t)step, p, part, parts };
    kd_parallel(b->n, fill_image, &f);
}
