// Conversions against their rules in double precision: every 8-bit level, every 16-bit float, and F32 values at and around
// each point where rounding changes. All results are exact.
#include "base/parallel.h"
#include "op/op.h"
#include "tests/op/test.h"
#include <stdlib.h>

// Pixels ---------------------------------------------------------------------------------------------------------------

/// x / 255 rounded to float, doubled, less 1, and rounded again.
static double pixel(int level) { return (float)((double)(float)(level / 255.0) * 2 - 1); }

static void pixels(t_run *t)
{
    enum { N = 3, SIZE = 4099 };                                    // all levels several times, past a tile of 4096
    static uint8_t x[N * SIZE];
    static float y[N * SIZE];
    for (int i = 0; i < N * SIZE; i++) x[i] = (uint8_t)(i * 7 + i / 256);
    for (int threads = 1; threads <= 3; threads += 2) {
        kd_graph *g = kd_graph_new();
        kd_val *in = kd_input(g, "x", KD_U8, KD_SHAPE(N, SIZE)), *out = kd_pixels(g, in);
        float *const to[] = { y };
        kd_threads_set(threads);
        memset(y, 0xff, sizeof y);
        if (t_run_graph(t, g, &in, (const void *const[]){ x }, 1, &out, to, 1)) return;
        for (int i = 0; i < N * SIZE; i++) {
            const double want = pixel(x[i]);
            t_check(t, y[i] == want, "level %d: %.9g, expected %.9g", x[i], (double)y[i], want);
        }
    }
    t_check(t, pixel(0) == -1 && pixel(255) == 1, "the ends are not -1 and 1");
}

// 16-bit floats --------------------------------------------------------------------------------------------------------

/// A float format of 16 bits: a sign, an exponent, a mantissa of `mantissa` bits.
typedef struct format { kd_dtype dtype; const char *name; int mantissa; } format;
static const format formats[] = { { KD_BF16, "BF16", 7 }, { KD_F16, "F16", 10 } };
enum { HALVES = 1 << 16 };

static int bias_of(const format *f) { return (1 << (14 - f->mantissa)) - 1; }

/// What 16 bits mean.
static double value(const format *f, unsigned bits)
{
    const int exponent = (int)(bits & 0x7fff) >> f->mantissa, last = (1 << (15 - f->mantissa)) - 1;
    const int units = (int)bits & ((1 << f->mantissa) - 1);
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == last) return units ? NAN : sign * INFINITY;
    return sign * ldexp(exponent ? units + (1 << f->mantissa) : units, (exponent ? exponent : 1) - bias_of(f) - f->mantissa);
}

/// The bits of the largest finite value.
static unsigned largest(const format *f) { return (0x7fffu >> f->mantissa << f->mantissa) - 1; }

/// The value of the format next to x; of two that are as near, the one whose last bit is 0. Beyond the largest: infinity.
static double rounded(const format *f, double x)
{
    int e;
    if (!isfinite(x) || x == 0) return x;
    frexp(x, &e);                                                   // |x| is 2^(e-1) to 2^e
    const int lowest = 1 - bias_of(f) - f->mantissa, place = e - 1 - f->mantissa > lowest ? e - 1 - f->mantissa : lowest;
    const double r = ldexp(nearbyint(ldexp(x, -place)), place);
    return fabs(r) > value(f, largest(f)) ? copysign(INFINITY, x) : r;
}

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b)); }

/// Casts x [n] of one type to another: the result's bytes go to y.
static int cast(t_run *t, kd_dtype from, const void *x, kd_dtype to, void *y, int64_t n)
{
    kd_graph *g = kd_graph_new();
    kd_val *in = kd_input(g, "x", from, KD_SHAPE(n)), *out = kd_cast(g, in, to);
    return t_run_graph(t, g, &in, &x, 1, &out, (float *const[]){ y }, 1);
}

/// Each 16-bit float as F32, exactly, and as the other 16-bit type.
static void widen(t_run *t)
{
    static uint16_t x[HALVES], other[HALVES];
    static float y[HALVES];
    for (int i = 0; i < HALVES; i++) x[i] = (uint16_t)i;
    for (int k = 0; k < 2; k++) {
        const format *f = &formats[k], *o = &formats[1 - k];
        if (cast(t, f->dtype, x, KD_F32, y, HALVES) || cast(t, f->dtype, x, o->dtype, other, HALVES)) return;
        for (int i = 0; i < HALVES; i++) {
            const double want = value(f, (unsigned)i), near = rounded(o, want), got = value(o, other[i]);
            t_check(t, same(y[i], want), "%s %04x as F32: %.9g, expected %.9g", f->name, i, (double)y[i], want);
            t_check(t, same(got, near), "%s %04x as %s: %.9g, expected %.9g", f->name, i, o->name, got, near);
        }
    }
}

static float from_bits(uint32_t u) { float x; memcpy(&x, &u, sizeof x); return x; }

