// Noise from counters.    op: lib/op/random.c
// The normals themselves are computed in base/random_normal.c, without contraction: the same bits on every machine.
#include "base/brownian.h"
#include "base/random.h"
#include "cpu/kernels/rows.h"

typedef struct job {
    const kd_node *n;
    int64_t size;                          // elements per image
    const int64_t *index;
    const uint64_t *rng; int64_t stride;   // {seed, step}; elements from one image's to the next: 0 or 2
    float *y, *scratch;                    // scratch [threads, ELEMENTS]
} job;

static job job_of(const kd_node *n, void *scratch)
{
    const int64_t images = images_of(n->out[0]);
    return (job){ .n = n, .size = images ? kd_count(n->out[0]) / images : 0, .index = n->in[0]->data, .rng = n->in[1]->data,
                  .stride = n->in[1]->shape.n == 2 ? 2 : 0, .y = n->out[0]->data, .scratch = scratch };
}

static void normal_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->size, ELEMENTS);
    const uint64_t *rng = j->rng + p.image * j->stride;
    const kd_draw_attr *a = &j->n->a.normal;
    const kd_rng r = kd_rng_of(rng[0], a->purpose, 0, (uint64_t)j->index[p.image], (uint32_t)rng[1] + a->step);
    kd_rng_normal(&r, j->y + p.image * j->size + p.first, (uint64_t)p.first, p.end - p.first);
}

static void normal(const kd_node *n, void *scratch)
{
    job j = job_of(n, scratch);
    kd_parallel(images_of(n->out[0]) * ceil_div(j.size, ELEMENTS), normal_tile, &j);
}

static void brownian_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    const span p = span_of(t, j->size, ELEMENTS);
    const kd_brownian_attr *a = &j->n->a.brownian;
    const kd_brownian w = { j->rng[p.image * j->stride], (uint64_t)j->index[p.image], a->low, a->high };
    kd_brownian_noise(&w, a->from, a->to, j->y + p.image * j->size + p.first, (uint64_t)p.first, p.end - p.first,
                      j->scratch + thread * ELEMENTS);
}

static void brownian(const kd_node *n, void *scratch)
{
    job j = job_of(n, scratch);
    kd_parallel(images_of(n->out[0]) * ceil_div(j.size, ELEMENTS), brownian_tile, &j);
}

static size_t brownian_scratch(const kd_node *n)
{
    (void)n;
    return (size_t)kd_threads() * ELEMENTS * sizeof(float);
}

const kd_kernel KD_KERNEL(normal) = { normal, NULL };
const kd_kernel KD_KERNEL(brownian) = { brownian, brownian_scratch };
