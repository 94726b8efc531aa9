#include "diffusion/ode.h"
#include "base/memory.h"
#include <math.h>
#include <string.h>

enum { STAGES = 7 };
static const double C[STAGES] = { 0, 1. / 5, 3. / 10, 4. / 5, 8. / 9, 1, 1 };
static const double A[STAGES][STAGES - 1] = {
    { 0 },
    { 1. / 5 },
    { 3. / 40, 9. / 40 },
    { 44. / 45, -56. / 15, 32. / 9 },
    { 19372. / 6561, -25360. / 2187, 64448. / 6561, -212. / 729 },
    { 9017. / 3168, -355. / 33, 46732. / 5247, 49. / 176, -5103. / 18656 },
    { 35. / 384, 0, 500. / 1113, 125. / 192, -2187. / 6784, 11. / 84 } };       // of the result too: its slope is the next step's first
static const double E[STAGES] = { 71. / 57600, 0, -71. / 16695, 71. / 1920, -17253. / 339200, 22. / 525, -1. / 40 };

typedef struct pace { double t, h; double sum[2]; bool accept; } pace;

typedef struct solver {
    const kd_ode *o;
    double end, *y;
    int64_t n, size, m;                // m: systems that are not at the end
    int64_t *system, *calls;           // [m], [n]
    pace *pace;                        // [n], or the first for all
    double *t;                         // [m]
    double *k[STAGES];                 // slopes, [n,size]
    double *at, *dy;                   // [m,size]
} solver;

static const char *name_of(const solver *s) { return s->o->name ? s->o->name : "t"; }

static pace *pace_of(const solver *s, int64_t i) { return &s->pace[s->o->batch_norm ? 0 : i]; }

// Asks for the slopes at s->at, times t + c h, into `to`.
static int slopes(solver *s, double c, double *to, kd_err *err)
{
    for (int64_t j = 0; j < s->m; j++) {
        const pace *p = pace_of(s, s->system[j]);
        s->t[j] = c == 1 ? fmin(s->end, p->t + p->h) : p->t + c * p->h;
        s->calls[s->system[j]]++;
    }
    KD_TRY(s->o->f(s->o->arg, s->m, s->system, s->t, s->at, s->dy, err));
    for (int64_t j = 0; j < s->m; j++) {
        double *k = to + s->system[j] * s->size;
        memcpy(k, s->dy + j * s->size, (size_t)s->size * sizeof *k);
        for (int64_t e = 0; e < s->size; e++)
            if (!isfinite(k[e])) return kd_fail(err, KD_EFAIL, "the slope is NaN or infinite at %s = %g", name_of(s), s->t[j]);
    }
    return 0;
}

// Norms ------------------------------------------------------------------------------------------------------------

static void clear_norms(const solver *s)
{
    for (int64_t i = 0; i < s->n; i++) s->pace[i].sum[0] = s->pace[i].sum[1] = 0;
}

// Adds v^2 / scale^2 of one system: v [size], the scale of y and y1.
static void add_norm(const solver *s, int64_t i, const double *v, const double *y, const double *y1)
{
    double sum[2] = { 0 };
    for (int64_t e = 0; e < s->size; e++) {
        const double scaled = v[e] / (s->o->atol + s->o->rtol * fmax(fabs(y[e]), fabs(y1[e])));
        sum[e >= s->o->part] += scaled * scaled;
    }
    pace_of(s, i)->sum[0] += sum[0], pace_of(s, i)->sum[1] += sum[1];
}

// The larger rms of both parts.
static double norm_of(const solver *s, const pace *p)
{
    const double systems = s->o->batch_norm ? (double)s->m : 1, rest = (double)(s->size - s->o->part);
    const double a = p->sum[0] / (systems * (double)s->o->part), b = rest > 0 ? p->sum[1] / (systems * rest) : 0;
    return sqrt(a > b || isnan(a) ? a : b);
}

// Steps ------------------------------------------------------------------------------------------------------------

// The norm of what `v` has for each pace, into out [n].
static void norms(const solver *s, const double *v, double *out)
{
    clear_norms(s);
    for (int64_t i = 0; i < s->n; i++) add_norm(s, i, v + i * s->size, s->y + i * s->size, s->y + i * s->size);
    for (int64_t i = 0; i < s->n; i++) out[i] = norm_of(s, pace_of(s, i));
}

// Hairer's first step, from the sizes of y, y' and an estimate of y''. scratch [4,n]
static int first_steps(solver *s, double *scratch, kd_err *err)
{
    double *d0 = scratch, *d1 = d0 + s->n, *d2 = d1 + s->n, *h0 = d2 + s->n;
    const int64_t all = s->n * s->size;
    memcpy(s->at, s->y, (size_t)all * sizeof *s->at);
    KD_TRY(slopes(s, 0, s->k[0], err));
    norms(s, s->y, d0);
    norms(s, s->k[0], d1);
    for (int64_t i = 0; i < s->n; i++) {
        h0[i] = d0[i] < 1e-5 || d1[i] < 1e-5 ? 1e-6 : 0.01 * d0[i] / d1[i];
        if (!isfinite(h0[i])) h0[i] = 1e-6;
        pace_of(s, i)->h = fmin(h0[i], s->end - pace_of(s, i)->t);
    }
    for (int64_t e = 0; e < all; e++) s->at[e] = s->y[e] + pace_of(s, e / s->size)->h * s->k[0][e];
    KD_TRY(slopes(s, 1, s->k[1], err));
    for (int64_t e = 0; e < all; e++) s->k[1][e] -= s->k[0][e];
    norms(s, s->k[1], d2);
    for (int64_t i = 0; i < s->n; i++) {
        const double most = fmax(d1[i], d2[i] / h0[i]);
        const double h1 = most <= 1e-15 ? fmax(1e-6, 1e-3 * h0[i]) : pow(0.01 / most, 1. / 5);
        pace_of(s, i)->h = fmin(fmin(100 * h0[i], isfinite(h1) ? h1 : 1e-6), s->end - pace_of(s, i)->t);
    }
    return 0;
}

