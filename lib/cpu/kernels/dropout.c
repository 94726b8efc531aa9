// Dropout by element, its mask drawn anew each time.    op: lib/op/dropout.c
// Philox costs about as much as moving the data; a tile draws 4 * LANES elements at once.
#include "base/philox.h"
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t count;                         // elements an image
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

static int dropout(const kd_node *n, const kd_run *run, void *scratch, kd_err *err)
{
    (void)scratch, (void)err;
    const int64_t images = images_of(n->in[0]);
    job j = { .count = images ? kd_count(n->in[0]) / images : 0, .x = n->in[0]->data, .index = n->in[1]->data, .y = n->out[0]->data,
              .scale = (float)(1 / (1 - n->f[0])), .limit = (uint32_t)ceil(ldexp(n->f[0], 24)), .node = (uint32_t)n->i[0], .run = run };
    kd_parallel(images * blocks_of(j.count, ELEMENTS), tile, &j);
    return 0;
}

const kd_kernel KD_KERNEL(dropout) = { dropout, NULL };