/// For each value of the format: itself, the number halfway to the next one (a tie), and the floats next to that.
static int64_t hard_values(const format *f, float *x)
{
    static const uint32_t special[] = {
        0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff,           // NaN: not to become infinity or 0
        0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, 0x00000001, 0x80000001, 0x007fffff };
    int64_t n = 0;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) x[n++] = from_bits(special[i]);
    for (unsigned i = 0; i < HALVES; i++) {
        if ((i & 0x7fff) > largest(f)) continue;
        const double low = value(f, i), high = (i & 0x7fff) == largest(f) ? low + (low - value(f, i - 1)) : value(f, i + 1);
        const float tie = (float)((low + high) / 2);
        x[n++] = (float)low, x[n++] = tie, x[n++] = nextafterf(tie, INFINITY), x[n++] = nextafterf(tie, -INFINITY);
    }
    return n;
}

/// F32 to 16 bits, and there and back: to nearest, ties to even, NaN stays NaN.
static void narrow(t_run *t)
{
    for (int k = 0; k < 2; k++) {
        const format *f = &formats[k];
        float *x = malloc((4 * HALVES + 64) * sizeof *x), *back = malloc((4 * HALVES + 64) * sizeof *back);
        uint16_t *y = malloc((4 * HALVES + 64) * sizeof *y);
        const int64_t n = hard_values(f, x);
        for (int threads = 1; threads <= 3 && !t->failed; threads += 2) {
            kd_graph *g = kd_graph_new();
            kd_val *in = kd_input(g, "x", KD_F32, KD_SHAPE(n)), *half = kd_cast(g, in, f->dtype);
            kd_val *const outs[] = { half, kd_cast(g, half, KD_F32) };
            kd_threads_set(threads);
            t_run_graph(t, g, &in, (const void *const[]){ x }, 1, outs, (float *const[]){ (void *)y, back }, 2);
            for (int64_t i = 0; i < n && !t->failed; i++) {
                const double want = rounded(f, x[i]), got = value(f, y[i]);
                t_check(t, same(got, want), "%a as %s: %.9g, expected %.9g", (double)x[i], f->name, got, want);
                t_check(t, same(back[i], want), "%a as %s and back: %.9g, expected %.9g", (double)x[i], f->name,
                        (double)back[i], want);
            }
        }
        free(x), free(back), free(y);
    }
}

/// The gradient takes the same way back: it is rounded to the 16-bit type too. Where x is read twice both parts are added.
static void gradient(t_run *t)
{
    enum { N = 4099 };
    static float x[N], dy[N], dx[N];
    for (int i = 0; i < N; i++) x[i] = (float)sin(i), dy[i] = (float)cos(i * 1.3) * 3;
    for (int k = 0; k < 4; k++) {
        const format *f = &formats[k % 2];
        const bool twice = k / 2;
        kd_graph *g = kd_graph_new();
        kd_val *in[] = { kd_input(g, "x", KD_F32, KD_SHAPE(N)), kd_input(g, "dy", KD_F32, KD_SHAPE(N)) }, *d = NULL;
        kd_val *y = kd_cast(g, kd_cast(g, in[0], f->dtype), KD_F32);
        if (twice) y = kd_add(g, y, in[0]);
        kd_grad(g, y, in[1], in, 1, &d);
        t_check(t, d && d->dtype == KD_F32, "%s: no gradient", f->name);
        if (!d || t_run_graph(t, g, in, (const void *const[]){ x, dy }, 2, &d, (float *const[]){ dx }, 1)) return;
        for (int i = 0; i < N; i++) {
            const float part = (float)rounded(f, dy[i]), want = twice ? part + dy[i] : part;
            t_check(t, dx[i] == want, "%s: element %d: %.9g, expected %.9g", f->name, i, (double)dx[i], (double)want);
        }
    }
}

/// The graph of a conversion that is not possible has this error. Frees the graph.
static void expect_error(t_run *t, kd_graph *g, const kd_val *y, const char *message)
{
    kd_err err = { 0 };
    t_check(t, !y && kd_graph_error(g, &err) == KD_EUSAGE && strstr(err.msg, message), "'%s', expected '%s'", err.msg, message);
    kd_graph_free(g);
}

static void refused(t_run *t)
{
    kd_graph *g = kd_graph_new();
    kd_val *x = kd_input(g, "x", KD_F32, KD_SHAPE(3));
    t_check(t, kd_cast(g, x, KD_F32) == x, "a cast to the same type is not the value itself");
    expect_error(t, g, kd_pixels(g, x), "pixels: expected x of U8");
    g = kd_graph_new();
    expect_error(t, g, kd_cast(g, kd_input(g, "i", KD_I64, KD_SHAPE(3)), KD_F32), "cast: expected F32, BF16 or F16");
    g = kd_graph_new();
    expect_error(t, g, kd_cast(g, kd_input(g, "x", KD_F32, KD_SHAPE(3)), KD_U8), "cast: expected F32, BF16 or F16");
}

KD_TEST_FN(pixels, pixels)
KD_TEST_FN(cast_widen, widen)
KD_TEST_FN(cast_narrow, narrow)
KD_TEST_FN(cast_gradient, gradient)
KD_TEST_FN(convert_refused, refused)
