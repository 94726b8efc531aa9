// dw of a convolution with kernels of 3x3, by the transpose of minimal filtering (winograd.h).    op: lib/op/conv2d.c
//   dw [co, ci] = G^T [ sum over tiles of (A dy A^T) . (B^T x B) ] G
// A task is a part of the output and of the input channels; it walks the images in blocks of tiles, and adds up 16 products
// [tiles, co]^T times [tiles, ci]. The sum's order is that of images and tiles, whatever the part.
#include "cpu/kernels/winograd.h"

enum { TILES = 128, CHANNELS = 96 };       // of a block; largest part of either side

typedef struct job {
    const conv *c;
    const float *dy;
    tiling g;
    int64_t co_step, ci_step, ci_tasks, tasks;
    float *zeros, *scratch;
} job;

static job job_of(const conv *c)
{
    job j = { .c = c, .g = tiling_of(c, TILES) };
    int64_t most = CHANNELS;
    do {                                                           // smaller parts until all threads have work
        j.co_step = even_part(c->co, most, NR), j.ci_step = even_part(c->ci, most, NR);
        j.ci_tasks = ceil_div(c->ci, j.ci_step);
        j.tasks = ceil_div(c->co, j.co_step) * j.ci_tasks;
        most /= 2;
    } while (most >= 24 && j.tasks < kd_threads());
    return j;
}

// A thread's: the points of a block of dy [POINTS, tiles, co], of x [POINTS, ci / NR, tiles, NR], and their products' sums
static int64_t dy_floats(const job *j) { return POINTS * j->g.most * j->co_step; }
static int64_t x_floats(const job *j) { return POINTS * j->g.most * j->ci_step; }
static int64_t thread_floats(const job *j) { return dy_floats(j) + x_floats(j) + POINTS * j->co_step * j->ci_step; }
static int64_t zeros_floats(const job *j) { return j->c->ci > j->c->co ? j->c->ci : j->c->co; }

size_t KD_ISA_NAME(winograd_grad_w_floats)(const conv *c)
{
    const job j = job_of(c);
    return (size_t)(zeros_floats(&j) + thread_floats(&j) * kd_threads());
}

/// A block of tiles with channels [o, o + no) of dy, [i, i + ni) of x.
typedef struct part { tiles of; int64_t o, no, i, ni; } part;

static void transform_dy(const job *j, const part *b, float *to)
{
    const conv *const c = j->c;
    for (int64_t t = 0; t < b->of.n; t++, to += b->no) {
        const spot s = spot_of(&j->g, &b->of, t);
        const float *d[4];
        for (int64_t k = 0; k < 4; k++) {
            const int64_t y = s.y + k / 2, x = s.x + k % 2;
            d[k] = y < c->rows && x < c->cols ? j->dy + ((s.image * c->rows + y) * c->cols + x) * c->co + b->o : j->zeros;
        }
        for (int64_t k = 0; k < b->no; k += VW)
            gradient_points(to + k, b->of.n * b->no, d, k);
    }
}

static void transform_x(const job *j, const part *b, float *to)
{
    const float *d[POINTS];
    for (int64_t t = 0; t < b->of.n; t++) {
        tile_pixels(d, j->c, spot_of(&j->g, &b->of, t), j->zeros);
        for (int64_t k = 0; k < b->ni; k += VW)
            input_points(to + (k / NR * b->of.n + t) * NR + k % NR, b->of.n * b->ni, d, b->i + k);
    }
}

static void multiply(const part *b, bool add, const float *dy, const float *x, float *sums)
{
    for (int64_t point = 0; point < POINTS; point++, dy += b->of.n * b->no, x += b->of.n * b->ni, sums += b->no * b->ni)
        for (int64_t i = 0; i < b->ni; i += NR)
            for (int64_t o = 0; o < b->no; o += MR)
                (add ? gemm_tile_cols_add : gemm_tile_cols)((int)least(MR, b->no - o), b->of.n, dy + o, b->no, x + i * b->of.n,
                                                            sums + o * b->ni + i, b->ni);
}

// dg[3] = G^T s, along one axis.
static inline __attribute__((always_inline)) void kernel_sums(vf dg[3], vf a, vf b, vf c, vf d)
{
    const vf sum = .5f * (b + c);
    dg[0] = a + sum, dg[1] = .5f * (b - c), dg[2] = sum + d;
}

// dw of one output channel from its sums [POINTS, ni] `step` apart.
static void finish(float *dw, const float *sums, int64_t step, int64_t ni)
{
    for (int64_t i = 0; i < ni; i += VW) {
        vf rows[3][4], taps[3];
        for (int s = 0; s < 4; s++) {
            kernel_sums(taps, load(sums + s * step + i), load(sums + (4 + s) * step + i), load(sums + (8 + s) * step + i),
                        load(sums + (12 + s) * step + i));
            for (int r = 0; r < 3; r++)
                rows[r][s] = taps[r];
        }
        for (int r = 0; r < 3; r++) {
            kernel_sums(taps, rows[r][0], rows[r][1], rows[r][2], rows[r][3]);
            for (int s = 0; s < 3; s++)
                for (int q = 0; q < VW; q++)
                    dw[(i + q) * 9 + r * 3 + s] = taps[s][q];
        }
    }
}

static void task(void *arg, int64_t number, int thread)
{
    const job *const j = arg;
    const conv *const c = j->c;
    part b = { .o = number / j->ci_tasks * j->co_step, .i = number % j->ci_tasks * j->ci_step };
    b.no = least(j->co_step, c->co - b.o), b.ni = least(j->ci_step, c->ci - b.i);
    float *const dy = j->scratch + thread * thread_floats(j), *const x = dy + dy_floats(j), *const sums = x + x_floats(j);
    for (int64_t image = 0; image < c->n; image += j->g.block_images)
        for (int64_t row = 0; row < j->g.down; row += j->g.block_rows) {
            b.of = tiles_of(&j->g, c, image, row);
            transform_dy(j, &b, dy);
            transform_x(j, &b, x);
            multiply(&b, image + row > 0, dy, x, sums);
        }
    for (int64_t o = 0; o < b.no; o++)
        finish(c->y + ((b.o + o) * c->ci + b.i) * 9, sums + o * b.ni, b.no * b.ni, b.ni);
}

void KD_ISA_NAME(winograd_grad_w)(const conv *c, const float *dy, float *scratch)
{
    job j = job_of(c);
    j.dy = dy;
    j.zeros = scratch;
    j.scratch = scratch + zeros_floats(&j);
    memset(j.zeros, 0, (size_t)zeros_floats(&j) * sizeof(float));
    kd_parallel(j.tasks, task, &j);
}
