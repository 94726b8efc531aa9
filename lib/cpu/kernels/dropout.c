// Dropout by element or by channel, its mask drawn anew each time.    op: lib/op/dropout.c
// Philox costs about as much as moving the data; a tile draws 4 * LANES elements at once.
#include "base/philox.h"
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t count, c;                      // elements and channels an image
    const float *x;
    const int64_t *index;
    float *y, scale;
    uint32_t limit, node;                  // a word's high 24 bits below limit: dropped, that is a uniform below p
    const kd_run *run;
} job;

static void tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const kd_rng rng = kd_rng_of(j->run->seed, KD_RNG_DROPOUT, j->node, (uint64_t)j->index[p.image], j->run->step);
    const float *x = j->x + p.image * j->count;
    float *y = j->y + p.image * j->count;
    for (int64_t i = p.first; i < p.end; i += 4 * LANES) {
        uint32_t w[4][LANES];
        float keep[4 * LANES];
        philox_lanes(w, &rng, (uint32_t)(i / 4));
        for (int l = 0; l < LANES; l++)
            for (int k = 0; k < 4; k++) keep[4 * l + k] = w[k][l] >> 8 < j->limit ? 0 : j->scale;
        const int64_t n = p.end - i < 4 * LANES ? p.end - i : 4 * LANES;
#pragma GCC ivdep
        for (int64_t k = 0; k < n; k++) y[i + k] = x[i + k] * keep[k];
    }
}

/// 64 channels of an image: one draw, then all its rows.
static void channels_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    enum { WIDTH = 4 * LANES };
    const span p = span_of(t, j->c, WIDTH);
    const kd_rng rng = kd_rng_of(j->run->seed, KD_RNG_DROPOUT, j->node, (uint64_t)j->index[p.image], j->run->step);
    uint32_t w[4][LANES];
    float keep[WIDTH];
    philox_lanes(w, &rng, (uint32_t)(p.first / 4));
    for (int l = 0; l < LANES; l++)
        for (int k = 0; k < 4; k++) keep[4 * l + k] = w[k][l] >> 8 < j->limit ? 0 : j->scale;
    for (int64_t at = p.image * j->count + p.first; at < (p.image + 1) * j->count; at += j->c) {
        const float *x = j->x + at;
        float *y = j->y + at;
#pragma GCC ivdep
        for (int64_t k = 0; k < p.end - p.first; k++) y[k] = x[k] * keep[k];
    }
}

static job job_of(const kd_node *n, const kd_run *run)
{
    const int64_t images = images_of(n->in[0]);
    return (job){ .count = images ? kd_count(n->in[0]) / images : 0, .c = kd_last(n->in[0]), .x = n->in[0]->data,
                  .index = n->in[1]->data, .y = n->out[0]->data, .scale = (float)(1 / (1 - n->f[0])),
                  .limit = (uint32_t)ceil(ldexp(n->f[0], 24)), .node = (uint32_t)n->i[0], .run = run };
}

static int dropout(const kd_node *n, const kd_run *run, void *scratch, kd_err *err)
{
    (void)scratch, (void)err;
    job j = job_of(n, run);
    kd_parallel(images_of(n->in[0]) * blocks_of(j.count, ELEMENTS), tile, &j);
    return 0;
}

static int dropout_channels(const kd_node *n, const kd_run *run, void *scratch, kd_err *err)
{
    (void)scratch, (void)err;
    job j = job_of(n, run);
    kd_parallel(images_of(n->in[0]) * blocks_of(j.c, 4 * LANES), channels_tile, &j);
    return 0;
}

const kd_kernel KD_KERNEL(dropout) = { dropout, NULL };
const kd_kernel KD_KERNEL(dropout_channels) = { dropout_channels, NULL };
