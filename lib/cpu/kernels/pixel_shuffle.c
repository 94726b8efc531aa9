// Patches of pixels into channels and back, channel slowest.    op: lib/op/pixel_shuffle.c
// A tile is a row of patches. Images have few channels at both ends of a network, so single floats are moved.
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t p, q, w, c;                    // w patches a row; c channels of the image
    const float *from;
    float *to;
} job;

static void unshuffle_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const int64_t area = j->p * j->q, row = j->w * j->q * j->c;
    const float *x = j->from + t * j->p * row;
    float *y = j->to + t * j->p * row;
    for (int64_t i = 0; i < j->w; i++)
        for (int64_t a = 0; a < j->p; a++)
            for (int64_t b = 0; b < j->q; b++)
                for (int64_t k = 0; k < j->c; k++)
                    y[(i * j->c + k) * area + a * j->q + b] = x[a * row + (i * j->q + b) * j->c + k];
}

static void shuffle_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const int64_t area = j->p * j->q, row = j->w * j->q * j->c;
    const float *x = j->from + t * j->p * row;
    float *y = j->to + t * j->p * row;
    for (int64_t a = 0; a < j->p; a++)
        for (int64_t i = 0; i < j->w; i++)
            for (int64_t b = 0; b < j->q; b++)
                for (int64_t k = 0; k < j->c; k++)
                    y[a * row + (i * j->q + b) * j->c + k] = x[(i * j->c + k) * area + a * j->q + b];
}

static void move(const kd_node *n, const kd_val *patches, kd_tile_fn tile)
{
    const int64_t *s = patches->shape.d, p = n->a.patch.p, q = n->a.patch.q;
    job j = { p, q, s[2], s[3] / (p * q), n->in[0]->data, n->out[0]->data };
    kd_parallel(s[0] * s[1], tile, &j);
}

static void unshuffle(const kd_node *n, void *scratch)
{
    (void)scratch;
    move(n, n->out[0], unshuffle_tile);
}

static void shuffle(const kd_node *n, void *scratch)
{
    (void)scratch;
    move(n, n->in[0], shuffle_tile);
}

const kd_kernel KD_KERNEL(pixel_unshuffle) = { unshuffle, NULL };
const kd_kernel KD_KERNEL(pixel_shuffle) = { shuffle, NULL };
