// Linear interpolation by a learned factor, and its gradient.    op: lib/op/lerp.c
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t count, blocks;                 // elements and tiles an image
    float f;
    const float *a, *b, *dy;
    float *y, *da, *db;
    double *part;
} job;

static job job_of(const kd_node *n)
{
    const int64_t images = images_of(n->in[0]);
    job j = { .count = images ? kd_count(n->in[0]) / images : 0, .a = n->in[0]->data, .b = n->in[1]->data };
    j.f = *(const float *)n->in[2]->data;
    j.blocks = ceil_div(j.count, ELEMENTS);
    return j;
}

static void lerp_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const float *a = j->a + p.image * j->count, *b = j->b + p.image * j->count, f = j->f;
    float *y = j->y + p.image * j->count;
#pragma GCC ivdep
    for (int64_t i = p.first; i < p.end; i++) y[i] = a[i] + f * (b[i] - a[i]);
}

static void lerp(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n);
    j.y = n->out[0]->data;
    kd_parallel(images_of(n->in[0]) * j.blocks, lerp_tile, &j);
}

/// Sum of dy (b - a), products and sums in double.
static double slope(const float *dy, const float *a, const float *b, int64_t n)
{
    d8 acc = { 0 };
    double lane[8], sum = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const d8 u = __builtin_convertvector(*(const f8u *)(dy + i), d8);
        acc += u * (__builtin_convertvector(*(const f8u *)(b + i), d8) - __builtin_convertvector(*(const f8u *)(a + i), d8));
    }
    memcpy(lane, &acc, sizeof lane);
    for (int k = 0; i < n; i++, k++) lane[k] += (double)dy[i] * ((double)b[i] - (double)a[i]);
    for (int k = 0; k < 8; k++) sum += lane[k];
    return sum;
}

static void grad_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const int64_t at = p.image * j->count + p.first, n = p.end - p.first;
    const float *dy = j->dy + at, f = j->f;
    if (j->part) j->part[t] = slope(dy, j->a + at, j->b + at, n);       // before da overwrites an input
    if (j->db) {
        float *db = j->db + at;
        for (int64_t i = 0; i < n; i++) db[i] = f * dy[i];
    }
    if (j->da) {
        float *da = j->da + at;
#pragma GCC ivdep
        for (int64_t i = 0; i < n; i++) da[i] = (1 - f) * dy[i];
    }
}

static void grad(const kd_node *n, void *scratch)
{
    job j = job_of(n);
    float *df = data_used(n->out[2]);
    const int64_t images = images_of(n->in[0]);
    j.dy = n->in[3]->data, j.da = data_used(n->out[0]), j.db = data_used(n->out[1]), j.part = df ? scratch : NULL;
    kd_parallel(images * j.blocks, grad_tile, &j);
    double sum = 0;
    for (int64_t i = 0; df && i < images; i++) sum += kd_tree_sum(j.part + i * j.blocks, j.blocks);
    if (df) *df = (float)sum;
}

static size_t grad_scratch(const kd_node *n)
{
    const int64_t images = images_of(n->in[0]);
    return images ? (size_t)(images * ceil_div(kd_count(n->in[0]) / images, ELEMENTS)) * sizeof(double) : 0;
}

const kd_kernel KD_KERNEL(lerp) = { lerp, NULL };
const kd_kernel KD_KERNEL(lerp_grad) = { grad, grad_scratch };
