// Minimal filtering F(2x2, 3x3). Winograd 1980; Lavin & Gray 2016, arXiv:1509.09308, sec. 4.1. Four pixels of a 3x3 convolution
// take 16 products in place of 36. d: a tile of 4x4 inputs, two pixels from its neighbours; g: the kernel; y: 2x2 results.
//   y = A^T [ (G g G^T) . (B^T d B) ] A         and, as its transpose,         dg = G^T [ (A dy A^T) . (B^T d B) ] G
//         | 1  0 -1  0 |        |  1    0    0  |         | 1  0 |
//   B^T = | 0  1  1  0 |    G = | 1/2  1/2  1/2 |     A = | 1  1 |       . of all channels is a matrix product for each of the
//         | 0 -1  1  0 |        | 1/2 -1/2  1/2 |         | 1 -1 |       16 points: [tiles, ci] times [ci, co].
//         | 0  1  0 -1 |        |  0    0    1  |         | 0 -1 |
// Below v are 4x4 vectors of channels, row by row.
#ifndef KD_WINOGRAD_H
#define KD_WINOGRAD_H
#include "cpu/kernels/conv.h"

enum { POINTS = 16 };

static inline __attribute__((always_inline)) vf load(const float *p) { return *(const vf *)p; }

/// to[k * step] = (B^T d B)[k] for VW channels; d[k]: where pixel k has them.
static inline __attribute__((always_inline)) void input_points(float *to, int64_t step, const float *const d[POINTS], int64_t c)
{
    vf v[POINTS];
    for (int i = 0; i < 4; i++) {
        const vf a = load(d[i] + c), b = load(d[4 + i] + c), e = load(d[8 + i] + c), f = load(d[12 + i] + c);
        v[i] = a - e, v[4 + i] = b + e, v[8 + i] = e - b, v[12 + i] = b - f;
    }
    for (int i = 0; i < POINTS; i += 4) {
        *(vf *)(to + i * step) = v[i] - v[i + 2];
        *(vf *)(to + (i + 1) * step) = v[i + 1] + v[i + 2];
        *(vf *)(to + (i + 2) * step) = v[i + 2] - v[i + 1];
        *(vf *)(to + (i + 3) * step) = v[i + 1] - v[i + 3];
    }
}

/// y[2][2] = A^T m A
static inline __attribute__((always_inline)) void output_pixels(vf y[4], const float *m, int64_t step)
{
    vf s[8];
    for (int i = 0; i < 4; i++) {
        const vf a = load(m + i * step), b = load(m + (4 + i) * step), e = load(m + (8 + i) * step), f = load(m + (12 + i) * step);
        s[i] = a + b + e, s[4 + i] = b - e - f;
    }
    for (int i = 0; i < 2; i++) {
        y[2 * i] = s[4 * i] + s[4 * i + 1] + s[4 * i + 2];
        y[2 * i + 1] = s[4 * i + 1] - s[4 * i + 2] - s[4 * i + 3];
    }
}

/// to[k * step] = (A dy A^T)[k]; dy[2][2]
static inline __attribute__((always_inline)) void gradient_points(float *to, int64_t step, const float *const dy[4], int64_t c)
{
    const vf a = load(dy[0] + c), b = load(dy[1] + c), e = load(dy[2] + c), f = load(dy[3] + c);
    const vf row[4][2] = { { a, b }, { a + e, b + f }, { a - e, b - f }, { -e, -f } };
    for (int i = 0; i < 4; i++) {
        *(vf *)(to + 4 * i * step) = row[i][0];
        *(vf *)(to + (4 * i + 1) * step) = row[i][0] + row[i][1];
        *(vf *)(to + (4 * i + 2) * step) = row[i][0] - row[i][1];
        *(vf *)(to + (4 * i + 3) * step) = -row[i][1];
    }
}

/// u[4] = G g, along one axis: of g[0], g[step], g[2 step]
static inline __attribute__((always_inline)) void kernel_points(vf u[4], vf a, vf b, vf c)
{
    const vf half = .5f * (a + c), other = .5f * b;
    u[0] = a, u[1] = half + other, u[2] = half - other, u[3] = c;
}

/// How results are cut into tiles, and these into blocks: some rows of one image's, or several small images.
typedef struct tiling { int64_t down, across, block_rows, block_images, most; } tiling;      // most: tiles of a block

/// Blocks of about `tiles`.
static inline tiling tiling_of(const conv *c, int64_t tiles)
{
    tiling g = { .down = ceil_div(c->rows, 2), .across = ceil_div(c->cols, 2) };
    g.block_rows = least(g.down, g.across < tiles ? tiles / g.across : 1);
    g.block_images = g.block_rows < g.down ? 1 : least(c->n, ceil_div(tiles, g.down * g.across));
    g.most = g.block_images * g.block_rows * g.across;
    return g;
}

/// A block: the n tiles of `rows` rows from `row` on, of `images` images from `image` on.
typedef struct tiles { int64_t image, images, row, rows, n; } tiles;

static inline tiles tiles_of(const tiling *g, const conv *c, int64_t image, int64_t row)
{
    tiles b = { .image = image, .row = row, .images = least(g->block_images, c->n - image), .rows = least(g->block_rows, g->down - row) };
    b.n = b.images * b.rows * g->across;
    return b;
}

/// Of tile t of a block: its image, and the first of its 2x2 results.
typedef struct spot { int64_t image, y, x; } spot;

static inline spot spot_of(const tiling *g, const tiles *b, int64_t t)
{
    const int64_t line = t / g->across;
    return (spot){ b->image + line / b->rows, 2 * (b->row + line % b->rows), 2 * (t % g->across) };
}

/// Where a tile's 4x4 pixels begin; `zeros` outside of the image.
static inline void tile_pixels(const float *d[POINTS], const conv *c, spot s, const float *zeros)
{
    for (int64_t k = 0; k < POINTS; k++) {
        const int64_t at_y = s.y - c->top + k / 4, at_x = s.x - c->left + k % 4;
        const bool in = at_y >= 0 && at_y < c->h && at_x >= 0 && at_x < c->w;
        d[k] = in ? c->x + ((s.image * c->h + at_y) * c->w + at_x) * c->ci : zeros;
    }
}

#endif
