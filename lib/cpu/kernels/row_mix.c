// Sums of images with a factor for each image.    op: lib/op/row_mix.c
#include "cpu/kernels/rows.h"

typedef struct job { int64_t count; const float *a, *sa, *b, *sb; float *y; } job;

static void tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const float *a = j->a + p.image * j->count, sa = j->sa[p.image];
    float *y = j->y + p.image * j->count;
    if (!j->b) {
#pragma GCC ivdep
        for (int64_t i = p.first; i < p.end; i++) y[i] = sa * a[i];
        return;
    }
    const float *b = j->b + p.image * j->count, sb = j->sb[p.image];
#pragma GCC ivdep
    for (int64_t i = p.first; i < p.end; i++) y[i] = sa * a[i] + sb * b[i];
}

static void mix(const kd_node *n, void *scratch)
{
    (void)scratch;
    const int64_t images = images_of(n->in[0]);
    job j = { images ? kd_count(n->in[0]) / images : 0, n->in[0]->data, n->in[1]->data, data_of(n->in[2]), data_of(n->in[3]),
              n->out[0]->data };
    kd_parallel(images * ceil_div(j.count, ELEMENTS), tile, &j);
}

const kd_kernel KD_KERNEL(row_mix) = { mix, NULL };
