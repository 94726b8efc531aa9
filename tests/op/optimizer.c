// The end of a training step, against double precision: the update rules are PyTorch's, five steps each. Lengths are around a
// tile (4096 elements).
#include "tests/op/test.h"
#include "base/parallel.h"
#include "base/random.h"
#include "op/optimizer.h"
#include "op/unet.h"
#include <float.h>
#include <stdlib.h>

static const int64_t lengths[] = { 1, 7, 4096, 9001 };
enum { LENGTHS = 4, STEPS = 5 };

/// [n] each, on the backend.
typedef struct arrays { float *p, *g, *m, *v, *ema; } arrays;

static void random_fill(float *x, int64_t n, uint32_t node, double deviation)
{
    const kd_rng rng = kd_rng_of(T_SEED, KD_RNG_TEST, node, 0, 0);
    kd_rng_normal(&rng, x, 0, n);
    for (int64_t i = 0; i < n; i++) x[i] *= (float)deviation;
}

static void must(t_run *t, int code, const kd_err *err) { t_check(t, !code, "%s", err->msg); }

static void write(t_run *t, float *to, const float *x, int64_t n)
{
    kd_err err = { 0 };
    must(t, t->be->upload(t->be, to, x, (size_t)n * sizeof *x, &err), &err);
}

/// A copy on the host; free it.
static float *read(t_run *t, const float *from, int64_t n)
{
    kd_err err = { 0 };
    float *x = malloc((size_t)n * sizeof *x);
    must(t, t->be->download(t->be, x, from, (size_t)n * sizeof *x, &err), &err);
    return x;
}

/// Weights, and moments and an average as in the middle of a run, or zeros.
static arrays arrays_new(t_run *t, int64_t n, bool fresh)
{
    arrays a;
    float **all[] = { &a.p, &a.g, &a.m, &a.v, &a.ema }, *x = malloc((size_t)n * sizeof *x);
    static const double deviation[] = { 1, 0, .1, .01, 1 };
    kd_err err = { 0 };
    for (int i = 0; i < 5; i++) {                                    // alloc gives zeros
        must(t, t->be->alloc(t->be, (void **)all[i], (size_t)n * sizeof *x, &err), &err);
        if (i > 0 && fresh) continue;
        random_fill(x, n, 1 + (uint32_t)i, deviation[i]);
        for (int64_t k = 0; k < n && i == 3; k++) x[k] = fabsf(x[k]);
        write(t, *all[i], x, n);
    }
    free(x);
    return a;
}

static void arrays_free(t_run *t, arrays *a)
{
    float *all[] = { a->p, a->g, a->m, a->v, a->ema };
    for (int i = 0; i < 5; i++) t->be->free(t->be, all[i]);
}

static kd_val *bound(kd_graph *g, const char *name, float *at, int64_t n)
{
    kd_val *v = kd_param(g, name, KD_SHAPE(n));
    kd_bind(v, at);
    return v;
}

// The update rules -----------------------------------------------------------------------------------------------------

/// An update rule, and the state of one element in double.
typedef struct rule { const char *what; bool adamw, nesterov, ema; double momentum; } rule;
typedef struct state { double p, m, v, ema; } state;
static const double WD = .1, CLIP = .7, BETA1 = .9, BETA2 = .999, EPS = 1e-8;
static const double rate_of[4] = { 3e-2, 2e-2, 1e-2, 5e-3 };        // by group

static const rule rules[] = { { "adamw", true, false, true, 0 }, { "adamw without ema", true, false, false, 0 },
                              { "sgd", false, false, true, 0 }, { "momentum", false, false, true, .9 },
                              { "nesterov", false, true, true, .9 }, { "momentum without ema", false, false, false, .5 } };
enum { RULES = sizeof rules / sizeof *rules };

static bool has_m(const rule *k) { return k->adamw || k->momentum > 0; }

