// Products with weights: y = x w^T + b + res, with GEGLU, and dx = dy w + acc.    op: lib/op/linear.c
// The weight is packed into panels (once a call, K*M floats against rows*K*M products), then row blocks times groups of
// panels are the tiles. gemm.h says why the cut does not show in the result.
#include "cpu/kernel.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/vmath.h"

enum { ROWS = 96 };                        // rows of a block: a multiple of every MR; 96 x 256 floats stay in the L2 cache

typedef struct job {
    int64_t rows, k, n;                    // y [rows, n] = x [rows, k] times packed [k, n]
    const float *x, *w, *b, *res;
    float *y, *u, *packed;
    int64_t panels, groups, group;         // panels are cut into groups of `group` panels
    bool transposed;                       // w is [n, k] (a layer's own), else [k, n] (its gradient)
} job;

static void pack_panel(void *arg, int64_t p, int thread)
{
    const job *const j = arg;
    (void)thread;
    float *const to = j->packed + p * NR * j->k;
    const int64_t c = p * NR, n = j->n - c < NR ? j->n - c : NR;
    if (j->transposed)
        gemm_pack_t(to, j->w + c * j->k, j->k, j->k, n);
    else
        gemm_pack(to, j->w + c, j->n, j->k, n);
}

// Cuts the panels into groups so that there is work for all threads even where there are few rows.
static int64_t cut(job *j)
{
    const int64_t blocks = (j->rows + ROWS - 1) / ROWS, want = (4 * kd_threads() + blocks - 1) / blocks;
    j->group = (j->panels + want - 1) / want;
    j->groups = (j->panels + j->group - 1) / j->group;
    return blocks * j->groups;
}

// Rows [i0, i1) and panels [p0, p1) of a tile.
typedef struct part { int64_t i0, i1, p0, p1; } part;

static part part_of(const job *j, int64_t tile)
{
    const int64_t i = tile / j->groups * ROWS, p = tile % j->groups * j->group;
    return (part){ i, i + ROWS < j->rows ? i + ROWS : j->rows, p, p + j->group < j->panels ? p + j->group : j->panels };
}

// y = t + b + res for mr rows and n <= NR columns at row i, column c.
static void finish(const job *j, const float *t, int mr, int64_t i, int64_t c, int64_t n)
{
    for (int r = 0; r < mr; r++) {
        float *const y = j->y + (i + r) * j->n + c;
        const float *const res = j->res ? j->res + (i + r) * j->n + c : NULL, *const from = t + r * NR;
        for (int64_t q = 0; q < n; q++)
            y[q] = from[q] + (j->b ? j->b[c + q] : 0) + (res ? res[q] : 0);
    }
}

static void block(void *arg, int64_t tile, int thread)
{
    const job *const j = arg;
    (void)thread;
    const part w = part_of(j, tile);
    for (int64_t p = w.p0; p < w.p1; p++)
        for (int64_t i = w.i0; i < w.i1; i += MR) {
            const int mr = (int)(w.i1 - i < MR ? w.i1 - i : MR);
            const int64_t c = p * NR, n = j->n - c < NR ? j->n - c : NR;
            const float *const panel = j->packed + c * j->k;
            if (n == NR && !j->b && !j->res) {
                gemm_tile_rows(mr, j->k, j->x + i * j->k, j->k, panel, j->y + i * j->n + c, j->n);
                continue;
            }
            float t[MR * NR];
            gemm_tile_rows(mr, j->k, j->x + i * j->k, j->k, panel, t, NR);
            finish(j, t, mr, i, c, n);
        }
}

static void product(job *j)
{
    j->panels = (j->n + NR - 1) / NR;
    kd_parallel(j->panels, pack_panel, j);
    kd_parallel(cut(j), block, j);
}

static void linear(const kd_node *n, void *scratch)
{
    job j = { .rows = kd_rows(n->in[0]), .k = kd_last(n->in[0]), .n = kd_last(n->out[0]), .x = n->in[0]->data, .w = n->in[1]->data,
              .b = n->in[2] ? n->in[2]->data : NULL, .res = n->in[3] ? n->in[3]->data : NULL, .y = n->out[0]->data,
              .packed = scratch, .transposed = true };
    product(&j);
}

