// Values of one type as values of another.    op: lib/op/convert.c
#include "cpu/kernels/rows.h"

typedef struct job { const kd_node *n; int64_t count; } job;

static void cast_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const kd_val *x = j->n->in[0], *y = j->n->out[0];
    kd_convert((char *)y->data + (size_t)p.first * kd_dtype_size(y->dtype), y->dtype,
               (const char *)x->data + (size_t)p.first * kd_dtype_size(x->dtype), x->dtype, p.end - p.first);
}

// Every step is exact but the division and the subtraction, so contraction changes no bit.
static void pixels_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const uint8_t *x = j->n->in[0]->data;
    float *y = j->n->out[0]->data;
#pragma GCC ivdep
    for (int64_t i = p.first; i < p.end; i++) y[i] = (float)x[i] / 255.0f * 2.0f - 1.0f;
}

static void elements(const kd_node *n, kd_tile_fn tile)
{
    job j = { n, kd_count(n->in[0]) };
    kd_parallel(ceil_div(j.count, ELEMENTS), tile, &j);
}

static void cast(const kd_node *n, void *scratch)
{
    (void)scratch;
    elements(n, cast_tile);
}

static void pixels(const kd_node *n, void *scratch)
{
    (void)scratch;
    elements(n, pixels_tile);
}

const kd_kernel KD_KERNEL(cast) = { cast, NULL };
const kd_kernel KD_KERNEL(pixels) = { pixels, NULL };
