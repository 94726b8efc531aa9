// Convolution and its gradient for x, by the register tiles of gemm.h.    op: lib/op/conv2d.c
// A block is some rows of the result, of one image or of several small ones. What it reads is copied once, with its zeros:
//
//        padded rows                        In a padded row the kw * ci numbers that a pixel meets are contiguous, and the next
//     +--------------+                      pixel's begin stride * ci further. So a row of kernel taps is a product of
//     | r = 0  [kw*ci]    <- pixel ox       [pixels, kw*ci] (rows that overlap, never copied apart) with packed weights
//     | r = 1  [kw*ci]                      [kw*ci, co], and the kernel's rows add up in the tile.
//     | r = 2  [kw*ci]                      The long axis is cut into parts whose packed weights stay in the L1 cache.
//     +--------------+
//
// dx is a convolution too: of dy, with the kernel turned round; with a stride s, one for each of the s * s classes of pixels.
// An element's sum runs over r, then over (s, c), in parts that depend on the layer alone: gemm.h says why that matters.
// 3x3 kernels between many channels go another way: winograd.c.
#include "cpu/kernels/conv.h"

enum { PIXELS = 128, PART = 6144 / NR };   // of a block; longest part of the inner axis

static int64_t run_of(const conv *c) { return c->kw * c->ci; }                 // floats that one row of taps reads
static int64_t padded_cols(const conv *c) { return (c->cols - 1) * c->stride + c->kw; }
static int64_t padded_rows(const conv *c) { return (c->block_rows - 1) * c->stride + c->kh; }

static void cut(conv *c)
{
    c->block_rows = least(c->rows, c->cols < PIXELS / 2 ? PIXELS / c->cols : 2);
    c->block_images = c->block_rows < c->rows ? 1 : least(c->n, PIXELS / (c->rows * c->cols) + 1);
    c->blocks_down = ceil_div(c->rows, c->block_rows);
    c->blocks = ceil_div(c->n, c->block_images) * c->blocks_down;
    c->panels = ceil_div(c->co, NR);
    const int64_t want = ceil_div(4 * kd_threads(), c->blocks ? c->blocks : 1);
    c->group = ceil_div(c->panels, want);
    c->groups = ceil_div(c->panels, c->group);
}

static int64_t packed_floats(const conv *c) { return c->panels * NR * c->kh * run_of(c); }
static int64_t image_floats(const conv *c) { return padded_rows(c) * padded_cols(c) * c->ci; }
static int64_t block_pixels(const conv *c) { return c->block_images * c->block_rows * c->cols; }
static int64_t padded_floats(const conv *c) { return ceil_div(c->block_images * image_floats(c), NR) * NR; }
// A thread's: the padded rows, the block's product with a panel, and where its pixels begin (two floats' room each)
static int64_t thread_floats(const conv *c) { return padded_floats(c) + block_pixels(c) * NR + ceil_div(2 * block_pixels(c), NR) * NR; }

// Panel p of the weights: [kh][kw][ci][NR]. By a few channels at a time, so that what is written stays in the L1 cache.
static void pack(void *arg, int64_t p, int thread)
{
    const conv *const c = arg;
    (void)thread;
    float *const to = c->packed + p * NR * c->kh * run_of(c);
    for (int64_t c0 = 0; c0 < c->ci; c0 += 8)
        for (int64_t q = 0; q < NR; q++)
            for (int64_t k = c0; k < least(c0 + 8, c->ci); k++) {
                const bool there = p * NR + q < c->co;
                const float *const from = c->weight + (there ? (p * NR + q) * c->out_step : 0) + k * c->c_step;
                for (int64_t r = 0; r < c->kh; r++)
                    for (int64_t s = 0; s < c->kw; s++)
                        to[((r * c->kw + s) * c->ci + k) * NR + q] =
                            there ? from[(c->r_first + r * c->r_step) * c->row_step + c->s_first + s * c->s_step] : 0;
            }
}

// One padded row: row y of an image, or zeros; its first column is -left.
static void copy_row(const conv *c, float *to, int64_t image, int64_t y)
{
    const int64_t cols = padded_cols(c), first = c->left > 0 ? least(c->left, cols) : 0;     // zeros before, pixels, zeros behind
    const int64_t from = first - c->left, n = y < 0 || y >= c->h || from >= c->w ? 0 : least(c->w - from, cols - first);
    const int64_t end = n > 0 ? first + n : 0;
    if (end > 0) {
        memset(to, 0, (size_t)(first * c->ci) * sizeof *to);
        memcpy(to + first * c->ci, c->x + ((image * c->h + y) * c->w + from) * c->ci, (size_t)(n * c->ci) * sizeof *to);
    }
    memset(to + end * c->ci, 0, (size_t)((cols - end) * c->ci) * sizeof *to);
}