/// A part of the arrays, as kd_update.runs has it: first element, count, group, what weights are cut to.
typedef double run[KD_RUN_COLUMNS];

/// The parts of arrays of n elements. The gradient has `grad` elements.
typedef struct layout { const run *runs; int64_t n_runs, n, grad; } layout;

// All groups, with and without a cut, idle parts, a part of two tiles and one of three, elements in no part.
static const run mixed_runs[] = {
    { 0, 5, 0, INFINITY }, { 5, 4099, 1, INFINITY }, { 4104, 7, -1, INFINITY }, { 4111, 1, 2, .1 },
    { 4112, 130, 2, .25 }, { 4250, 9, 3, 0 }, { 4259, 66, -1, .2 }, { 4325, 8200, 0, .5 } };
enum { MIXED = sizeof mixed_runs / sizeof *mixed_runs };
static const layout mixed = { mixed_runs, MIXED, 12600, 12525 };

/// The run of element i; NULL: none.
static const double *run_of(const layout *l, int64_t i)
{
    for (const double *r = l->runs[0]; r < l->runs[l->n_runs]; r += KD_RUN_COLUMNS)
        if ((double)i >= r[KD_RUN_FIRST] && (double)i < r[KD_RUN_FIRST] + r[KD_RUN_COUNT]) return r;
    return NULL;
}

static void step_in_double(const rule *k, state *s, const double *in, double g, int step, double decay)
{
    const int group = (int)in[KD_RUN_GROUP];
    const double lr = group < 0 ? 0 : rate_of[group], wd = group == 0 || group == 2 ? WD : 0;
    g *= CLIP;
    if (group >= 0 && k->adamw) {
        s->p *= 1 - lr * wd;
        s->m = BETA1 * s->m + (1 - BETA1) * g;
        s->v = BETA2 * s->v + (1 - BETA2) * g * g;
        s->p -= lr / (1 - pow(BETA1, step)) * s->m / (sqrt(s->v) / sqrt(1 - pow(BETA2, step)) + EPS);
    } else if (group >= 0) {
        g += wd * s->p;
        s->m = step == 1 ? g : k->momentum * s->m + g;
        s->p -= lr * (k->nesterov ? g + k->momentum * s->m : s->m);
    }
    s->ema = decay * s->ema + (1 - decay) * s->p;
    if (group >= 0 && s->p > in[KD_RUN_MOST]) s->p = in[KD_RUN_MOST];
}

/// The program of one update of a.
typedef struct update { kd_program *program; kd_val *clip, *rates; } update;

static update update_new(t_run *t, const rule *k, const layout *l, const arrays *a)
{
    const int64_t n = l->n;
    kd_err err = { 0 };
    kd_graph *g = kd_graph_new();
    update u = { .clip = kd_input(g, "clip", KD_F64, KD_SHAPE(2)),
                 .rates = kd_input(g, "rates", KD_F64, KD_SHAPE(KD_RATES)) };
    const kd_update of = { .p = bound(g, "p", a->p, n), .grad = bound(g, "g", a->g, l->grad),
                           .m = has_m(k) ? bound(g, "m", a->m, n) : NULL, .v = k->adamw ? bound(g, "v", a->v, n) : NULL,
                           .ema = k->ema ? bound(g, "ema", a->ema, n) : NULL, .clip = u.clip, .rates = u.rates,
                           .runs = kd_const_of(g, "runs", KD_F64, KD_SHAPE(l->n_runs, KD_RUN_COLUMNS), l->runs) };
    kd_val *out = k->adamw ? kd_adamw(g, &of, WD, BETA1, BETA2, EPS) : kd_sgd(g, &of, WD, k->momentum, k->nesterov);
    must(t, kd_program_new(&u.program, g, t->be, &out, 1, &err), &err);
    return u;
}

