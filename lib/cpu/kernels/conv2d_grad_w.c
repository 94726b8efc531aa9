// dw of a convolution, summed over all pixels of all images.    op: lib/op/conv2d.c
//   dw[r,s] [co, ci] = sum over pixels (y, x) of dy[y,x]^T times padded x[y * stride + r, x * stride + s]
// A tile is a part of the output and of the input channels; it walks the images in blocks of rows. For each block it packs its
// columns of dy into strips of MR channels and of x, with its zeros, into panels of NR channels. A tap only shifts where a panel
// is read: [pixels, MR]^T times [pixels, NR] stays in registers over the whole block, and nothing is packed twice for nine taps.
// The sum's order is that of images and rows, whatever the tile. 3x3 kernels between many channels: winograd_grad_w.c.
#include "cpu/kernels/conv.h"

enum { PIXELS = 256, CHANNELS = 96 };      // of a block; largest part of either side

typedef struct job {
    int64_t n, h, w, ci, rows, cols, co;   // x [n,h,w,ci], dy [n,rows,cols,co]
    int64_t kh, kw, stride, top, left;
    const float *dy, *x;
    float *dw, *sums, *scratch;            // sums [kh, kw, co, ci_room]
    int64_t ci_room, block_rows, block_images, co_step, ci_step, ci_tiles;
} job;

/// A block: rows of one image, or several whole images.
typedef struct part { int64_t image, images, row, rows; } part;

static int64_t padded_cols(const job *j) { return (j->cols - 1) * j->stride + j->kw; }
static int64_t padded_rows(const job *j, int64_t rows) { return (rows - 1) * j->stride + j->kh; }

static int64_t strip_floats(const job *j) { return (j->co_step + MR) * j->block_images * j->block_rows * j->cols; }
static int64_t panel_floats(const job *j) { return j->block_images * padded_rows(j, j->block_rows) * padded_cols(j) * NR; }
static int64_t thread_floats(const job *j) { return strip_floats(j) + j->ci_step / NR * panel_floats(j); }
static int64_t sums_floats(const job *j) { return j->kh * j->kw * j->co * j->ci_room; }

static job job_of(const kd_node *n)
{
    const int64_t *const dy = n->in[0]->shape.d, *const x = n->in[1]->shape.d, *const w = n->out[0]->shape.d;
    job j = { .n = x[0], .h = x[1], .w = x[2], .ci = x[3], .rows = dy[1], .cols = dy[2], .co = dy[3], .kh = w[2], .kw = w[3],
              .stride = n->a.conv.stride, .top = n->a.conv.pad_h, .left = n->a.conv.pad_w,
              .dy = n->in[0]->data, .x = n->in[1]->data, .dw = n->out[0]->data };
    int64_t most = CHANNELS;
    do {                                                                       // smaller parts until all threads have work
        j.co_step = even_part(j.co, most, MR);
        j.ci_step = even_part(j.ci, most, NR);
        j.ci_tiles = ceil_div(j.ci, j.ci_step);
        most /= 2;
    } while (most >= 24 && ceil_div(j.co, j.co_step) * j.ci_tiles < kd_threads());
    j.ci_room = j.ci_tiles * j.ci_step;
    j.block_rows = least(j.rows, PIXELS / j.cols + 1);
    j.block_images = j.block_rows < j.rows ? 1 : least(j.n, PIXELS / (j.rows * j.cols) + 1);
    return j;
}

// Packing --------------------------------------------------------------------------------------------------------------

// Columns [c, c + n) of the block's dy: strip by strip, [pixels][MR].
static void pack_dy(const job *j, const part *b, float *to, int64_t c, int64_t n)
{
    const int64_t pixels = b->rows * j->cols;
    for (int64_t o = 0; o < n; o += MR)
        for (int64_t i = 0; i < b->images; i++) {
            const float *from = j->dy + ((b->image + i) * j->rows + b->row) * j->cols * j->co + c + o;
            const int64_t m = least(MR, n - o);
            for (int64_t p = 0; p < pixels; p++, to += MR, from += j->co)
                for (int64_t q = 0; q < MR; q++)
                    to[q] = q < m ? from[q] : 0;
        }
}

static void pack_pixel(float *to, const float *from, int64_t n)
{
    if (n == NR)
        memcpy(to, from, NR * sizeof *to);
    else
        for (int64_t q = 0; q < NR; q++)
            to[q] = q < n ? from[q] : 0;
}

// Channels [c, c + NR) of the block's x with its zeros: [images][padded rows][padded cols][NR].
static void pack_x(const job *j, const part *b, float *to, int64_t c)
{
    const int64_t n = least(NR, j->ci - c), cols = padded_cols(j);
    for (int64_t i = 0; i < b->images; i++)
        for (int64_t r = 0; r < padded_rows(j, b->rows); r++) {
            const int64_t y = b->row * j->stride + r - j->top;
            for (int64_t k = 0; k < cols; k++, to += NR) {
                const int64_t x = k - j->left;
                if (y < 0 || y >= j->h || x < 0 || x >= j->w)
                    memset(to, 0, NR * sizeof *to);
                else
                    pack_pixel(to, j->x + (((b->image + i) * j->h + y) * j->w + x) * j->ci + c, n);
            }
        }
}

// The register tile ------------------------------------------------------------------------------------------------------

/// What a tile walks: images, rows, pixels of a row, and the steps of a panel between them. A strip is contiguous.
typedef struct walk { int64_t images, rows, cols, image_step, row_step, step; } walk;