// Where each pixel of the block begins in its padded rows.
static void place_pixels(const conv *c, int64_t *at, int64_t images, int64_t rows)
{
    for (int64_t i = 0; i < images; i++)
        for (int64_t row = 0; row < rows; row++)
            for (int64_t x = 0; x < c->cols; x++)
                *at++ = i * image_floats(c) + (row * padded_cols(c) + x) * c->stride * c->ci;
}

// t [pixels, NR] = the block's product with one panel.
static void block_product(const conv *c, const float *padded, const int64_t *at, int64_t pixels, const float *panel, float *t)
{
    const int64_t run = run_of(c), parts = ceil_div(run, PART), line = padded_cols(c) * c->ci;
    if (!c->kh || !c->kw)
        memset(t, 0, (size_t)(pixels * NR) * sizeof *t);
    for (int64_t r = 0; r < c->kh; r++)
        for (int64_t part = 0; part < parts; part++) {
            const int64_t k0 = run * part / parts, k = run * (part + 1) / parts - k0;
            for (int64_t p = 0; p < pixels; p += MR)
                (r + part > 0 ? gemm_tile_list_add : gemm_tile_list)((int)least(MR, pixels - p), k, padded + r * line + k0, at + p,
                                                                     panel + (r * run + k0) * NR, t + p * NR, NR);
        }
}

// y = t + b + res for one pixel and columns c0 to c0 + n.
static void finish_pixel(const conv *c, const float *t, int64_t pixel, int64_t c0, int64_t n)
{
    float *const y = c->y + pixel * c->co + c0;
    const float *const res = c->res ? c->res + pixel * c->co + c0 : NULL, *const b = c->b ? c->b + c0 : NULL;
    for (int64_t q = 0; q < n; q++)
        y[q] = t[q] + (b ? b[q] : 0) + (res ? res[q] : 0);
}

static void finish(const conv *c, const float *t, int64_t image, int64_t row, int64_t images, int64_t rows, int64_t panel)
{
    const int64_t c0 = panel * NR, n = least(NR, c->co - c0);
    for (int64_t i = 0; i < images * rows; i++) {
        const int64_t line = (image + i / rows) * c->y_h + (row + i % rows) * c->y_step + c->y_top;
        for (int64_t x = 0; x < c->cols; x++)
            finish_pixel(c, t + (i * c->cols + x) * NR, line * c->y_w + x * c->y_step + c->y_left, c0, n);
    }
}

static void block(void *arg, int64_t tile, int thread)
{
    const conv *const c = arg;
    const int64_t number = tile / c->groups, p0 = tile % c->groups * c->group, p1 = least(p0 + c->group, c->panels);
    const int64_t image = number / c->blocks_down * c->block_images, row = number % c->blocks_down * c->block_rows;
    const int64_t images = least(c->block_images, c->n - image), rows = least(c->block_rows, c->rows - row);
    float *const padded = c->scratch + thread * thread_floats(c), *const t = padded + padded_floats(c);
    int64_t *const at = (int64_t *)(void *)(t + block_pixels(c) * NR);
    for (int64_t i = 0; i < images; i++)
        for (int64_t y = 0; y < (rows - 1) * c->stride + c->kh; y++)
            copy_row(c, padded + i * image_floats(c) + y * padded_cols(c) * c->ci, image + i, row * c->stride + y - c->top);
    place_pixels(c, at, images, rows);
    for (int64_t p = p0; p < p1; p++) {
        block_product(c, padded, at, images * rows * c->cols, c->packed + p * NR * c->kh * run_of(c), t);
        finish(c, t, image, row, images, rows, p);
    }
}

static bool by_winograd(const conv *c)
{
    return winograd_fits(c->kh, c->kw, c->stride, c->rows, c->cols, c->ci, c->co) && c->y_step == 1;
}

static size_t scratch_floats(const conv *c)
{
    if (by_winograd(c))
        return KD_ISA_NAME(winograd_floats)(c);
    return (size_t)(packed_floats(c) + thread_floats(c) * kd_threads());
}

static void run_conv(conv *c, float *scratch)
{
    if (by_winograd(c)) {
        KD_ISA_NAME(winograd)(c, scratch);
        return;
    }
    c->packed = scratch;
    c->scratch = scratch + packed_floats(c);
    kd_parallel(c->panels, pack, c);
    kd_parallel(c->blocks * c->groups, block, c);
}