static void update_run(t_run *t, const update *u, double clip, int step, double decay)
{
    double rates[KD_RATES] = { [KD_RATE_EMA] = decay, [KD_RATE_BIAS1] = 1 - pow(BETA1, step),
                               [KD_RATE_BIAS2] = 1 - pow(BETA2, step), [KD_RATE_FIRST] = step == 1 };
    const double factors[2] = { clip, 1 };
    kd_err err = { 0 };
    for (int k = 0; k < 4; k++) rates[KD_RATE_LR + k] = rate_of[k];
    must(t, kd_program_set(u->program, u->clip, factors, &err), &err);
    must(t, kd_program_set(u->program, u->rates, rates, &err), &err);
    must(t, kd_program_run(u->program, &err), &err);
}

static void check(t_run *t, const char *what, const float *at, const double *want, int64_t n)
{
    float *got = read(t, at, n);
    t_close(t, what, got, want, n, 5e-7);
    free(got);
}

/// After the first step, whose decay is 0, the average is the weights before they were cut, bit for bit.
static void check_copy(t_run *t, const rule *k, const layout *l, const arrays *a)
{
    float *p = read(t, a->p, l->n), *ema = read(t, a->ema, l->n);
    for (int64_t i = 0; i < l->n; i++) {
        const double *in = run_of(l, i);
        if (!in || !isinf(in[KD_RUN_MOST])) continue;
        t_check(t, !memcmp(&p[i], &ema[i], sizeof *p), "%s: decay 0 is not a copy", k->what);
    }
    free(p), free(ema);
}

/// What has no gradient keeps its bits, in no run those of the average too. before: p, m, v, ema at the beginning.
static void check_still(t_run *t, const rule *k, const layout *l, const arrays *a, float *const before[4])
{
    static const char *const names[] = { "p", "m", "v", "ema" };
    const float *const all[] = { a->p, a->m, a->v, a->ema };
    for (int j = 0; j < 4; j++) {
        float *now = read(t, all[j], l->n);
        for (int64_t i = 0; i < l->n; i++) {
            const double *in = run_of(l, i);
            if (in && (in[KD_RUN_GROUP] >= 0 || j == 3)) continue;
            t_check(t, !memcmp(&now[i], &before[j][i], sizeof *now), "%s: element %lld of %s, which is %s, has moved", k->what,
                    (long long)i, names[j], in ? "idle" : "in no run");
        }
        free(now);
    }
}

static const double decays_as_usual[STEPS] = { 0, .4, .99, .99, .99 };
// An average that begins at 0 then shows whether 1 - decay is rounded from a double.
static const double decays_near_1[STEPS] = { .9999, .9999, .9999, .9999, .9999 };

static void try_rule(t_run *t, const rule *k, const layout *l, const double decays[STEPS], const arrays *a)
{
    const update u = update_new(t, k, l, a);
    const int64_t n = l->n;
    state *s = malloc((size_t)n * sizeof *s);
    double *want = malloc((size_t)n * sizeof *want);
    float *g = malloc((size_t)n * sizeof *g);
    float *before[] = { read(t, a->p, n), read(t, a->m, n), read(t, a->v, n), read(t, a->ema, n) };
    for (int64_t i = 0; i < n; i++) s[i] = (state){ before[0][i], before[1][i], before[2][i], before[3][i] };
    for (int step = 1; step <= STEPS && !t->failed; step++) {
        const double decay = decays[step - 1];
        random_fill(g, n, 10 + (uint32_t)step, .1);
        write(t, a->g, g, l->grad);
        for (int64_t i = 0; i < n; i++)
            if (run_of(l, i)) step_in_double(k, &s[i], run_of(l, i), g[i], step, decay);
        update_run(t, &u, CLIP, step, decay);
        if (decay == 0 && k->ema) check_copy(t, k, l, a);
    }
    check_still(t, k, l, a, before);
    for (int64_t i = 0; i < n; i++) want[i] = s[i].p;
    check(t, k->what, a->p, want, n);
    for (int64_t i = 0; i < n; i++) want[i] = s[i].m;
    if (has_m(k)) check(t, "m", a->m, want, n);
    for (int64_t i = 0; i < n; i++) want[i] = s[i].v;
    if (k->adamw) check(t, "v", a->v, want, n);                      // from 0 by thousandths
    for (int64_t i = 0; i < n; i++) want[i] = s[i].ema;
    if (k->ema) check(t, "ema", a->ema, want, n);
    for (int j = 0; j < 4; j++) free(before[j]);
    free(s), free(want), free(g);
    kd_program_free(u.program);
}

