// Resizing as Pillow's Image.resize computes it on 8-bit pixels, to the grey level: filters of finite support, stretched
// when making smaller (so they average), weights as 22-bit integers, one axis after the other, each rounded to 8 bits.
#include "data/picture.h"
#include "data/codec.h"
#include "base/memory.h"
#include <math.h>
#include <string.h>

enum { BITS = 22 };                                      // 32 - 8 - 2: a sum of 8-bit pixels with overshoot fits an int

// Filters -------------------------------------------------------------------------------------------------------

static double box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

double kd_filter_cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

static double sinc(double x)
{
    if (x == 0) return 1;
    x *= M_PI;
    return sin(x) / x;
}

static double lanczos3(double x) { return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

static const struct { double (*weight)(double); double support; } filters[] = {
    [KD_BOX] = { box, 0.5 }, [KD_BILINEAR] = { triangle, 1 }, [KD_BICUBIC] = { kd_filter_cubic, 2 }, [KD_LANCZOS] = { lanczos3, 3 },
};

// One axis ------------------------------------------------------------------------------------------------------

/// Output pixels from..from+n-1 of `in` pixels resized to `full`: each is a weighted sum of count[i] pixels at first[i].
struct axis { int64_t n, room; int64_t *first, *count; int32_t *k; };    // k [n, room]

static void axis_free(struct axis *a)
{
    kd_free(a->first), kd_free(a->count), kd_free(a->k);
}

static void weigh(struct axis *a, int64_t i, int64_t at, int64_t in, double scale, kd_filter filter, double *w)
{
    const double fs = fmax(scale, 1), reach = filters[filter].support * fs, centre = (at + 0.5) * scale, step = 1 / fs;
    int64_t lo = (int64_t)(centre - reach + 0.5), hi = (int64_t)(centre + reach + 0.5);
    if (lo < 0) lo = 0;
    if (hi > in) hi = in;
    double sum = 0;
    for (int64_t x = lo; x < hi; x++) sum += w[x - lo] = filters[filter].weight((x - centre + 0.5) * step);
    for (int64_t x = 0; x < hi - lo; x++) {
        const double k = (sum != 0 ? w[x] / sum : w[x]) * (1 << BITS);
        a->k[i * a->room + x] = (int32_t)(k < 0 ? k - 0.5 : k + 0.5);
    }
    a->first[i] = lo, a->count[i] = hi - lo;
}

static int axis_make(struct axis *a, int64_t in, int64_t full, int64_t from, int64_t n, kd_filter filter, kd_err *err)
{
    const double scale = (double)in / (double)full;
    int64_t weights;
    a->n = n;
    a->room = (int64_t)ceil(filters[filter].support * fmax(scale, 1)) * 2 + 1;
    if (!kd_mul(n, a->room, &weights) || weights > INT64_MAX / 8) return kd_fail_memory(err, "resizing a picture");
    a->first = kd_alloc((size_t)n * sizeof *a->first);
    a->count = kd_alloc((size_t)n * sizeof *a->count);
    a->k = kd_alloc((size_t)weights * sizeof *a->k);
    double *w = kd_alloc((size_t)a->room * sizeof *w);
    const bool all = a->first && a->count && a->k && w;
    for (int64_t i = 0; all && i < n; i++) weigh(a, i, from + i, in, scale, filter, w);
    kd_free(w);
    return all ? 0 : kd_fail_memory(err, "resizing a picture");
}

static uint8_t clip(int32_t sum)
{
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/// Part of a picture: n rows from row y0, m columns from column x0. Pixels of a row are together, rows `stride` bytes apart.
struct part { uint8_t *p; int64_t y0, x0, n, m, stride; };

static void resize_columns(const struct part *to, const struct part *from, int c, const struct axis *x)
{
    for (int64_t y = 0; y < to->n; y++) {
        const uint8_t *row = from->p + y * from->stride;
        uint8_t *out = to->p + y * to->stride;
        for (int64_t i = 0; i < x->n; i++) {
            const int32_t *k = x->k + i * x->room;
            for (int ch = 0; ch < c; ch++) {
                const uint8_t *p = row + (x->first[i] - from->x0) * c + ch;
                int32_t sum = 1 << (BITS - 1);
                for (int64_t t = 0; t < x->count[i]; t++) sum += p[t * c] * k[t];
                *out++ = clip(sum);
            }
        }
    }
}

// sum: scratch, [columns * c]
static void resize_rows(const struct part *to, const struct part *from, int c, const struct axis *y, int32_t *sum)
{
    const int64_t n = to->m * c;
    for (int64_t i = 0; i < y->n; i++) {
        for (int64_t x = 0; x < n; x++) sum[x] = 1 << (BITS - 1);
        for (int64_t t = 0; t < y->count[i]; t++) {
            const uint8_t *p = from->p + (y->first[i] - from->y0 + t) * from->stride;
            const int32_t k = y->k[i * y->room + t];
            for (int64_t x = 0; x < n; x++) sum[x] += p[x] * k;
        }
        for (int64_t x = 0; x < n; x++) to->p[i * to->stride + x] = clip(sum[x]);
    }
}

// Both axes -----------------------------------------------------------------------------------------------------

/// A picture resized to full_h x full_w, of which only rows top.. and columns left.. (h x w) are computed.
struct window { int64_t full_h, full_w, top, left, h, w; };

// Which axis goes first matters to the last bit, as the pixels between the passes are rounded. Pillow 13 takes the rows first
// when they become fewer by more than twice what the columns do (found by trying 12,000 sizes, all of which fit); Pillow 12 and
// earlier always take the columns first, which is the same for pictures up to twice as high as wide that are cropped.
static bool rows_first(const kd_picture *p, const struct window *v)
{
    return v->full_h < p->h && p->h - v->full_h > 2 * (p->w - v->full_w);
}

// The pixels of the source that an axis' outputs need: first and one past the last.
static int64_t first_of(const struct axis *a) { return a->first[0]; }
static int64_t end_of(const struct axis *a) { return a->first[a->n - 1] + a->count[a->n - 1]; }

static int resize_both(kd_picture *p, const struct window *v, const struct axis *y, const struct axis *x, kd_err *err)
{
    const bool rows = rows_first(p, v);
    const int64_t c = p->c, y0 = first_of(y), x0 = first_of(x), need_h = end_of(y) - y0, need_w = end_of(x) - x0;
    kd_picture mid = *p, to = *p;
    KD_TRY(kd_picture_alloc(&mid, rows ? v->h : need_h, rows ? need_w : v->w, p->c, err));
    int32_t *sum = kd_alloc((size_t)(mid.w * c) * sizeof *sum);
    int code = sum ? kd_picture_alloc(&to, v->h, v->w, p->c, err) : kd_fail_memory(err, "resizing a picture");
    if (!code) {
        // A side that keeps its length has weights of exactly one tap (filters are 1 at 0, 0 at other whole numbers), so
        // running its pass copies: no special case.
        const struct part source = { p->p + (y0 * p->w + x0) * c, y0, x0, need_h, need_w, p->w * c };
        const struct part between = { mid.p, rows ? 0 : y0, rows ? x0 : 0, mid.h, mid.w, mid.w * c };
        const struct part result = { to.p, 0, 0, v->h, v->w, v->w * c };
        if (rows) {
            resize_rows(&between, &source, p->c, y, sum);
            resize_columns(&result, &between, p->c, x);
        } else {
            resize_columns(&between, &source, p->c, x);
            resize_rows(&result, &between, p->c, y, sum);
        }
        kd_picture_free(p);
        *p = to;
    }
    kd_free(sum);
    kd_picture_free(&mid);
    return code;
}

static int resize_window(kd_picture *p, const struct window *v, kd_filter filter, kd_err *err)
{
    struct axis y = {0}, x = {0};
    int code = axis_make(&y, p->h, v->full_h, v->top, v->h, filter, err);
    if (!code) code = axis_make(&x, p->w, v->full_w, v->left, v->w, filter, err);
    if (!code) code = resize_both(p, v, &y, &x, err);
    axis_free(&y), axis_free(&x);
    return code;
}

int kd_picture_resize(kd_picture *p, int64_t h, int64_t w, kd_filter filter, kd_err *err)
{
    if (p->h == h && p->w == w) return 0;
    return resize_window(p, &(struct window){ h, w, 0, 0, h, w }, filter, err);
}

// Half of a whole number, halves to even: Python's round, which torchvision's CenterCrop uses.
static int64_t half(int64_t n) { return n / 2 + (n % 2 && (n / 2) % 2); }

void kd_picture_cover(int64_t from_h, int64_t from_w, int64_t *h, int64_t *w)
{
    if (from_w * *h >= from_h * *w) *w = from_w * *h / from_h;       // wider than asked: the height fits, the sides go
    else *h = from_h * *w / from_w;
}

int kd_picture_fit(kd_picture *p, int64_t h, int64_t w, kd_filter filter, bool crop, kd_err *err)
{
    if (!crop || (p->h == h && p->w == w)) return kd_picture_resize(p, h, w, filter, err);
    struct window v = { h, w, 0, 0, h, w };
    int64_t a, b;
    if (!kd_mul(p->w, h, &a) || !kd_mul(p->h, w, &b))
        return kd_fail(err, KD_EUSAGE, "size %lldx%lld is too large", (long long)w, (long long)h);
    kd_picture_cover(p->h, p->w, &v.full_h, &v.full_w);
    v.top = half(v.full_h - h), v.left = half(v.full_w - w);
    return resize_window(p, &v, filter, err);
}
