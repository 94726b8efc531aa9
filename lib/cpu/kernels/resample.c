// Down and up by two as sparse products along both axes, and their transposes.    op: lib/op/resample.c
// The matrices are made as lists: for each place of the result, the places that it reads and their weights. A tile is a row.
#include "cpu/kernels/rows.h"

enum { TAPS = 8 };                         // at most 6 are needed: a transposed FIR_UP, reflected at both ends

typedef struct taps { int n; int32_t from[TAPS]; float weight[TAPS]; } taps;

typedef struct job {
    int64_t h, w, c, h_in, w_in;           // of the result, and what is read
    taps *rows, *cols;
    const float *x;
    float *y;
} job;

static void tap(taps *t, int64_t from, float weight)
{
    t->from[t->n] = (int32_t)from, t->weight[t->n++] = weight;
}

/// The place that a padded axis of n shows at i, -1 <= i <= n: the edge is not repeated.
static int64_t reflect(int64_t i, int64_t n) { return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i; }

/// What place o of the result reads of an axis of n.
static taps forward(kd_resampling how, int64_t o, int64_t n)
{
    static const float fir[4] = { .125f, .375f, .375f, .125f };
    taps t = { 0 };
    switch (how) {
    case KD_FIR_DOWN:
        for (int k = 0; k < 4; k++) tap(&t, reflect(2 * o - 1 + k, n), fir[k]);
        break;
    case KD_FIR_UP:                        // padded place p reaches 2 p - 3 + k with 2 fir[k]
        for (int64_t p = (o + 1) / 2; p <= (o + 3) / 2; p++) tap(&t, reflect(p - 1, n), 2 * fir[o + 3 - 2 * p]);
        break;
    case KD_MEAN_DOWN:
        tap(&t, 2 * o, .5f), tap(&t, 2 * o + 1, .5f);
        break;
    default:
        tap(&t, o / 2, 1);
    }
    return t;
}

/// The lists of an axis: n_out results, n_in places to read.
static void lists(taps *to, kd_resampling how, bool transposed, int64_t n_out, int64_t n_in)
{
    for (int64_t o = 0; o < n_out; o++) to[o] = transposed ? (taps){ 0 } : forward(how, o, n_in);
    for (int64_t i = 0; i < n_in && transposed; i++) {
        const taps t = forward(how, i, n_out);
        for (int k = 0; k < t.n; k++) tap(to + t.from[k], i, t.weight[k]);
    }
}

static void add_scaled(float *y, const float *x, float f, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) y[i] += f * x[i];
}

static void row(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const float *const x = j->x + t / j->h * j->h_in * j->w_in * j->c;
    const taps *const rows = j->rows + t % j->h;
    for (int64_t o = 0; o < j->w; o++) {
        float *const y = j->y + (t * j->w + o) * j->c;
        const taps *const cols = j->cols + o;
        memset(y, 0, (size_t)j->c * sizeof *y);
        for (int a = 0; a < rows->n; a++)
            for (int b = 0; b < cols->n; b++)
                add_scaled(y, x + (rows->from[a] * j->w_in + cols->from[b]) * j->c, rows->weight[a] * cols->weight[b], j->c);
    }
}

static void resample(const kd_node *n, void *scratch)
{
    const int64_t *const from = n->in[0]->shape.d, *const to = n->out[0]->shape.d;
    job j = { to[1], to[2], to[3], from[1], from[2], scratch, (taps *)scratch + to[1], n->in[0]->data, n->out[0]->data };
    lists(j.rows, n->a.resample.how, n->a.resample.transposed, j.h, j.h_in);
    lists(j.cols, n->a.resample.how, n->a.resample.transposed, j.w, j.w_in);
    kd_parallel(to[0] * to[1], row, &j);
}

static size_t scratch_of(const kd_node *n)
{
    return (size_t)(n->out[0]->shape.d[1] + n->out[0]->shape.d[2]) * sizeof(taps);
}

const kd_kernel KD_KERNEL(resample) = { resample, scratch_of };
