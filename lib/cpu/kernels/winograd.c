// Convolution with kernels of 3x3, and its gradient for x, which is one too: by minimal filtering (winograd.h).
//   op: lib/op/conv2d.c
// The kernels' points are packed once, in panels of NR output channels. A block of the result is some rows of tiles of one image,
// or several small images: the points of its input tiles, 16 products, and the results from their points.
// An element's sum runs over the input channels in parts that depend on the layer alone, whatever its tile and block.
#include "cpu/kernels/winograd.h"

enum { TILES = 64, PART = 6144 / NR };     // of a block; longest part of the inner axis: a panel of it stays in the L1 cache

typedef struct job {
    const conv *c;
    tiling g;
    int64_t blocks_down, blocks, panels, groups, group;
    float *packed, *zeros, *scratch;       // packed [POINTS, panels, ci, NR], zeros [ci]
} job;

static job job_of(const conv *c)
{
    job j = { .c = c, .g = tiling_of(c, TILES), .panels = c->co / NR };
    j.blocks_down = ceil_div(j.g.down, j.g.block_rows);
    j.blocks = ceil_div(c->n, j.g.block_images) * j.blocks_down;
    j.group = ceil_div(j.panels, ceil_div(4 * kd_threads(), j.blocks));
    j.groups = ceil_div(j.panels, j.group);
    return j;
}

static int64_t packed_floats(const job *j) { return POINTS * j->panels * j->c->ci * NR; }
// A thread's: the points of a block's inputs [POINTS, tiles, ci] and of its results [POINTS, group, tiles, NR]
static int64_t inputs_floats(const job *j) { return POINTS * j->g.most * j->c->ci; }
static int64_t thread_floats(const job *j) { return inputs_floats(j) + POINTS * j->group * j->g.most * NR; }

size_t KD_ISA_NAME(winograd_floats)(const conv *c)
{
    const job j = job_of(c);
    return (size_t)(packed_floats(&j) + c->ci + thread_floats(&j) * kd_threads());
}

// G g G^T of one input channel and a panel's output channels; g [3][3][NR]. Points lie `step` apart.
static void pack_channel(float *to, int64_t step, const float *g)
{
    for (int half = 0; half < NR; half += VW, g += VW, to += VW) {
        vf rows[4][3], u[4];
        for (int s = 0; s < 3; s++) {
            kernel_points(u, load(g + s * NR), load(g + (3 + s) * NR), load(g + (6 + s) * NR));
            for (int r = 0; r < 4; r++)
                rows[r][s] = u[r];
        }
        for (int r = 0; r < 4; r++) {
            kernel_points(u, rows[r][0], rows[r][1], rows[r][2]);
            for (int s = 0; s < 4; s++)
                *(vf *)(to + (4 * r + s) * step) = u[s];
        }
    }
}

static void pack(void *arg, int64_t p, int thread)
{
    const job *const j = arg;
    const conv *const c = j->c;
    float g[9 * NR];
    (void)thread;
    for (int64_t k = 0; k < c->ci; k++) {
        for (int64_t q = 0; q < NR; q++) {
            const float *const from = c->weight + (p * NR + q) * c->out_step + k * c->c_step;
            for (int64_t r = 0; r < 3; r++)
                for (int64_t s = 0; s < 3; s++)
                    g[(r * 3 + s) * NR + q] = from[(c->r_first + r * c->r_step) * c->row_step + c->s_first + s * c->s_step];
        }
        pack_channel(j->packed + (p * c->ci + k) * NR, j->panels * c->ci * NR, g);
    }
}

static void transform_inputs(const job *j, const tiles *b, float *to)
{
    const conv *const c = j->c;
    const float *d[POINTS];
    for (int64_t t = 0; t < b->n; t++) {
        tile_pixels(d, c, spot_of(&j->g, b, t), j->zeros);
        for (int64_t k = 0; k < c->ci; k += VW)
            input_points(to + t * c->ci + k, b->n * c->ci, d, k);
    }
}

static void multiply(const job *j, int64_t n, int64_t p0, int64_t p1, const float *inputs, float *results)
{
    const int64_t ci = j->c->ci, parts = ceil_div(ci, PART);
    for (int64_t point = 0; point < POINTS; point++)
        for (int64_t p = p0; p < p1; p++, results += n * NR)
            for (int64_t i = 0; i < parts; i++) {
                const int64_t k0 = ci * i / parts, k = ci * (i + 1) / parts - k0;
                const float *const panel = j->packed + ((point * j->panels + p) * ci + k0) * NR;
                for (int64_t t = 0; t < n; t += MR)
                    (i > 0 ? gemm_tile_rows_add : gemm_tile_rows)((int)least(MR, n - t), k, inputs + (point * n + t) * ci + k0,
                                                                  ci, panel, results + t * NR, NR);
            }
}

// The 2x2 pixels of a tile, as far as they lie in the image: + b + res.
static void finish_tile(const conv *c, const float *m, int64_t step, spot s, int64_t channel)
{
    for (int64_t half = 0; half < NR; half += VW) {
        vf y[4];
        output_pixels(y, m + half, step);
        for (int64_t k = 0; k < 4; k++) {
            if (s.y + k / 2 >= c->rows || s.x + k % 2 >= c->cols)
                continue;
            const int64_t at = ((s.image * c->rows + s.y + k / 2) * c->cols + s.x + k % 2) * c->co + channel + half;
            vf v = y[k];
            if (c->b)
                v += load(c->b + channel + half);
            if (c->res)
                v += load(c->res + at);
            *(vf *)(c->y + at) = v;
        }
    }
}

static void transform_results(const job *j, const tiles *b, int64_t p0, int64_t p1, const float *results)
{
    for (int64_t p = p0; p < p1; p++)
        for (int64_t t = 0; t < b->n; t++)
            finish_tile(j->c, results + ((p - p0) * b->n + t) * NR, (p1 - p0) * b->n * NR, spot_of(&j->g, b, t), p * NR);
}

static void block(void *arg, int64_t task, int thread)
{
    const job *const j = arg;
    const int64_t number = task / j->groups, p0 = task % j->groups * j->group, p1 = least(p0 + j->group, j->panels);
    const tiles b = tiles_of(&j->g, j->c, number / j->blocks_down * j->g.block_images, number % j->blocks_down * j->g.block_rows);
    float *const inputs = j->scratch + thread * thread_floats(j), *const results = inputs + inputs_floats(j);
    transform_inputs(j, &b, inputs);
    multiply(j, b.n, p0, p1, inputs, results);
    transform_results(j, &b, p0, p1, results);
}

void KD_ISA_NAME(winograd)(const conv *c, float *scratch)
{
    job j = job_of(c);
    j.packed = scratch;
    j.zeros = j.packed + packed_floats(&j);
    j.scratch = j.zeros + c->ci;
    memset(j.zeros, 0, (size_t)c->ci * sizeof(float));
    kd_parallel(j.panels, pack, &j);
    kd_parallel(j.blocks * j.groups, block, &j);
}
