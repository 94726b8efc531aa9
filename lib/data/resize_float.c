#include "data/resize_float.h"
#include "base/memory.h"
#include "data/codec.h"
#include <math.h>
#include <stddef.h>

/// Result i is the sum of w[i * room + k] times place first[i] + k, k < count[i].
struct axis { int64_t in, n, room; int64_t *first, *count; double *w; };

struct kd_resizer { int64_t c; struct axis y, x; };

static int axis_make(struct axis *a, int64_t in, int64_t n, kd_err *err)
{
    const double scale = (double)in / (double)n, wide = fmax(scale, 1), reach = 2 * wide;
    a->in = in, a->n = n, a->room = 2 * (int64_t)ceil(reach) + 1;
    a->first = kd_alloc((size_t)n * sizeof *a->first);
    a->count = kd_alloc((size_t)n * sizeof *a->count);
    a->w = kd_alloc((size_t)(n * a->room) * sizeof *a->w);
    if (!a->first || !a->count || !a->w) return kd_fail_memory(err, "resizing");
    for (int64_t i = 0; i < n; i++) {
        const double centre = ((double)i + 0.5) * scale;
        double *w = a->w + i * a->room, sum = 0;
        int64_t lo = (int64_t)(centre - reach + 0.5), hi = (int64_t)(centre + reach + 0.5);
        if (lo < 0) lo = 0;
        if (hi > in) hi = in;
        for (int64_t k = lo; k < hi; k++) sum += w[k - lo] = kd_filter_cubic(((double)k - centre + 0.5) / wide);
        for (int64_t k = lo; k < hi; k++) w[k - lo] /= sum;
        a->first[i] = lo, a->count[i] = hi - lo;
    }
    return 0;
}

static void axis_free(struct axis *a) { kd_free(a->first), kd_free(a->count), kd_free(a->w); }

int kd_resizer_new(kd_resizer **out, int64_t from_h, int64_t from_w, int64_t to_h, int64_t to_w, int64_t c, kd_err *err)
{
    kd_resizer *r = kd_alloc(sizeof *r);
    if (!r) return kd_fail_memory(err, "resizing");
    r->c = c;
    int code = axis_make(&r->y, from_h, to_h, err);
    if (!code) code = axis_make(&r->x, from_w, to_w, err);
    if (code) kd_resizer_free(r);
    else *out = r;
    return code;
}

void kd_resizer_free(kd_resizer *r)
{
    if (!r) return;
    axis_free(&r->y), axis_free(&r->x);
    kd_free(r);
}

int64_t kd_resizer_scratch(const kd_resizer *r) { return r->y.in * r->x.n * r->c; }

void kd_resizer_run(const kd_resizer *r, float *to, const float *from, float *scratch)
{
    const struct axis *x = &r->x, *y = &r->y;
    const int64_t c = r->c, row = x->n * c;
    for (int64_t h = 0; h < y->in; h++)
        for (int64_t i = 0; i < x->n; i++)
            for (int64_t ch = 0; ch < c; ch++) {
                const double *w = x->w + i * x->room;
                const float *p = from + (h * x->in + x->first[i]) * c + ch;
                double sum = 0;
                for (int64_t k = 0; k < x->count[i]; k++) sum += w[k] * (double)p[k * c];
                scratch[h * row + i * c + ch] = (float)sum;
            }
    for (int64_t i = 0; i < y->n; i++)
        for (int64_t j = 0; j < row; j++) {
            const double *w = y->w + i * y->room;
            const float *p = scratch + y->first[i] * row + j;
            double sum = 0;
            for (int64_t k = 0; k < y->count[i]; k++) sum += w[k] * (double)p[k * row];
            to[i * row + j] = (float)sum;
        }
}