// Forward --------------------------------------------------------------------------------------------------------------

static const float *floats_of(const kd_val *v) { return v ? v->data : NULL; }

static conv forward_of(const kd_node *n)
{
    const int64_t *const x = n->in[0]->shape.d, *const w = n->in[1]->shape.d, *const y = n->out[0]->shape.d;
    conv c = { .n = x[0], .h = x[1], .w = x[2], .ci = x[3], .rows = y[1], .cols = y[2], .co = y[3], .kh = w[2], .kw = w[3],
               .stride = n->a.conv.stride, .top = n->a.conv.pad_h, .left = n->a.conv.pad_w,
               .y_h = y[1], .y_w = y[2], .y_step = 1,
               .out_step = w[1] * w[2] * w[3], .c_step = w[2] * w[3], .row_step = w[3], .r_step = 1, .s_step = 1 };
    cut(&c);
    return c;
}

static void forward(const kd_node *n, void *scratch)
{
    conv c = forward_of(n);
    c.x = n->in[0]->data, c.weight = n->in[1]->data, c.b = floats_of(n->in[2]), c.res = floats_of(n->in[3]), c.y = n->out[0]->data;
    run_conv(&c, scratch);
}

static size_t forward_scratch(const kd_node *n)
{
    const conv c = forward_of(n);
    return scratch_floats(&c) * sizeof(float);
}

// Gradient for x -------------------------------------------------------------------------------------------------------

/// Along one axis, pixels i = first + stride * j meet taps t = t_first + stride * m, m < taps, and read dy at
/// j + (first + pad) / stride - m: with the taps turned round that is j + tap - before.
typedef struct class { int64_t count, taps, t_first, before; } class;

static class class_of(int64_t first, int64_t n, int64_t kernel, int64_t stride, int64_t pad)
{
    class k = { .count = n > first ? ceil_div(n - first, stride) : 0, .t_first = (first + pad) % stride };
    k.taps = kernel > k.t_first ? ceil_div(kernel - k.t_first, stride) : 0;
    k.before = k.taps - 1 - (first + pad) / stride;
    return k;
}

/// The convolution that makes the pixels (a, b) + stride * (i, j) of dx.
static conv backward_of(const kd_node *n, int64_t a, int64_t b)
{
    const int64_t *const dy = n->in[0]->shape.d, *const w = n->in[1]->shape.d, *const dx = n->out[0]->shape.d;
    const int64_t s = n->a.conv.stride;
    const class down = class_of(a, dx[1], w[2], s, n->a.conv.pad_h), across = class_of(b, dx[2], w[3], s, n->a.conv.pad_w);
    conv c = { .n = dy[0], .h = dy[1], .w = dy[2], .ci = dy[3], .rows = down.count, .cols = across.count, .co = dx[3],
               .kh = down.taps, .kw = across.taps, .stride = 1, .top = down.before, .left = across.before,
               .y_h = dx[1], .y_w = dx[2], .y_step = s, .y_top = a, .y_left = b,
               .out_step = w[2] * w[3], .c_step = w[1] * w[2] * w[3], .row_step = w[3],
               .r_first = down.t_first + (down.taps - 1) * s, .r_step = -s,
               .s_first = across.t_first + (across.taps - 1) * s, .s_step = -s };
    if (c.rows && c.cols)
        cut(&c);
    return c;
}

static void backward(const kd_node *n, void *scratch)
{
    const int64_t stride = n->a.conv.stride;
    for (int64_t k = 0; k < stride * stride; k++) {
        conv c = backward_of(n, k / stride, k % stride);
        c.x = n->in[0]->data, c.weight = n->in[1]->data, c.res = floats_of(n->in[2]), c.y = n->out[0]->data;
        if (c.rows && c.cols)
            run_conv(&c, scratch);
    }
}

static size_t backward_scratch(const kd_node *n)
{
    const int64_t stride = n->a.conv.stride;
    size_t most = 0;
    for (int64_t k = 0; k < stride * stride; k++) {
        const conv c = backward_of(n, k / stride, k % stride);
        if (c.rows && c.cols && scratch_floats(&c) > most)
            most = scratch_floats(&c);
    }
    return most * sizeof(float);
}

const kd_kernel KD_KERNEL(conv2d) = { forward, forward_scratch };
const kd_kernel KD_KERNEL(conv2d_grad_x) = { backward, backward_scratch };