static void same_bits(t_run *t, const char *what, const arrays *a, const arrays *b, int64_t n)
{
    static const char *const names[] = { "p", "m", "v", "ema" };
    const float *const x[] = { a->p, a->m, a->v, a->ema }, *const y[] = { b->p, b->m, b->v, b->ema };
    for (int i = 0; i < 4; i++) {
        float *one = read(t, x[i], n), *other = read(t, y[i], n);
        t_check(t, !memcmp(one, other, (size_t)n * sizeof *one), "%s: other bits of %s", what, names[i]);
        free(one), free(other);
    }
}

static void try_threads(t_run *t, const rule *k, const layout *l, const double decays[STEPS])
{
    static const int threads[] = { 1, 3, 8 };
    arrays first = arrays_new(t, l->n, l->n_runs == 1);
    for (int j = 0; j < 3 && !t->failed; j++) {
        arrays a = j ? arrays_new(t, l->n, l->n_runs == 1) : first;
        kd_threads_set(threads[j]);
        try_rule(t, k, l, decays, &a);
        same_bits(t, k->what, &first, &a, l->n);
        if (j) arrays_free(t, &a);
    }
    arrays_free(t, &first);
}

static void update_rules(t_run *t)
{
    for (int k = 0; k < RULES; k++) {
        for (int i = 0; i < LENGTHS && !t->failed; i++) {
            const run all[] = { { 0, (double)lengths[i], 0, INFINITY } };
            try_threads(t, &rules[k], &(layout){ all, 1, lengths[i], lengths[i] }, i % 2 ? decays_as_usual : decays_near_1);
        }
        try_threads(t, &rules[k], &mixed, decays_as_usual);
    }
}

/// A factor of 0 changes nothing at all, whatever the gradient is.
static void refused_step(t_run *t)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY, 0, 1e30f };
    for (int k = 0; k < RULES; k++)
        for (int step = 1; step <= 2; step++) {                     // the first step is a case of its own for SGD
            arrays a = arrays_new(t, mixed.n, false), b = arrays_new(t, mixed.n, false);
            float *g = malloc((size_t)mixed.grad * sizeof *g);
            for (int64_t i = 0; i < mixed.grad; i++) g[i] = bad[i % 5];
            write(t, a.g, g, mixed.grad);
            const update u = update_new(t, &rules[k], &mixed, &a);
            update_run(t, &u, 0, step, step == 1 ? 0 : .5);
            same_bits(t, rules[k].what, &a, &b, mixed.n);
            kd_program_free(u.program);
            free(g);
            arrays_free(t, &a), arrays_free(t, &b);
        }
}

/// A factor that is 0 as a float alone is not 0: moments decay as after any step.
static void tiny_factor(t_run *t)
{
    arrays a = arrays_new(t, mixed.n, false), b = arrays_new(t, mixed.n, false);
    float *g = malloc((size_t)mixed.grad * sizeof *g);
    for (int64_t i = 0; i < mixed.grad; i++) g[i] = 1;
    write(t, a.g, g, mixed.grad);
    const update u = update_new(t, &rules[0], &mixed, &a);
    update_run(t, &u, 1e-60, 2, .5);
    float *before = read(t, b.m, mixed.n), *after = read(t, a.m, mixed.n);
    for (int64_t i = 0; i < 5; i++)                                  // the first run
        t_check(t, fabs(after[i] - BETA1 * before[i]) < 1e-7 * fabs(before[i]), "m[%lld]: %g, was %g", (long long)i, (double)after[i],
                (double)before[i]);
    free(before), free(after), free(g);
    kd_program_free(u.program);
    arrays_free(t, &a), arrays_free(t, &b);
}

