// dw = dy^T x, summed over all rows of all images, and the sum over rows alone.    op: lib/op/linear.c
// A tile is a part of dw, OUT x IN; it walks the rows in blocks of ROWS, packs its columns of dy and x, and adds. The
// order of the sum is the order of the rows: fixed by the number of rows alone.
#include "cpu/kernel.h"
#include "cpu/kernels/gemm.h"

enum { OUT = 192, IN = 256, ROWS = 256 };  // largest tile of dw, and rows a block: all parts of a block stay in the L2 cache

typedef struct job {
    int64_t rows, out, in;                 // dy [rows, out], x [rows, in], dw [out, in]
    const float *dy, *x;
    float *dw, *scratch;
    int64_t out_step, in_step, in_tiles;
} job;

static int64_t tile_scratch(void)          // floats a thread: columns of dy by MR, panels of x
{
    return (OUT + MR + IN + NR) * ROWS;
}

// Columns [c, c + n) of dy for k rows, as strips of MR columns: strip s holds k rows of MR floats. Where a row has a whole
// vector it is copied whole: what is too much is written over by the next row or the next strip, or lies in the room behind.
static void pack_strips(float *to, const float *dy, int64_t ld, int64_t k, int64_t n)
{
    for (int64_t c = 0; c < n; c += MR, to += k * MR)
        if (n - c >= VW)
            for (int64_t l = 0; l < k; l++)
                *(vf *)(to + l * MR) = *(const vf *)(dy + l * ld + c);
        else
            for (int64_t l = 0; l < k; l++)
                for (int64_t q = 0; q < n - c && q < MR; q++)
                    to[l * MR + q] = dy[l * ld + c + q];
}

static void tile(void *arg, int64_t t, int thread)
{
    const job *const j = arg;
    const int64_t o = t / j->in_tiles * j->out_step, i = t % j->in_tiles * j->in_step;
    const int64_t no = j->out - o < j->out_step ? j->out - o : j->out_step, ni = j->in - i < j->in_step ? j->in - i : j->in_step;
    float *const strips = j->scratch + thread * tile_scratch(), *const panels = strips + (OUT + MR) * ROWS;
    for (int64_t r = 0; r < j->rows; r += ROWS) {
        const int64_t k = j->rows - r < ROWS ? j->rows - r : ROWS;
        pack_strips(strips, j->dy + r * j->out + o, j->out, k, no);
        gemm_pack(panels, j->x + r * j->in + i, j->in, k, ni);
        for (int64_t c = 0; c < no; c += MR)
            gemm_panels(no - c < MR ? no - c : MR, ni, k, r > 0, strips + c * k, 1, MR, panels, j->dw + (o + c) * j->in + i, j->in);
    }
}

static void grad_w(const kd_node *n, void *scratch)
{
    job j = { .rows = kd_rows(n->in[0]), .out = kd_last(n->in[0]), .in = kd_last(n->in[1]), .dy = n->in[0]->data, .x = n->in[1]->data,
              .dw = n->out[0]->data, .scratch = scratch };
    j.out_step = even_part(j.out, OUT, MR);
    j.in_step = even_part(j.in, IN, NR);
    j.in_tiles = ceil_div(j.in, j.in_step);
    kd_parallel(ceil_div(j.out, j.out_step) * j.in_tiles, tile, &j);
}

static size_t grad_w_scratch(const kd_node *n)
{
    (void)n;
    return (size_t)(kd_threads() * tile_scratch()) * sizeof(float);
}

// sum_rows: columns in groups; rows in order ----------------------------------------------------------------------------

enum { COLUMNS = 64 };
typedef struct sum_job { int64_t rows, n; const float *x; float *y; } sum_job;

static void sum_columns(void *arg, int64_t t, int thread)
{
    const sum_job *const j = arg;
    const int64_t c = t * COLUMNS, n = j->n - c < COLUMNS ? j->n - c : COLUMNS;
    double sum[COLUMNS] = { 0 };
    (void)thread;
    for (int64_t r = 0; r < j->rows; r++)
        for (int64_t q = 0; q < n; q++)
            sum[q] += (double)j->x[r * j->n + c + q];
    for (int64_t q = 0; q < n; q++)
        j->y[c + q] = (float)sum[q];
}

static void sum_rows(const kd_node *n, void *scratch)
{
    (void)scratch;
    sum_job j = { kd_rows(n->in[0]), kd_last(n->in[0]), n->in[0]->data, n->out[0]->data };
    kd_parallel(ceil_div(j.n, COLUMNS), sum_columns, &j);
}

const kd_kernel KD_KERNEL(linear_grad_w) = { grad_w, grad_w_scratch };
const kd_kernel KD_KERNEL(sum_rows) = { sum_rows, NULL };