static void grad_x(const kd_node *n, void *scratch)
{
    job j = { .rows = kd_rows(n->in[0]), .k = kd_last(n->in[0]), .n = kd_last(n->out[0]), .x = n->in[0]->data, .w = n->in[1]->data,
              .res = n->in[2] ? n->in[2]->data : NULL, .y = n->out[0]->data, .packed = scratch };
    product(&j);
}

static size_t product_scratch(const kd_node *n)
{
    return (size_t)gemm_packed(kd_last(n->in[0]), kd_last(n->out[0])) * sizeof(float);
}

// GEGLU: a panel holds VW features of the first half and the VW gates that belong to them, so a tile can finish its
// features while they are in cache.
static void pack_geglu(void *arg, int64_t p, int thread)
{
    const job *const j = arg;
    (void)thread;
    const int64_t f = j->n, c = p * VW;
    float *const to = j->packed + p * NR * j->k;
    for (int q = 0; q < NR; q++) {
        const int64_t feature = c + q % VW;
        const float *const row = feature < f ? j->w + (feature + (q < VW ? 0 : f)) * j->k : NULL;
        for (int64_t l = 0; l < j->k; l++)
            to[l * NR + q] = row ? row[l] : 0;
    }
}

// n is VW but in the last panel of an odd number of features: a constant where it is expanded.
static inline __attribute__((always_inline)) void finish_geglu(const job *j, const float *t, int mr, int64_t i, int64_t c, const int64_t n)
{
    for (int r = 0; r < mr; r++) {
        const float *const a = t + r * NR, *const g = a + VW;
        float h[VW];
        for (int q = 0; q < VW; q++)
            h[q] = a[q] * kd_vgelu(g[q]);
        memcpy(j->y + (i + r) * j->n + c, h, (size_t)n * sizeof(float));
        if (j->u) {
            memcpy(j->u + (i + r) * 2 * j->n + c, a, (size_t)n * sizeof(float));
            memcpy(j->u + (i + r) * 2 * j->n + j->n + c, g, (size_t)n * sizeof(float));
        }
    }
}

static void block_geglu(void *arg, int64_t tile, int thread)
{
    const job *const j = arg;
    (void)thread;
    const part w = part_of(j, tile);
    for (int64_t p = w.p0; p < w.p1; p++)
        for (int64_t i = w.i0; i < w.i1; i += MR) {
            const int mr = (int)(w.i1 - i < MR ? w.i1 - i : MR);
            float t[MR * NR];
            gemm_tile_rows(mr, j->k, j->x + i * j->k, j->k, j->packed + p * NR * j->k, t, NR);
            if (j->n - p * VW >= VW)
                finish_geglu(j, t, mr, i, p * VW, VW);
            else
                finish_geglu(j, t, mr, i, p * VW, j->n - p * VW);
        }
}

static void linear_geglu(const kd_node *n, void *scratch)
{
    job j = { .rows = kd_rows(n->in[0]), .k = kd_last(n->in[0]), .n = kd_last(n->out[0]), .x = n->in[0]->data, .w = n->in[1]->data,
              .y = n->out[0]->data, .u = n->out[1]->used ? n->out[1]->data : NULL, .packed = scratch };
    j.panels = (j.n + VW - 1) / VW;
    kd_parallel(j.panels, pack_geglu, &j);
    kd_parallel(cut(&j), block_geglu, &j);
}

static size_t geglu_scratch(const kd_node *n)
{
    const int64_t f = kd_last(n->out[0]);
    return (size_t)((f + VW - 1) / VW * NR * kd_last(n->in[0])) * sizeof(float);
}

const kd_kernel KD_KERNEL(linear) = { linear, product_scratch };
const kd_kernel KD_KERNEL(linear_grad_x) = { grad_x, product_scratch };
const kd_kernel KD_KERNEL(linear_geglu) = { linear_geglu, geglu_scratch };