// Sums -----------------------------------------------------------------------------------------------------------------

static double sum_of_squares(t_run *t, float *x, int64_t n)
{
    kd_err err = { 0 };
    kd_program *p = NULL;
    double sum = -1;
    kd_graph *g = kd_graph_new();
    kd_val *out = kd_sum_squares(g, bound(g, "x", x, n));
    must(t, kd_program_new(&p, g, t->be, &out, 1, &err), &err);
    must(t, kd_program_run(p, &err), &err);
    must(t, kd_program_get(p, out, &sum, &err), &err);
    kd_program_free(p);
    return sum;
}

static void check_squares(t_run *t, float *at, const float *x, int64_t n)
{
    static const int threads[] = { 1, 3, 8 };
    double want = 0, got[3];
    write(t, at, x, n);
    for (int64_t i = 0; i < n; i++) want += (double)x[i] * x[i];
    for (int k = 0; k < 3; k++) {
        kd_threads_set(threads[k]);
        got[k] = sum_of_squares(t, at, n);
        t_check(t, !memcmp(&got[0], &got[k], sizeof got[0]), "sum_squares: threads change bits");
    }
    t_check(t, fabs(got[0] / want - 1) < 1e-13, "sum_squares of %lld: %.17g, expected %.17g", (long long)n, got[0], want);
}

static void accumulate(t_run *t, float *y, float *x, int64_t n)
{
    kd_err err = { 0 };
    kd_program *p = NULL;
    kd_graph *g = kd_graph_new();
    kd_val *out = kd_accumulate(g, bound(g, "y", y, n), bound(g, "x", x, n));
    must(t, kd_program_new(&p, g, t->be, &out, 1, &err), &err);
    must(t, kd_program_run(p, &err), &err);
    kd_program_free(p);
}

static void sums(t_run *t)
{
    for (int l = 0; l < LENGTHS && !t->failed; l++) {
        const int64_t n = lengths[l];
        arrays a = arrays_new(t, n, true);
        float *x = read(t, a.p, n), *y = malloc((size_t)n * sizeof *y);
        check_squares(t, a.p, x, n);
        x[n / 2] = 3e25f;                                            // its square is beyond float
        check_squares(t, a.p, x, n);
        random_fill(y, n, 2, 1);
        write(t, a.m, y, n);
        accumulate(t, a.m, a.p, n);
        float *sum = read(t, a.m, n);
        for (int64_t i = 0; i < n; i++) t_check(t, sum[i] == x[i] + y[i], "accumulate: element %lld", (long long)i);
        x[n - 1] = NAN;
        write(t, a.p, x, n);
        t_check(t, isnan(sum_of_squares(t, a.p, n)), "sum_squares: NaN is lost");
        free(x), free(y), free(sum);
        arrays_free(t, &a);
    }
}

// Clipping -------------------------------------------------------------------------------------------------------------

enum { LOSSES = 1030 };

