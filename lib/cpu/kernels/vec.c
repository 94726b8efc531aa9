// Element by element in double, rounded once: what samplers compute.    op: lib/op/vec.c
// This file is compiled without contraction (Makefile, EXACT): the same bits on every instruction set.
#include "cpu/kernels/rows.h"

typedef struct job { int64_t count; const float *x, *y, *z; float *out; double a, b; } job;

static job job_of(const kd_node *n)
{
    return (job){ .count = kd_count(n->out[0]), .x = n->in[0]->data, .y = n->n_in > 1 ? data_of(n->in[1]) : NULL,
                  .z = n->n_in > 2 ? data_of(n->in[2]) : NULL, .out = n->out[0]->data };
}

static void elements(job *j, kd_tile_fn tile) { kd_parallel(ceil_div(j->count, ELEMENTS), tile, j); }

static void mix_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const double a = j->a, b = j->b;
#pragma GCC ivdep
    for (int64_t i = p.first; i < p.end; i++) j->out[i] = (float)(a * j->x[i] + b * j->y[i]);
}

static void mix(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n);
    j.a = n->a.mix.a, j.b = n->a.mix.b;
    elements(&j, mix_tile);
}

static void advance_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const double a = j->a, b = j->b;
    const float *x = j->x, *e = j->y, *f = j->z;
    if (f)
#pragma GCC ivdep
        for (int64_t i = p.first; i < p.end; i++) j->out[i] = (float)(x[i] + a * e[i] + b * ((double)f[i] - e[i]));
    else
#pragma GCC ivdep
        for (int64_t i = p.first; i < p.end; i++) j->out[i] = (float)(x[i] + a * e[i]);
}

static void advance(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n);
    j.a = n->a.mix.a, j.b = n->a.mix.b;
    elements(&j, advance_tile);
}

static void extrapolate_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const double f = j->a;
#pragma GCC ivdep
    for (int64_t i = p.first; i < p.end; i++) j->out[i] = (float)(j->x[i] + f * ((double)j->y[i] - j->x[i]));
}

static void extrapolate(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n);
    j.a = n->a.mix.a;
    elements(&j, extrapolate_tile);
}

static void keep_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
#pragma GCC ivdep
    for (int64_t i = p.first; i < p.end; i++) j->out[i] = j->z[i] == 0 ? j->y[i] : j->x[i];
}

static void keep(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n);
    elements(&j, keep_tile);
}

typedef struct check_job { int64_t size; const float *x; float limit; int64_t code, *first; } check_job;

static void check_tile(void *arg, int64_t image, int thread)
{
    const check_job *j = arg;
    (void)thread;
    const float *x = j->x + image * j->size, limit = j->limit;
    int32_t bad = 0;
    for (int64_t i = 0; i < j->size; i++) bad |= !(fabsf(x[i]) <= limit);
    if (bad && !j->first[image]) j->first[image] = j->code;
}

static void check(const kd_node *n, void *scratch)
{
    (void)scratch;
    const kd_shape *s = &n->in[0]->shape;
    check_job j = { s->d[1], n->in[0]->data, (float)n->a.check.limit, n->a.check.code, n->out[0]->data };
    kd_parallel(s->d[0], check_tile, &j);
}

const kd_kernel KD_KERNEL(mix) = { mix, NULL };
const kd_kernel KD_KERNEL(advance) = { advance, NULL };
const kd_kernel KD_KERNEL(extrapolate) = { extrapolate, NULL };
const kd_kernel KD_KERNEL(keep) = { keep, NULL };
const kd_kernel KD_KERNEL(check) = { check, NULL };
