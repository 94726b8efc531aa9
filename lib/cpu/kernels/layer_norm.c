// Layer norm and its gradient.    op: lib/op/layer_norm.c
// Tiles are rows; sums along a row by 16 lanes, over rows through parts of ROWS rows of an image, in order.
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t images, rows, c, blocks;       // rows and blocks an image
    const float *x, *w, *b, *stats_in, *dy;
    float *y, *stats, *dx, *dw, *db, *part;    // part [images, blocks, 2, c]
    float eps;
} job;

static job job_of(const kd_val *x, const kd_val *w)
{
    job j = { .images = x->shape.n > 1 ? images_of(x) : 1, .c = kd_last(x), .x = x->data, .w = w->data };
    j.rows = j.images ? kd_rows(x) / j.images : 0;
    j.blocks = ceil_div(j.rows, ROWS);
    return j;
}

static float sum(const float *x, int64_t n)
{
    f16 acc = { 0 };
    float tail = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) acc += LOAD(x + i);
    for (; i < n; i++) tail += x[i];
    return fold(&acc) + tail;
}

static float squares(const float *x, float mean, int64_t n)
{
    f16 acc = { 0 };
    float tail = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) acc += (LOAD(x + i) - mean) * (LOAD(x + i) - mean);
    for (; i < n; i++) tail += (x[i] - mean) * (x[i] - mean);
    return fold(&acc) + tail;
}

static void norm_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->rows, ROWS);
    for (int64_t row = p.image * j->rows + p.first; row < p.image * j->rows + p.end; row++) {
        const float *x = j->x + row * j->c, mean = sum(x, j->c) / (float)j->c;
        const float rstd = 1 / sqrtf(squares(x, mean, j->c) / (float)j->c + j->eps);
        if (j->stats) j->stats[row * 2] = mean, j->stats[row * 2 + 1] = rstd;
        float *y = j->y + row * j->c;
#pragma GCC ivdep
        for (int64_t i = 0; i < j->c; i++) y[i] = (x[i] - mean) * rstd * j->w[i] + j->b[i];
    }
}

static void norm(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n->in[0], n->in[1]);
    j.b = n->in[2]->data, j.eps = (float)n->a.layer_norm.eps, j.y = n->out[0]->data, j.stats = data_used(n->out[1]);
    kd_parallel(j.images * j.blocks, norm_tile, &j);
}

// Gradient -------------------------------------------------------------------------------------------------------------

static void add_parts(float *dw, float *db, const float *x, const float *dy, float mean, float rstd, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) dw[i] += dy[i] * ((x[i] - mean) * rstd), db[i] += dy[i];
}

static void grad_row(const job *j, float *dx, const float *x, const float *dy, float mean, float rstd)
{
    double g = 0, gx = 0;
    for (int64_t i = 0; i < j->c; i++) {
        const double k = (double)dy[i] * (double)j->w[i];
        g += k, gx += k * (double)((x[i] - mean) * rstd);
    }
    const float a = (float)(g / (double)j->c), b = (float)(gx / (double)j->c);
#pragma GCC ivdep
    for (int64_t i = 0; i < j->c; i++) dx[i] = rstd * (dy[i] * j->w[i] - a - (x[i] - mean) * rstd * b);
}

static void grad_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->rows, ROWS);
    float *part = j->part + t * 2 * j->c;
    memset(part, 0, (size_t)(2 * j->c) * sizeof *part);
    for (int64_t row = p.image * j->rows + p.first; row < p.image * j->rows + p.end; row++) {
        const int64_t at = row * j->c;
        const float mean = j->stats_in[row * 2], rstd = j->stats_in[row * 2 + 1];
        add_parts(part, part + j->c, j->x + at, j->dy + at, mean, rstd, j->c);        // before dx overwrites x or dy
        if (j->dx) grad_row(j, j->dx + at, j->x + at, j->dy + at, mean, rstd);
    }
}

static void parameters_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    for (int64_t c = t * ROWS; c < j->c && c < (t + 1) * ROWS; c++) {
        double dw = 0, db = 0;
        for (int64_t b = 0; b < j->images * j->blocks; b++) {
            dw += (double)j->part[b * 2 * j->c + c];
            db += (double)j->part[(b * 2 + 1) * j->c + c];
        }
        if (j->dw) j->dw[c] = (float)dw;
        if (j->db) j->db[c] = (float)db;
    }
}

static void grad(const kd_node *n, void *scratch)
{
    job j = job_of(n->in[0], n->in[1]);
    j.stats_in = n->in[2]->data, j.dy = n->in[3]->data, j.part = scratch;
    j.dx = data_used(n->out[0]), j.dw = data_used(n->out[1]), j.db = data_used(n->out[2]);
    kd_parallel(j.images * j.blocks, grad_tile, &j);
    kd_parallel(ceil_div(j.c, ROWS), parameters_tile, &j);
}

static size_t grad_scratch(const kd_node *n)
{
    const job j = job_of(n->in[0], n->in[1]);
    return (size_t)(j.images * j.blocks * 2 * j.c) * sizeof(float);
}

const kd_kernel KD_KERNEL(layer_norm) = { norm, NULL };
const kd_kernel KD_KERNEL(layer_norm_grad) = { grad, grad_scratch };
