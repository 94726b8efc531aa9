// Loss with a predicted variance, and its gradient.    op: lib/op/gauss_nll.c
// A tile is an image: the loss runs once a step, on few channels. Squares and sums in double, in order.
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t count;                         // elements an image
    const float *a, *b, *logvar, *dl;
    float *l, *da, *dlogvar;
} job;

static job job_of(const kd_node *n)
{
    const int64_t images = images_of(n->in[0]);
    return (job){ .count = images ? kd_count(n->in[0]) / images : 0, .a = n->in[0]->data, .b = n->in[1]->data, .logvar = n->in[2]->data };
}

static double mean_square(const job *j, int64_t image)
{
    double lane[16] = { 0 };
    const float *a = j->a + image * j->count, *b = j->b + image * j->count;
    for (int64_t i = 0; i < j->count; i++) {
        const double e = (double)a[i] - (double)b[i];
        lane[i % 16] += e * e;
    }
    return kd_tree_sum(lane, 16) / (double)j->count;
}

static void loss_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const double logvar = (double)j->logvar[t];
    j->l[t] = (float)((mean_square(j, t) * exp(-logvar) + logvar) / 2);
}

static void grad_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const double inverse = exp(-(double)j->logvar[t]), dl = (double)j->dl[t];
    if (j->dlogvar) j->dlogvar[t] = (float)(dl * (1 - mean_square(j, t) * inverse) / 2);
    if (!j->da) return;
    const float k = (float)(dl * inverse / (double)j->count), *a = j->a + t * j->count, *b = j->b + t * j->count;
    float *da = j->da + t * j->count;
#pragma GCC ivdep
    for (int64_t i = 0; i < j->count; i++) da[i] = k * (a[i] - b[i]);
}

static void loss(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n);
    j.l = n->out[0]->data;
    kd_parallel(images_of(n->in[0]), loss_tile, &j);
}

static void grad(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n);
    j.dl = n->in[3]->data, j.da = data_used(n->out[0]), j.dlogvar = data_used(n->out[1]);
    kd_parallel(images_of(n->in[0]), grad_tile, &j);
}

const kd_kernel KD_KERNEL(gauss_nll) = { loss, NULL };
const kd_kernel KD_KERNEL(gauss_nll_grad) = { grad, NULL };