static int begin_round(solver *s, kd_err *err)
{
    s->m = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const pace *p = pace_of(s, i);
        if (p->t >= s->end) continue;
        if (s->calls[i] + STAGES - 1 > s->o->max_calls)
            return kd_fail(err, KD_EFAIL, "%lld calls, and still at %s = %g of %g: loosen rtol and atol, or raise max_calls (%lld)",
                           (long long)s->calls[i], name_of(s), p->t, s->end, (long long)s->o->max_calls);
        s->system[s->m++] = i;
    }
    return 0;
}

// at = y + h sum of a[q] k[q] over q < stages
static void advance(solver *s, const double *a, int stages)
{
    for (int64_t j = 0; j < s->m; j++) {
        const int64_t from = s->system[j] * s->size;
        const double h = pace_of(s, s->system[j])->h;
        for (int64_t e = 0; e < s->size; e++) {
            double sum = 0;
            for (int q = 0; q < stages; q++) sum += a[q] * s->k[q][from + e];
            s->at[j * s->size + e] = s->y[from + e] + h * sum;
        }
    }
}

// Takes or refuses the step to s->at; the error estimate goes through s->dy.
static void end_round(solver *s)
{
    clear_norms(s);
    for (int64_t j = 0; j < s->m; j++) {
        const int64_t i = s->system[j], from = i * s->size;
        const double h = pace_of(s, i)->h;
        for (int64_t e = 0; e < s->size; e++) {
            double sum = 0;
            for (int q = 0; q < STAGES; q++) sum += E[q] * s->k[q][from + e];
            s->dy[j * s->size + e] = h * sum;
        }
        add_norm(s, i, s->dy + j * s->size, s->y + from, s->at + j * s->size);
    }
    for (int64_t j = 0; j < (s->o->batch_norm ? 1 : s->m); j++) {
        pace *p = pace_of(s, s->system[j]);
        const double error = norm_of(s, p);
        p->accept = error <= 1;
        if (p->accept) p->t = p->t + p->h >= s->end * (s->end > 0 ? 1 - 1e-14 : 1 + 1e-14) ? s->end : p->t + p->h;
        double factor = fmin(10, fmax(0.2, 0.9 * pow(error, -1. / 5)));
        if (isnan(error)) factor = 0.2;
        if (p->accept) factor = fmax(1, factor);
        p->h = fmin(p->h * factor, p->t < s->end ? s->end - p->t : p->h);
    }
    for (int64_t j = 0; j < s->m; j++) {
        const int64_t i = s->system[j];
        const size_t bytes = (size_t)s->size * sizeof *s->y;
        if (!pace_of(s, i)->accept) continue;
        memcpy(s->y + i * s->size, s->at + j * s->size, bytes);
        memcpy(s->k[0] + i * s->size, s->k[STAGES - 1] + i * s->size, bytes);
    }
}

static int solve(solver *s, double *scratch, kd_err *err)
{
    for (int64_t i = 0; i < s->n; i++) s->system[i] = i;
    s->m = s->n;
    KD_TRY(first_steps(s, scratch, err));
    for (;;) {
        KD_TRY(begin_round(s, err));
        if (!s->m) return 0;
        for (int q = 1; q < STAGES; q++) {
            advance(s, A[q], q);
            KD_TRY(slopes(s, C[q], s->k[q], err));
        }
        end_round(s);
    }
}

int kd_ode_dopri5(const kd_ode *o, double t0, double t1, int64_t n, int64_t size, double *y, int64_t *calls, kd_err *err)
{
    const size_t rows = (size_t)n + 1, all = (size_t)(n * size) + 1;
    double *block = kd_alloc((5 * rows + (STAGES + 2) * all) * sizeof *block);
    solver s = { .o = o, .end = t1, .y = y, .n = n, .size = size, .system = kd_alloc(rows * sizeof *s.system),
                 .calls = kd_alloc(rows * sizeof *s.calls), .pace = kd_alloc(rows * sizeof *s.pace) };
    int code = block && s.system && s.calls && s.pace ? 0 : kd_fail_memory(err, "the solver's vectors");
    if (code) goto done;
    s.t = block + 4 * rows;
    for (int q = 0; q < STAGES; q++) s.k[q] = block + 5 * rows + (size_t)q * all;
    s.at = s.k[STAGES - 1] + all, s.dy = s.at + all;
    for (int64_t i = 0; i < n; i++) s.pace[i].t = t0;
    if (n > 0) code = solve(&s, block, err);
    if (calls) memcpy(calls, s.calls, (size_t)n * sizeof *calls);
done:
    kd_free(block);
    kd_free(s.system);
    kd_free(s.calls);
    kd_free(s.pace);
    return code;
}