/// loss: what element `at` of the losses is, the others being 0.5; at -1: there are no losses.
static void try_clip(t_run *t, double limit, double square, int64_t at, float loss)
{
    const double norm = sqrt(square);
    const bool finite = isfinite(norm) && (at < 0 || isfinite(loss));
    const double want = !finite ? 0 : limit == 0 ? 1 : fmin(1, limit / (norm + 1e-6));
    double got[2] = { -1, -1 };
    float losses[LOSSES];
    for (int i = 0; i < LOSSES; i++) losses[i] = i == at ? loss : .5f;
    kd_graph *g = kd_graph_new();
    kd_val *in[2] = { kd_input(g, "square", KD_F64, KD_SHAPE(1)) };
    if (at >= 0) in[1] = kd_input(g, "loss", KD_F32, KD_SHAPE(LOSSES));
    kd_val *out = kd_clip(g, in[0], in[1], NULL, limit);
    t_run_graph(t, g, in, (const void *const[]){ &square, losses }, at < 0 ? 1 : 2, &out, (float *const[]){ (void *)got }, 1);
    t_check(t, fabs(got[0] - want) <= 1e-15 * want, "limit %g, norm %g, loss %g: factor %.17g, expected %.17g", limit, norm,
            (double)loss, got[0], want);
    t_check(t, got[1] == norm || (isnan(got[1]) && isnan(norm)) || fabs(got[1] / norm - 1) < 1e-15,
            "limit %g, loss %g: norm %.17g, expected %.17g", limit, (double)loss, got[1], norm);
}

static void clip(t_run *t)
{
    static const double limits[] = { 0, 1, .3, 1e6 };
    // Norms 0, below and above the limits, at 1 (where 1e-6 shows), beyond float, and not finite.
    static const double squares[] = { 0, 1e-4, 1, .09, 2, 1e80, 1e-300, INFINITY, NAN };
    static const float losses[] = { 2, -1, FLT_MAX, INFINITY, -INFINITY, NAN };
    static const int64_t places[] = { 0, 517, LOSSES - 1 };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (size_t j = 0; j < sizeof squares / sizeof *squares; j++) {
            try_clip(t, limits[i], squares[j], -1, 0);
            for (size_t k = 0; k < sizeof losses / sizeof *losses; k++)
                try_clip(t, limits[i], squares[j], places[(i + j + k) % 3], losses[k]);
        }
}

/// Once the norm or a loss is not finite, the factor is 0 until the caller clears `stopped`; the norm is as ever.
static void stopped(t_run *t)
{
    static const struct { double square; float loss; bool clear, stops; } runs[] = {
        { 4, 1, false, false }, { 9, 1, false, false }, { NAN, 1, false, true }, { 4, 1, false, true }, { 9, 1, true, false },
        { 4, INFINITY, false, true }, { 9, 1, false, true }, { INFINITY, NAN, false, true }, { 4, 1, true, false } };
    double *at, is, got[2];
    kd_err err = { 0 };
    kd_program *p = NULL;
    kd_graph *g = kd_graph_new();
    must(t, t->be->alloc(t->be, (void **)&at, sizeof *at, &err), &err);
    kd_val *square = kd_input(g, "square", KD_F64, KD_SHAPE(1)), *loss = kd_input(g, "loss", KD_F32, KD_SHAPE(1));
    kd_val *flag = kd_param_of(g, "stopped", KD_F64, KD_SHAPE(1));
    kd_bind(flag, at);
    kd_val *out = kd_clip(g, square, loss, flag, 1);
    must(t, kd_program_new(&p, g, t->be, &out, 1, &err), &err);
    for (size_t i = 0; i < sizeof runs / sizeof *runs && !t->failed; i++) {
        const double norm = sqrt(runs[i].square);
        if (runs[i].clear) must(t, t->be->fill(t->be, at, 0, sizeof *at, &err), &err);
        must(t, kd_program_set(p, square, &runs[i].square, &err), &err);
        must(t, kd_program_set(p, loss, &runs[i].loss, &err), &err);
        must(t, kd_program_run(p, &err), &err);
        must(t, kd_program_get(p, out, got, &err), &err);
        must(t, t->be->download(t->be, &is, at, sizeof is, &err), &err);
        t_check(t, is == runs[i].stops, "run %d: stopped is %g", (int)i, is);
        t_check(t, runs[i].stops ? got[0] == 0 : fabs(got[0] * (norm + 1e-6) - 1) < 1e-15, "run %d: factor %g", (int)i, got[0]);
        t_check(t, isfinite(norm) ? fabs(got[1] / norm - 1) < 1e-15 : !isfinite(got[1]), "run %d: norm %g", (int)i, got[1]);
    }
    kd_program_free(p);
    t->be->free(t->be, at);
}

