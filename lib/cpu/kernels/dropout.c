// Dropout by element or by channel, its mask drawn anew each time.    op: lib/op/dropout.c
#include "cpu/kernels/mask.h"
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t count, c;                      // elements and channels an image
    const float *x;
    const int64_t *index;
    float *y;
    double rate;
    uint32_t layer;
    const uint64_t *rng;                   // seed and step
} job;

static void tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const mask m = mask_of(j->rng, j->layer, j->index[p.image], j->rate);
    const float *x = j->x + p.image * j->count;
    float *y = j->y + p.image * j->count;
    for (int64_t i = p.first; i < p.end; i += MASK_DRAW) {
        float keep[MASK_DRAW];
        mask_draw(&m, i, keep);
        const int64_t n = p.end - i < MASK_DRAW ? p.end - i : MASK_DRAW;
#pragma GCC ivdep
        for (int64_t k = 0; k < n; k++) y[i + k] = x[i + k] * keep[k];
    }
}

/// MASK_DRAW channels of an image: one draw, then all its rows.
static void channels_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->c, MASK_DRAW);
    const mask m = mask_of(j->rng, j->layer, j->index[p.image], j->rate);
    float keep[MASK_DRAW];
    mask_draw(&m, p.first, keep);
    for (int64_t at = p.image * j->count + p.first; at < (p.image + 1) * j->count; at += j->c) {
        const float *x = j->x + at;
        float *y = j->y + at;
#pragma GCC ivdep
        for (int64_t k = 0; k < p.end - p.first; k++) y[k] = x[k] * keep[k];
    }
}

static job job_of(const kd_node *n)
{
    const int64_t images = images_of(n->in[0]);
    return (job){ .count = images ? kd_count(n->in[0]) / images : 0, .c = kd_last(n->in[0]), .x = n->in[0]->data,
                  .index = n->in[1]->data, .rng = n->in[2]->data, .y = n->out[0]->data, .rate = n->a.dropout.rate,
                  .layer = n->a.dropout.layer };
}

static void dropout(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n);
    kd_parallel(images_of(n->in[0]) * ceil_div(j.count, ELEMENTS), tile, &j);
}

static void dropout_channels(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n);
    kd_parallel(images_of(n->in[0]) * ceil_div(j.c, MASK_DRAW), channels_tile, &j);
}

const kd_kernel KD_KERNEL(dropout) = { dropout, NULL };
const kd_kernel KD_KERNEL(dropout_channels) = { dropout_channels, NULL };
