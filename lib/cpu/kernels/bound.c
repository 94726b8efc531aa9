// The variational bound's term for a learned variance, and its gradient.    op: lib/op/bound.c
// A tile is an image: the loss runs once a step, on few channels. All in double, sums in order.
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t count, factors;                // elements and factors an image
    const float *range, *eps, *noise, *x0, *k, *dl;
    float *l, *drange;
} job;

static job job_of(const kd_node *n)
{
    const int64_t images = images_of(n->in[0]);
    return (job){ .count = images ? kd_count(n->in[0]) / images : 0, .range = n->in[0]->data, .eps = n->in[1]->data,
                  .noise = n->in[2]->data, .x0 = n->in[3]->data, .k = n->in[4]->data, .factors = kd_last(n->in[4]) };
}

/// Nats of an element and their derivative with respect to the log variance.
typedef struct nats { double value, slope; } nats;

static nats divergence(double L, double truth, double error)
{
    const double ratio = exp(truth - L), square = error * error * exp(-L);
    return (nats){ (L - truth + ratio + square - 1) / 2, (1 - ratio - square) / 2 };
}

/// The peer's approximation of the normal distribution function, and its derivative.
static nats normal_cdf(double z)
{
    const double a = sqrt(2 / M_PI), t = tanh(a * (z + 0.044715 * z * z * z));
    return (nats){ (1 + t) / 2, (1 - t * t) / 2 * a * (1 + 3 * 0.044715 * z * z) };
}

/// Minus the logarithm of the probability of the level around x0, whose distance from the mean is `off`. The outer levels
/// have all that lies beyond them.
static nats level(double L, double x0, double off)
{
    const double inverse = exp(-L / 2), upper = inverse * (off + 1 / 255.0), lower = inverse * (off - 1 / 255.0);
    const nats up = normal_cdf(upper), low = normal_cdf(lower);
    double p, slope;                       // d z / d L = -z / 2
    if (x0 < -0.999)
        p = up.value, slope = -upper * up.slope / 2;
    else if (x0 > 0.999)
        p = 1 - low.value, slope = lower * low.slope / 2;
    else
        p = up.value - low.value, slope = (lower * low.slope - upper * up.slope) / 2;
    return p > 1e-12 ? (nats){ -log(p), -slope / p } : (nats){ -log(1e-12), 0 };
}

static nats element(const job *j, int64_t image, int64_t i)
{
    const float *k = j->k + image * j->factors;
    const int64_t at = image * j->count + i;
    const double L = (double)k[KD_BOUND_MID] + (double)k[KD_BOUND_HALF] * (double)j->range[at];
    const double error = (double)k[KD_BOUND_MEAN] * ((double)j->eps[at] - (double)j->noise[at]);
    return k[KD_BOUND_FIRST] != 0 ? level(L, (double)j->x0[at], error) : divergence(L, (double)k[KD_BOUND_TRUE], error);
}

static void loss_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    double lane[16] = { 0 };
    for (int64_t i = 0; i < j->count; i++) lane[i % 16] += element(j, t, i).value;
    j->l[t] = (float)((double)j->k[t * j->factors + KD_BOUND_WEIGHT] * kd_tree_sum(lane, 16) / (double)j->count / M_LN2);
}

static void grad_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const float *k = j->k + t * j->factors;
    const double weight = (double)k[KD_BOUND_WEIGHT], half = (double)k[KD_BOUND_HALF];
    const double factor = (double)j->dl[t] * weight * half / (double)j->count / M_LN2;
    for (int64_t i = 0; i < j->count; i++) j->drange[t * j->count + i] = (float)(factor * element(j, t, i).slope);
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
    j.dl = n->in[5]->data, j.drange = n->out[0]->data;
    kd_parallel(images_of(n->in[0]), grad_tile, &j);
}

const kd_kernel KD_KERNEL(bound) = { loss, NULL };
const kd_kernel KD_KERNEL(bound_grad) = { grad, NULL };