/// The end of a training step as one program: the gradient's norm is clipped to 1, or the step is refused.
static void whole_step(t_run *t)
{
    enum { N = 5003 };
    const run all[] = { { 0, N, 1, INFINITY } };
    for (int k = 0; k < 4; k++) {              // good; NaN in the gradient; NaN in a loss; infinity in a loss
        arrays a = arrays_new(t, N, true), b = arrays_new(t, N, true);
        float *x = read(t, a.p, N), *p = read(t, a.p, N), loss[3] = { 1, k == 2 ? NAN : 2, k == 3 ? INFINITY : 3 };
        double *want = malloc(N * sizeof *want), square = 0, rates[KD_RATES] = { 0, .5 }, clipped[2];
        kd_err err = { 0 };
        kd_program *program = NULL;
        if (k == 1) x[N - 1] = NAN;
        write(t, a.g, x, N);
        kd_graph *g = kd_graph_new();
        kd_val *grad = bound(g, "g", a.g, N), *losses = kd_input(g, "loss", KD_F32, KD_SHAPE(3));
        kd_update u = { .p = bound(g, "p", a.p, N), .grad = grad, .rates = kd_input(g, "rates", KD_F64, KD_SHAPE(KD_RATES)),
                        .clip = kd_clip(g, kd_sum_squares(g, grad), losses, NULL, 1),
                        .runs = kd_const_of(g, "runs", KD_F64, KD_SHAPE(1, KD_RUN_COLUMNS), all) };
        kd_val *outs[] = { u.clip, kd_sgd(g, &u, 0, 0, false) };
        must(t, kd_program_new(&program, g, t->be, outs, 2, &err), &err);
        must(t, kd_program_set(program, losses, loss, &err), &err);
        must(t, kd_program_set(program, u.rates, rates, &err), &err);
        must(t, kd_program_run(program, &err), &err);
        must(t, kd_program_get(program, u.clip, clipped, &err), &err);
        for (int i = 0; i < N; i++) square += (double)x[i] * x[i];
        for (int i = 0; i < N; i++) want[i] = p[i] - .5 * x[i] / (sqrt(square) + 1e-6);
        const bool right = k == 1 ? isnan(clipped[1]) : fabs(clipped[1] / sqrt(square) - 1) < 1e-13;
        t_check(t, right, "case %d: norm %g", k, clipped[1]);
        if (k == 0) check(t, "clipped step", a.p, want, N);
        else same_bits(t, "refused step", &a, &b, N);
        kd_program_free(program);
        free(x), free(p), free(want);
        arrays_free(t, &a), arrays_free(t, &b);
    }
}

// Flattening -----------------------------------------------------------------------------------------------------------

/// Only the gaps are cleared: over memory of the test's, all else keeps its bits.
static void flatten_gaps(t_run *t)
{
    enum { GUARD = 16, N = 5000 };
    static const int64_t gaps[][2] = { { 0, 3 }, { 7, 1 }, { 64, 4099 }, { 4990, 10 } };
    for (int64_t n = 0; n <= 4; n++) {
        unsigned char *x, *got = malloc((N + 2 * GUARD) * sizeof(float));
        const size_t bytes = (N + 2 * GUARD) * sizeof(float);
        kd_err err = { 0 };
        kd_program *p = NULL;
        must(t, t->be->alloc(t->be, (void **)&x, bytes, &err), &err);
        must(t, t->be->fill(t->be, x, 0xa5, bytes, &err), &err);
        kd_graph *g = kd_graph_new();
        kd_val *flat = kd_flatten(g, N, gaps, n);
        kd_bind(flat, x + GUARD * sizeof(float));
        must(t, kd_program_new(&p, g, t->be, &flat, 1, &err), &err);
        must(t, kd_program_run(p, &err), &err);
        must(t, t->be->download(t->be, got, x, bytes, &err), &err);
        for (int64_t i = 0; i < (int64_t)bytes; i++) {
            const int64_t e = i / (int64_t)sizeof(float) - GUARD;
            bool gap = false;
            for (int64_t k = 0; k < n; k++) gap = gap || (e >= gaps[k][0] && e < gaps[k][0] + gaps[k][1]);
            t_check(t, got[i] == (gap ? 0 : 0xa5), "%lld gaps: element %lld, %s, is %02x", (long long)n, (long long)e,
                    gap ? "in a gap" : "in none", got[i]);
        }
        kd_program_free(p);
        t->be->free(t->be, x);
        free(got);
    }
}

