// du of y = a gelu(g), u = [a, g]: da = dy gelu(g), dg = dy a gelu'(g).    op: lib/op/linear.c
// Moves rows*F*5 floats; may run over u. A tile is ROWS rows.
#include "cpu/kernel.h"
#include "cpu/kernels/vmath.h"

enum { ROWS = 16 };
typedef struct job { int64_t rows, f; const float *u, *dy; float *du; } job;

static void tile(void *arg, int64_t t, int thread)
{
    const job *const j = arg;
    (void)thread;
    for (int64_t r = t * ROWS; r < j->rows && r < (t + 1) * ROWS; r++) {
        const float *const a = j->u + r * 2 * j->f, *const g = a + j->f, *const dy = j->dy + r * j->f;
        float *const da = j->du + r * 2 * j->f, *const dg = da + j->f;
#pragma GCC ivdep
        for (int64_t c = 0; c < j->f; c++) {
            float slope;
            const float ac = a[c], gelu = kd_vgelu_slope(g[c], &slope);
            da[c] = dy[c] * gelu;
            dg[c] = dy[c] * ac * slope;
        }
    }
}

static void run_tiles(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = { kd_rows(n->in[1]), kd_last(n->in[1]), n->in[0]->data, n->in[1]->data, n->out[0]->data };
    kd_parallel((j.rows + ROWS - 1) / ROWS, tile, &j);
}

const kd_kernel KD_KERNEL(geglu_grad) = { run_tiles, NULL };
