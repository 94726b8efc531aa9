// Brownian motion as a sum of tents (Levy and Ciesielski): on [0, 1]
//   W(u) = u Z + sum over levels l and intervals k of that level: sqrt(2^-l) / 2 * tent(2^l u - k) * Z[l,k]
// with independent normals Z. tent rises from 0 at the interval's ends to 1 at its middle: a midpoint's value is the mean
// of its neighbours' plus a normal of deviation sqrt(2^-l) / 2. An increment W(v) - W(u) is thus one normal a level and end
// times a factor known in double precision; while both ends lie in the same interval, one normal serves both, so that
// nothing large cancels.
#include "base/brownian.h"
#include "base/random.h"
#include <math.h>
#include <string.h>

// The tree's node as a counter: nodes numbered as in a heap (1 the root), the whole interval's normal is node 0.
static kd_rng node_rng(const kd_brownian *w, uint64_t node)
{
    return kd_rng_of(w->seed, KD_RNG_BROWNIAN, (uint32_t)(node >> 24), w->index, (uint32_t)(node & 0xffffff));
}

// Elements first .. first + n - 1 of the path's values, and room for as many.
typedef struct part { float *out, *z; uint64_t first; int64_t n; } part;

static void add_normals(const kd_brownian *w, uint64_t node, double factor, const part *p)
{
    if (factor == 0) return;
    const kd_rng r = node_rng(w, node);
    kd_rng_normal(&r, p->z, p->first, p->n);
    for (int64_t i = 0; i < p->n; i++) p->out[i] = (float)(p->out[i] + factor * p->z[i]);
}

static double tent(double x) { return 1 - fabs(2 * x - 1); }

static double clamp01(double u) { return u < 0 ? 0 : u > 1 ? 1 : u; }

// out = (W(b) - W(a)) / sqrt(b - a) for a < b
static void rising(const kd_brownian *w, double a, double b, const part *p)
{
    const double whole = w->t1 - w->t0;
    const double u = clamp01((a - w->t0) / whole), v = clamp01((b - w->t0) / whole);
    memset(p->out, 0, (size_t)p->n * sizeof *p->out);
    if (!(u < v)) return;
    const double unit = 1 / sqrt(v - u);
    add_normals(w, 0, unit * (v - u), p);
    for (int l = 0; l < KD_BROWNIAN_LEVELS; l++) {
        const double n = ldexp(1, l), scale = unit * sqrt(1 / n) / 2;
        const double ku = fmin(floor(u * n), n - 1), kv = fmin(floor(v * n), n - 1);
        const double fu = scale * tent(u * n - ku), fv = scale * tent(v * n - kv);
        const uint64_t first = (uint64_t)1 << l;
        if (ku == kv) {
            add_normals(w, first + (uint64_t)ku, fv - fu, p);
        } else {
            add_normals(w, first + (uint64_t)ku, -fu, p);
            add_normals(w, first + (uint64_t)kv, fv, p);
        }
    }
}

void kd_brownian_noise(const kd_brownian *w, double a, double b, float *out, uint64_t first, int64_t n, float *scratch)
{
    const part p = { out, scratch, first, n };
    rising(w, fmin(a, b), fmax(a, b), &p);
    if (a > b)
        for (int64_t i = 0; i < n; i++) out[i] = -out[i];
}
