// Sums over an image's positions, and a vector spread over or added to them.    op: lib/op/image.c
#include "cpu/kernels/rows.h"

typedef struct job { int64_t rows, c; const float *x, *b; float *y; double f; } job;    // rows an image

/// 64 channels of an image; rows in order, in double.
static void sum_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->c, ROWS);
    const int64_t width = p.end - p.first;
    double sum[ROWS] = { 0 };
    for (int64_t r = 0; r < j->rows; r++) {
        const float *x = j->x + (p.image * j->rows + r) * j->c + p.first;
        for (int64_t i = 0; i < width; i++) sum[i] += (double)x[i];
    }
    for (int64_t i = 0; i < width; i++) j->y[p.image * j->c + p.first + i] = (float)(j->f * sum[i]);
}

static void spread_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->rows, ROWS);
    const float *b = j->b + p.image * j->c, f = (float)j->f;
    for (int64_t r = p.first; r < p.end; r++) {
        float *y = j->y + (p.image * j->rows + r) * j->c;
#pragma GCC ivdep
        for (int64_t i = 0; i < j->c; i++) y[i] = f * b[i];
    }
}

static void add_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->rows, ROWS);
    const float *b = j->b + p.image * j->c;
    for (int64_t r = p.first; r < p.end; r++) {
        const int64_t at = (p.image * j->rows + r) * j->c;
        const float *x = j->x + at;
        float *y = j->y + at;
#pragma GCC ivdep
        for (int64_t i = 0; i < j->c; i++) y[i] = x[i] + b[i];
    }
}

static job job_of(const kd_node *n, const kd_val *image)
{
    const int64_t images = images_of(image);
    return (job){ .rows = images ? kd_rows(image) / images : 0, .c = kd_last(image), .y = n->out[0]->data };
}

static void sum(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n, n->in[0]);
    j.x = n->in[0]->data, j.f = n->a.image.factor;
    kd_parallel(images_of(n->in[0]) * ceil_div(j.c, ROWS), sum_tile, &j);
}

static void spread(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n, n->out[0]);
    j.b = n->in[0]->data, j.f = n->a.image.factor;
    kd_parallel(images_of(n->in[0]) * ceil_div(j.rows, ROWS), spread_tile, &j);
}

static void add(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n, n->in[0]);
    j.x = n->in[0]->data, j.b = n->in[1]->data;
    kd_parallel(images_of(n->in[0]) * ceil_div(j.rows, ROWS), add_tile, &j);
}

const kd_kernel KD_KERNEL(image_sum) = { sum, NULL };
const kd_kernel KD_KERNEL(image_spread) = { spread, NULL };
const kd_kernel KD_KERNEL(add_image) = { add, NULL };
