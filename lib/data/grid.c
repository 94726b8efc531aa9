// Image grids.
#include "data/grid.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

// Length of a side: `cells` of `size` pixels drawn `scale` wide, gaps between. -1 if it is too long.
static int64_t side(int64_t cells, int64_t size, int64_t scale, int64_t pad)
{
    int64_t drawn, all, gaps;
    if (!kd_mul(size, scale, &drawn) || !kd_mul(cells, drawn, &all) || !kd_mul(cells - 1, pad, &gaps)) return -1;
    return all <= INT32_MAX && gaps <= INT32_MAX - all ? all + gaps : -1;
}

static void draw(kd_grid *g, const uint8_t *from, int64_t top, int64_t left, int64_t h, int64_t w, int64_t scale)
{
    for (int64_t y = 0; y < h * scale; y++) {
        uint8_t *to = g->p + ((top + y) * g->w + left) * g->c;
        const uint8_t *row = from + y / scale * w * g->c;
        for (int64_t x = 0; x < w; x++)
            for (int64_t k = 0; k < scale; k++, to += g->c) memcpy(to, row + x * g->c, (size_t)g->c);
    }
}

// A white picture of rows x cols cells.
static int start(kd_grid *g, int64_t rows, int64_t cols, int64_t h, int64_t w, int c, int64_t pad, int64_t scale, kd_err *err)
{
    *g = (kd_grid){ .h = side(rows, h, scale, pad), .w = side(cols, w, scale, pad), .c = c };
    if (g->h < 0 || g->w < 0)
        return kd_fail(err, KD_EUSAGE, "a grid of %lldx%lld images of %lldx%lld is too large", (long long)cols, (long long)rows,
                       (long long)w, (long long)h);
    const size_t bytes = (size_t)g->h * (size_t)g->w * (size_t)c;
    if (!(g->p = kd_alloc(bytes))) return kd_fail_memory(err, "a grid");
    memset(g->p, 255, bytes);
    return 0;
}

int kd_grid_make(kd_grid *g, const uint8_t *image, int64_t n, int64_t h, int64_t w, int c, int64_t cols, int64_t pad,
                 int64_t scale, kd_err *err)
{
    if (!cols)
        for (cols = 1; cols * cols < n;) cols++;
    if (cols > n) cols = n;
    KD_TRY(start(g, (n + cols - 1) / cols, cols, h, w, c, pad, scale, err));
    for (int64_t i = 0; i < n; i++)
        draw(g, image + i * h * w * c, i / cols * (h * scale + pad), i % cols * (w * scale + pad), h, w, scale);
    return 0;
}

typedef struct place { int64_t label, number; } place;

static int by_label(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->label != y->label ? (x->label > y->label) - (x->label < y->label) : (x->number > y->number) - (x->number < y->number);
}

int kd_grid_by_class(kd_grid *g, const uint8_t *image, const int64_t *label, int64_t n, int64_t h, int64_t w, int c, int64_t pad,
                     int64_t scale, kd_err *err)
{
    place *p = kd_alloc((size_t)n * sizeof *p);
    if (!p) return kd_fail_memory(err, "a grid");
    for (int64_t i = 0; i < n; i++) p[i] = (place){ label[i], i };
    qsort(p, (size_t)n, sizeof *p, by_label);
    int64_t rows = 0, cols = 0, col = 0;
    for (int64_t i = 0; i < n; i++) {
        col = i && p[i].label == p[i - 1].label ? col + 1 : 0;
        rows += !col;
        cols = col + 1 > cols ? col + 1 : cols;
    }
    if (!start(g, rows, cols, h, w, c, pad, scale, err)) {
        int64_t row = -1;
        for (int64_t i = 0; i < n; i++) {
            col = i && p[i].label == p[i - 1].label ? col + 1 : 0;
            row += !col;
            draw(g, image + p[i].number * h * w * c, row * (h * scale + pad), col * (w * scale + pad), h, w, scale);
        }
    }
    kd_free(p);
    return err->code;
}

void kd_grid_free(kd_grid *g)
{
    kd_free(g->p);
    *g = (kd_grid){0};
}