/// Pinned values of odd sizes, computed in any order, some with gaps between: one array.
static void flatten_pinned(t_run *t)
{
    enum { N = 4 * 4096 + 37 };
    // First element and count of each.
    static const int64_t place[][2] = { { 8192, 4099 }, { 16, 1 }, { 0, 16 }, { 12304, 4080 }, { 48, 33 } };
    static const int64_t gaps[][2] = { { 17, 31 }, { 81, 8192 - 81 }, { 12291, 13 }, { 16384, 37 } };
    enum { PLACES = sizeof place / sizeof *place, GAPS = sizeof gaps / sizeof *gaps };
    static float x[N], flat[N];
    kd_err err = { 0 };
    kd_program *p = NULL;
    kd_graph *g = kd_graph_new();
    kd_val *in = kd_input(g, "x", KD_F32, KD_SHAPE(N)), *outs[PLACES + 2], *h = kd_scale(g, in, 2);
    random_fill(x, N, 3, 1);
    for (int k = 0; k < PLACES; k++) {
        outs[k] = kd_scale(g, kd_slice(g, h, place[k][0], place[k][1]), 3);
        kd_pin(outs[k], place[k][0] * (int64_t)sizeof(float));
    }
    outs[PLACES] = kd_flatten(g, N, gaps, GAPS);
    outs[PLACES + 1] = kd_sum_squares(g, outs[PLACES]);
    must(t, kd_program_new(&p, g, t->be, outs, PLACES + 2, &err), &err);
    for (int again = 0; again < 2; again++) {                       // the second run finds the first one's values there
        double square = 0, want = 0;
        must(t, kd_program_set(p, in, x, &err), &err);
        must(t, kd_program_run(p, &err), &err);
        must(t, kd_program_get(p, outs[PLACES], flat, &err), &err);
        must(t, kd_program_get(p, outs[PLACES + 1], &square, &err), &err);
        for (int64_t i = 0; i < N; i++) {
            bool gap = false;
            for (int k = 0; k < GAPS; k++) gap = gap || (i >= gaps[k][0] && i < gaps[k][0] + gaps[k][1]);
            const float w = gap ? 0 : 3 * (2 * x[i]);
            want += (double)w * w;
            t_check(t, flat[i] == w, "element %lld: %.9g, expected %.9g", (long long)i, (double)flat[i], (double)w);
        }
        t_check(t, fabs(square / want - 1) < 1e-13, "its squares: %.17g, expected %.17g", square, want);
        for (int i = 0; i < N; i++) x[i] += 1;
    }
    kd_program_free(p);
}

KD_TEST_FN(optimizer_rules, update_rules)
KD_TEST_FN(optimizer_refused, refused_step)
KD_TEST_FN(optimizer_tiny, tiny_factor)
KD_TEST_FN(optimizer_sums, sums)
KD_TEST_FN(optimizer_clip, clip)
KD_TEST_FN(optimizer_stopped, stopped)
KD_TEST_FN(optimizer_step, whole_step)
KD_TEST_FN(flatten_gaps, flatten_gaps)
KD_TEST_FN(flatten_pinned, flatten_pinned)
