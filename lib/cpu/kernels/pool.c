// Largest or mean over square fields.    op: lib/op/pool.c
// A tile is a row of results.
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t h, w, c, rows, cols;           // of x; of the result
    int64_t size, stride, pad;
    bool largest;
    const float *x;
    float *y;
} job;

static void take(const job *j, float *y, const float *x)
{
    if (j->largest)
        for (int64_t i = 0; i < j->c; i++) y[i] = x[i] > y[i] ? x[i] : y[i];
    else
        for (int64_t i = 0; i < j->c; i++) y[i] += x[i];
}

static void field(const job *j, float *y, const float *image, int64_t top, int64_t left)
{
    const int64_t y0 = top < 0 ? 0 : top, y1 = top + j->size < j->h ? top + j->size : j->h;
    const int64_t x0 = left < 0 ? 0 : left, x1 = left + j->size < j->w ? left + j->size : j->w;
    memcpy(y, image + (y0 * j->w + x0) * j->c, (size_t)j->c * sizeof *y);
    for (int64_t r = y0; r < y1; r++)
        for (int64_t k = x0; k < x1; k++)
            if (r > y0 || k > x0) take(j, y, image + (r * j->w + k) * j->c);
    const float f = 1 / (float)((y1 - y0) * (x1 - x0));
    for (int64_t i = 0; i < j->c && !j->largest; i++) y[i] *= f;
}

static void row(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const float *const image = j->x + t / j->rows * j->h * j->w * j->c;
    for (int64_t o = 0; o < j->cols; o++)
        field(j, j->y + (t * j->cols + o) * j->c, image, t % j->rows * j->stride - j->pad, o * j->stride - j->pad);
}

static void pool(const kd_node *n, void *scratch)
{
    (void)scratch;
    const int64_t *const from = n->in[0]->shape.d, *const to = n->out[0]->shape.d;
    const kd_pooling *const p = &n->a.pool;
    job j = { from[1], from[2], from[3], to[1], to[2], p->size, p->stride, p->pad, p->largest, n->in[0]->data,
              n->out[0]->data };
    kd_parallel(to[0] * to[1], row, &j);
}

const kd_kernel KD_KERNEL(pool) = { pool, NULL };
