// Products with a constant, and limits.    op: lib/op/scale.c
#include "cpu/kernels/rows.h"

typedef struct job { int64_t count; const float *x; float *y, f, low, high; } job;

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
    const float *x = j->x, low = j->low, high = j->high;
    float *y = j->y;
#pragma GCC ivdep
    for (int64_t i = p.first; i < p.end; i++) {
        const float v = x[i] > high ? high : x[i];
        y[i] = v < low ? low : v;
    }
}

static void scale(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = { .count = kd_count(n->in[0]), .x = n->in[0]->data, .y = n->out[0]->data, .f = (float)n->a.scale.factor };
    kd_parallel(ceil_div(j.count, ELEMENTS), scale_tile, &j);
}

static void clamp(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = { .count = kd_count(n->in[0]), .x = n->in[0]->data, .y = n->out[0]->data, .low = (float)n->a.clamp.low,
              .high = (float)n->a.clamp.high };
    kd_parallel(ceil_div(j.count, ELEMENTS), clamp_tile, &j);
}

const kd_kernel KD_KERNEL(scale) = { scale, NULL };
const kd_kernel KD_KERNEL(clamp) = { clamp, NULL };