static inline __attribute__((always_inline)) void tile_of(const int mr, bool add, const walk *w, const float *a, const float *b,
                                                          float *c, int64_t ldc)
{
    vf acc[MR][2];
#pragma GCC unroll 12
    for (int i = 0; i < mr; i++)
        acc[i][0] = acc[i][1] = (vf){ 0 };
    for (int64_t image = 0; image < w->images; image++)
        for (int64_t row = 0; row < w->rows; row++) {
            const float *p = b + image * w->image_step + row * w->row_step;
            for (int64_t l = 0; l < w->cols; l++, a += MR, p += w->step) {
                const vf b0 = *(const vf *)p, b1 = *(const vf *)(p + VW);
#pragma GCC unroll 12
                for (int i = 0; i < mr; i++) {
                    const vf v = a[i] - (vf){ 0 };
                    acc[i][0] += v * b0;
                    acc[i][1] += v * b1;
                }
            }
        }
#pragma GCC unroll 12
    for (int i = 0; i < mr; i++) {
        vf *const to = (vf *)(c + i * ldc);
        if (add) {
            acc[i][0] += to[0];
            acc[i][1] += to[1];
        }
        to[0] = acc[i][0];
        to[1] = acc[i][1];
    }
}

static void tile_full(bool add, const walk *w, const float *a, const float *b, float *c, int64_t ldc)
{
    tile_of(MR, add, w, a, b, c, ldc);
}

// Fewer channels than a strip has: its zeros are multiplied too, and not stored.
static void tile_some(int64_t mr, bool add, const walk *w, const float *a, const float *b, float *c, int64_t ldc)
{
    float t[MR * NR];
    tile_of(MR, false, w, a, b, t, NR);
    for (int64_t i = 0; i < mr; i++)
        for (int64_t q = 0; q < NR; q++)
            c[i * ldc + q] = add ? c[i * ldc + q] + t[i * NR + q] : t[i * NR + q];
}

// Tiles of dw ------------------------------------------------------------------------------------------------------------

static void add_block(const job *j, const part *b, bool add, float *strips, float *panels, int64_t o, int64_t no, int64_t i, int64_t ni)
{
    const int64_t line = padded_cols(j) * NR, strip = b->images * b->rows * j->cols * MR;
    const int64_t image = padded_rows(j, b->rows) * line;
    const walk w = { b->images, b->rows, j->cols, image, j->stride * line, j->stride * NR };
    pack_dy(j, b, strips, o, no);
    for (int64_t p = 0; p < ni; p += NR)
        pack_x(j, b, panels + p / NR * b->images * image, i + p);
    for (int64_t p = 0; p < ni; p += NR)
        for (int64_t s = 0; s < no; s += MR)
            for (int64_t tap = 0; tap < j->kh * j->kw; tap++) {
                const float *const from = panels + p / NR * b->images * image + tap / j->kw * line + tap % j->kw * NR;
                float *const to = j->sums + (tap * j->co + o + s) * j->ci_room + i + p;
                if (no - s >= MR)
                    tile_full(add, &w, strips + s / MR * strip, from, to, j->ci_room);
                else
                    tile_some(no - s, add, &w, strips + s / MR * strip, from, to, j->ci_room);
            }
}

static void tile(void *arg, int64_t t, int thread)
{
    const job *const j = arg;
    const int64_t o = t / j->ci_tiles * j->co_step, i = t % j->ci_tiles * j->ci_step;
    const int64_t no = least(j->co_step, j->co - o), ni = least(j->ci_step, j->ci - i), taps = j->kh * j->kw;
    float *const strips = j->scratch + thread * thread_floats(j), *const panels = strips + strip_floats(j);
    for (int64_t image = 0; image < j->n; image += j->block_images)
        for (int64_t row = 0; row < j->rows; row += j->block_rows) {
            const part b = { image, least(j->block_images, j->n - image), row, least(j->block_rows, j->rows - row) };
            add_block(j, &b, image + row > 0, strips, panels, o, no, i, ni);
        }
    for (int64_t a = o; a < o + no; a++)
        for (int64_t b = i; b < i + ni; b++)
            for (int64_t tap = 0; tap < taps; tap++)
                j->dw[(a * j->ci + b) * taps + tap] = j->sums[(tap * j->co + a) * j->ci_room + b];
}

/// The layer as winograd_grad_w.c takes it, and whether it does.
static bool by_winograd(const kd_node *n, conv *c)
{
    const int64_t *const dy = n->in[0]->shape.d, *const x = n->in[1]->shape.d, *const w = n->out[0]->shape.d;
    *c = (conv){ .n = x[0], .h = x[1], .w = x[2], .ci = x[3], .rows = dy[1], .cols = dy[2], .co = dy[3], .kh = w[2], .kw = w[3],
                 .stride = n->a.conv.stride, .top = n->a.conv.pad_h, .left = n->a.conv.pad_w,
                 .x = n->in[1]->data, .y = n->out[0]->data };
    return winograd_fits(c->kh, c->kw, c->stride, c->rows, c->cols, c->ci, c->co);
}

static void grad_w(const kd_node *n, void *scratch)
{
    conv c;
    if (by_winograd(n, &c)) {
        KD_ISA_NAME(winograd_grad_w)(&c, n->in[0]->data, scratch);
        return;
    }
    job j = job_of(n);
    j.sums = scratch;
    j.scratch = j.sums + sums_floats(&j);
    kd_parallel(ceil_div(j.co, j.co_step) * j.ci_tiles, tile, &j);
}

static size_t grad_w_scratch(const kd_node *n)
{
    conv c;
    if (by_winograd(n, &c))
        return KD_ISA_NAME(winograd_grad_w_floats)(&c) * sizeof(float);
    const job j = job_of(n);
    return (size_t)(sums_floats(&j) + thread_floats(&j) * kd_threads()) * sizeof(float);
}

const kd_kernel KD_KERNEL(conv2d_grad_w) = { grad_w, grad_w_scratch };
