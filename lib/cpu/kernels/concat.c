// Joining and cutting along the last axis: copies.    op: lib/op/concat.c
#include "cpu/kernels/rows.h"

/// Of concat: n floats of a, m of b, to a row of y_n. Of slice: rows of a_n. Of its gradient: n floats of a, put at `to`.
typedef struct job {
    int64_t rows, n, m, a_n, y_n;
    const float *a, *b;
    float *y;
    int64_t to;
} job;

static void join_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->rows, ROWS);
    for (int64_t r = p.first; r < p.end; r++) {
        memcpy(j->y + r * j->y_n, j->a + r * j->n, (size_t)j->n * sizeof(float));
        memcpy(j->y + r * j->y_n + j->n, j->b + r * j->m, (size_t)j->m * sizeof(float));
    }
}

static void cut_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->rows, ROWS);
    for (int64_t r = p.first; r < p.end; r++) memcpy(j->y + r * j->y_n, j->a + r * j->a_n, (size_t)j->y_n * sizeof(float));
}

static void put_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->rows, ROWS);
    for (int64_t r = p.first; r < p.end; r++) {
        float *const y = j->y + r * j->y_n;
        memset(y, 0, (size_t)j->to * sizeof(float));
        memcpy(y + j->to, j->a + r * j->n, (size_t)j->n * sizeof(float));
        memset(y + j->to + j->n, 0, (size_t)(j->y_n - j->to - j->n) * sizeof(float));
    }
}

static void concat(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = { .rows = kd_rows(n->out[0]), .n = kd_last(n->in[0]), .m = kd_last(n->in[1]), .y_n = kd_last(n->out[0]),
              .a = n->in[0]->data, .b = n->in[1]->data, .y = n->out[0]->data };
    kd_parallel(ceil_div(j.rows, ROWS), join_tile, &j);
}

static void slice(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = { .rows = kd_rows(n->out[0]), .a_n = kd_last(n->in[0]), .y_n = kd_last(n->out[0]),
              .a = (const float *)n->in[0]->data + n->a.slice.first, .y = n->out[0]->data };
    kd_parallel(ceil_div(j.rows, ROWS), cut_tile, &j);
}

static void slice_grad(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = { .rows = kd_rows(n->out[0]), .n = kd_last(n->in[0]), .y_n = kd_last(n->out[0]), .a = n->in[0]->data,
              .y = n->out[0]->data, .to = n->a.slice.first };
    kd_parallel(ceil_div(j.rows, ROWS), put_tile, &j);
}

const kd_kernel KD_KERNEL(concat) = { concat, NULL };
const kd_kernel KD_KERNEL(slice) = { slice, NULL };
const kd_kernel KD_KERNEL(slice_grad) = { slice_grad, NULL };
