// Fourier features.    op: lib/op/fourier.c
// One row an image: a few thousand angles. In double, since large angles lose their low bits to the integer part.
#include "cpu/kernels/rows.h"

typedef struct job { int64_t k, h; const float *x, *w; float *y; } job;

static void row(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const float *x = j->x + t * j->k;
    float *y = j->y + t * 2 * j->h;
    for (int64_t i = 0; i < j->h; i++) {
        double turns = 0;
        for (int64_t k = 0; k < j->k; k++) turns += (double)x[k] * (double)j->w[i * j->k + k];
        turns -= rint(turns);
        y[i] = (float)cos(2 * M_PI * turns), y[j->h + i] = (float)sin(2 * M_PI * turns);
    }
}

static void features(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = { kd_last(n->in[0]), n->in[1]->shape.d[0], n->in[0]->data, n->in[1]->data, n->out[0]->data };
    kd_parallel(images_of(n->in[0]), row, &j);
}

const kd_kernel KD_KERNEL(fourier) = { features, NULL };
