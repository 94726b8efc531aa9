// Products with a constant, and a limit from above.    op: lib/op/scale.c
#include "cpu/kernels/rows.h"

typedef struct job { int64_t count; const float *x; float *y, f; } job;

static void scale_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const float *x = j->x, f = j->f;
    float *y = j->y;
#pragma GCC ivdep
    for (int64_t i = p.first; i < p.end; i++) y[i] = f * x[i];
}

static void clamp_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const float *x = j->x, f = j->f;
    float *y = j->y;
#pragma GCC ivdep
    for (int64_t i = p.first; i < p.end; i++) y[i] = x[i] > f ? f : x[i];
}

static void elements(const kd_node *n, double f, kd_tile_fn tile)
{
    job j = { kd_count(n->in[0]), n->in[0]->data, n->out[0]->data, (float)f };
    kd_parallel(ceil_div(j.count, ELEMENTS), tile, &j);
}

static void scale(const kd_node *n, void *scratch)
{
    (void)scratch;
    elements(n, n->a.scale.factor, scale_tile);
}

static void clamp_max(const kd_node *n, void *scratch)
{
    (void)scratch;
    elements(n, n->a.clamp_max.most, clamp_tile);
}

const kd_kernel KD_KERNEL(scale) = { scale, NULL };
const kd_kernel KD_KERNEL(clamp_max) = { clamp_max, NULL };
