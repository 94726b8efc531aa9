// RMS norm and its gradient.    op: lib/op/rms_norm.c
// Forward moves 2 floats an element (x, y), the gradient 3 or 4 (x, dy, dx, acc). A row is read from memory once; the second
// pass over it finds it in the L1 cache. Tiles are ROWS rows within an image.
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t images, rows, c, blocks;       // rows and blocks an image
    const float *x, *s, *rstd_in, *dy, *acc;
    int64_t s_step;                        // from one image's scale to the next: 0 if shared
    float *y, *rstd, *dx, *ds, *part;      // part [images, blocks, c]
    float offset, eps;
} job;

static job job_of(const kd_val *x, const kd_val *s, double offset)
{
    job j = { .images = images_of(x), .c = kd_last(x), .x = x->data, .s = s->data, .offset = (float)offset };
    j.rows = j.images ? kd_rows(x) / j.images : 0;
    j.blocks = ceil_div(j.rows, ROWS);
    j.s_step = s->shape.n == 2 ? j.c : 0;
    return j;
}

static void scale_row(float *y, const float *x, const float *s, float offset, float r, int64_t c)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < c; i++) y[i] = x[i] * r * (s[i] + offset);
}

static void norm_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->rows, ROWS);
    for (int64_t row = p.image * j->rows + p.first; row < p.image * j->rows + p.end; row++) {
        const float *x = j->x + row * j->c;
        const float r = 1 / sqrtf(dot(x, x, j->c) / (float)j->c + j->eps);
        if (j->rstd) j->rstd[row] = r;
        if (j->y) scale_row(j->y + row * j->c, x, j->s + p.image * j->s_step, j->offset, r, j->c);
    }
}

static void norm(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n->in[0], n->in[1], n->a.rms_norm.offset);
    j.eps = (float)n->a.rms_norm.eps, j.y = data_used(n->out[0]), j.rstd = data_used(n->out[1]);
    kd_parallel(j.images * j.blocks, norm_tile, &j);
}

// Gradient ---------------------------------------------------------------------------------------------------------

static void add_scale_part(float *part, const float *x, const float *dy, float r, int64_t c)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < c; i++) part[i] += x[i] * r * dy[i];
}

static void grad_row(const job *j, float *dx, const float *x, const float *dy, const float *acc, const float *s, float r)
{
    const float k = r * r * r * dot3(x, dy, s, j->offset, j->c) / (float)j->c, offset = j->offset;
    const int64_t c = j->c;
    if (acc) {
#pragma GCC ivdep
        for (int64_t i = 0; i < c; i++) dx[i] = acc[i] + (r * (s[i] + offset) * dy[i] - k * x[i]);
    } else {
#pragma GCC ivdep
        for (int64_t i = 0; i < c; i++) dx[i] = r * (s[i] + offset) * dy[i] - k * x[i];
    }
}

static void grad_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->rows, ROWS);
    float *part = j->ds ? j->part + t * j->c : NULL;
    if (part) memset(part, 0, (size_t)j->c * sizeof *part);
    for (int64_t row = p.image * j->rows + p.first; row < p.image * j->rows + p.end; row++) {
        const int64_t at = row * j->c;
        if (part) add_scale_part(part, j->x + at, j->dy + at, j->rstd_in[row], j->c);       // before dx overwrites x or dy
        if (j->dx)
            grad_row(j, j->dx + at, j->x + at, j->dy + at, j->acc ? j->acc + at : NULL, j->s + p.image * j->s_step,
                     j->rstd_in[row]);
    }
}

/// Sums the blocks' parts, in order, for 64 columns: of one image (own scale), or of all (shared).
static void sum_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const int64_t groups = ceil_div(j->c, ROWS), first = t % groups * ROWS, width = j->c - first < ROWS ? j->c - first : ROWS;
    const int64_t parts = j->s_step ? j->blocks : j->images * j->blocks, image = t / groups;
    double sum[ROWS] = { 0 };
    for (int64_t b = 0; b < parts; b++) {
        const float *part = j->part + (image * j->blocks + b) * j->c + first;
        for (int64_t i = 0; i < width; i++) sum[i] += part[i];
    }
    for (int64_t i = 0; i < width; i++) j->ds[image * j->c + first + i] = (float)sum[i];
}

static void grad(const kd_node *n, void *scratch)
{
    job j = job_of(n->in[0], n->in[1], n->a.rms_norm.offset);
    j.rstd_in = n->in[2]->data, j.dy = n->in[3]->data, j.acc = data_of(n->in[4]);
    j.dx = data_used(n->out[0]), j.ds = data_used(n->out[1]), j.part = scratch;
    kd_parallel(j.images * j.blocks, grad_tile, &j);
    if (j.ds) kd_parallel((j.s_step ? j.images : 1) * ceil_div(j.c, ROWS), sum_tile, &j);
}

static size_t grad_scratch(const kd_node *n)
{
    const kd_val *x = n->in[0];
    const int64_t images = images_of(x);
    return images ? (size_t)(images * ceil_div(kd_rows(x) / images, ROWS) * kd_last(x)) * sizeof(float) : 0;
}

const kd_kernel KD_KERNEL(rms_norm) = { norm, NULL };
const kd_kernel KD_KERNEL(rms_norm_grad) = { grad, grad_scratch };
