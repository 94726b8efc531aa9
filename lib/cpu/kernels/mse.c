// Weighted squared error of each image, and its gradient.    op: lib/op/mse.c
// Squares and sums in double, tiles within an image. The weight f of a position is the same for all its channels.
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t images, count, c, blocks;      // elements, channels and tiles an image; a position is c elements
    const float *a, *b, *w, *f, *dl;
    float *da;
    double *part;
} job;

static job job_of(const kd_node *n)
{
    job j = { .images = images_of(n->in[0]), .c = kd_last(n->in[0]), .a = n->in[0]->data, .b = n->in[1]->data,
              .w = n->in[2]->data, .f = data_of(n->in[3]) };
    j.count = j.images ? kd_count(n->in[0]) / j.images : 0;
    j.blocks = ceil_div(j.count, ELEMENTS);
    return j;
}

static double squares(const float *a, const float *b, int64_t n)
{
    d8 acc = { 0 };
    double lane[8], sum = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const d8 e = __builtin_convertvector(*(const f8u *)(a + i), d8) - __builtin_convertvector(*(const f8u *)(b + i), d8);
        acc += e * e;
    }
    memcpy(lane, &acc, sizeof lane);
    for (int k = 0; i < n; i++, k++) lane[k] += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    for (int k = 0; k < 8; k++) sum += lane[k];
    return sum;
}

static void loss_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const float *a = j->a + p.image * j->count, *b = j->b + p.image * j->count;
    double sum = 0;
    if (j->f)
        for (int64_t i = p.first; i < p.end; i++) {
            const double e = (double)a[i] - (double)b[i];
            sum += (double)j->f[i / j->c] * e * e;
        }
    j->part[t] = j->f ? sum : squares(a + p.first, b + p.first, p.end - p.first);
}

static void loss(const kd_node *n, void *scratch)
{
    job j = job_of(n);
    float *l = n->out[0]->data;
    j.part = scratch;
    kd_parallel(j.images * j.blocks, loss_tile, &j);
    for (int64_t i = 0; i < j.images; i++)
        l[i] = (float)((double)j.w[i] * kd_tree_sum(j.part + i * j.blocks, j.blocks) / (double)j.count);
}

static size_t scratch_of(const kd_node *n)
{
    const job j = job_of(n);
    return (size_t)(j.images * j.blocks) * sizeof(double);
}

static void grad_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const float *a = j->a + p.image * j->count, *b = j->b + p.image * j->count;
    const float k = (float)((double)j->dl[p.image] * (double)j->w[p.image] * 2 / (double)j->count);
    float *da = j->da + p.image * j->count;
    if (j->f) {
        for (int64_t i = p.first; i < p.end; i++) da[i] = k * j->f[i / j->c] * (a[i] - b[i]);
        return;
    }
#pragma GCC ivdep
    for (int64_t i = p.first; i < p.end; i++) da[i] = k * (a[i] - b[i]);
}

static void grad(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n);
    j.dl = n->in[4]->data, j.da = n->out[0]->data;
    kd_parallel(j.images * j.blocks, grad_tile, &j);
}

const kd_kernel KD_KERNEL(mse) = { loss, scratch_of };
const kd_kernel KD_KERNEL(mse_grad) = { grad, NULL };
