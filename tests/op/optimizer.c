// The flat passes against PyTorch's rules in double precision, five steps each. Lengths around a tile (4096).
#include "tests/op/test.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include "op/optimizer.h"

static const int64_t lengths[] = { 1, 7, 4096, 9001 };
enum { LENGTHS = 4, STEPS = 5 };

typedef struct arrays { float *p, *g, *m, *v, *ema; } arrays;

static void random_fill(float *x, int64_t n, uint32_t node, double deviation)
{
    const kd_rng rng = kd_rng_of(T_SEED, KD_RNG_TEST, node, 0, 0);
    kd_rng_normal(&rng, x, 0, n);
    for (int64_t i = 0; i < n; i++) x[i] *= (float)deviation;
}

static arrays arrays_new(int64_t n)
{
    arrays a;
    float **all[] = { &a.p, &a.g, &a.m, &a.v, &a.ema };
    for (int i = 0; i < 5; i++) *all[i] = kd_alloc((size_t)n * sizeof(float));
    random_fill(a.p, n, 1, 1);
    return a;
}

static void arrays_free(arrays *a) { kd_free(a->p), kd_free(a->g), kd_free(a->m), kd_free(a->v), kd_free(a->ema); }

static void run(t_run *t, kd_flat_node *o)
{
    kd_err err = { 0 };
    void *scratch = kd_alloc(t->be->scratch(t->be, &o->node) + 1);
    t_check(t, !t->be->run(t->be, &o->node, scratch, &err), "%s", err.msg);
    kd_free(scratch);
}

/// What the rules are told, and the state in double.
typedef struct rule { const char *what; bool adamw, nesterov, ema; double momentum; } rule;
typedef struct state { double p, m, v, ema; } state;
static const double LR = 3e-2, WD = .1, CLIP = .7, BETA1 = .9, BETA2 = .999, EPS = 1e-8;

static void step_in_double(const rule *k, state *s, double g, int step, double decay)
{
    g *= CLIP;
    if (k->adamw) {
        s->p *= 1 - LR * WD;
        s->m = BETA1 * s->m + (1 - BETA1) * g;
        s->v = BETA2 * s->v + (1 - BETA2) * g * g;
        s->p -= LR / (1 - pow(BETA1, step)) * s->m / (sqrt(s->v) / sqrt(1 - pow(BETA2, step)) + EPS);
    } else {
        g += WD * s->p;
        s->m = step == 1 ? g : k->momentum * s->m + g;
        s->p -= LR * (k->nesterov ? g + k->momentum * s->m : s->m);
    }
    s->ema = decay * s->ema + (1 - decay) * s->p;
}

static void try_rule(t_run *t, const rule *k, int64_t n, arrays *a)
{
    state *s = kd_alloc((size_t)n * sizeof *s);
    double *want = kd_alloc((size_t)n * sizeof *want);
    for (int64_t i = 0; i < n; i++) s[i].p = a->p[i];
    for (int step = 1; step <= STEPS; step++) {
        const double decay = step == 1 ? 0 : step == 2 ? .4 : .99;
        const kd_step how = { step, LR, WD, CLIP, decay };
        kd_flat_node o;
        random_fill(a->g, n, 10 + (uint32_t)step, .1);
        for (int64_t i = 0; i < n; i++) step_in_double(k, &s[i], a->g[i], step, decay);
        float *ema = k->ema ? a->ema : NULL, *m = k->adamw || k->momentum > 0 ? a->m : NULL;
        if (k->adamw) kd_adamw_node(&o, n, a->p, a->g, m, a->v, ema, &how, BETA1, BETA2, EPS);
        else kd_sgd_node(&o, n, a->p, a->g, m, ema, &how, k->momentum, k->nesterov);
        run(t, &o);
        if (step == 1 && ema) t_check(t, !memcmp(a->p, a->ema, (size_t)n * sizeof(float)), "%s: decay 0 is not a copy", k->what);
    }
    for (int64_t i = 0; i < n; i++) want[i] = s[i].p;
    t_close(t, k->what, a->p, want, n, 5e-7);
    for (int64_t i = 0; i < n; i++) want[i] = s[i].m;
    if (k->adamw || k->momentum > 0) t_close(t, "m", a->m, want, n, 5e-7);
    for (int64_t i = 0; i < n; i++) want[i] = s[i].v;
    if (k->adamw) t_close(t, "v", a->v, want, n, 5e-7);              // from 0 by thousandths
    for (int64_t i = 0; i < n; i++) want[i] = s[i].ema;
    if (k->ema) t_close(t, "ema", a->ema, want, n, 5e-7);
    kd_free(s);
    kd_free(want);
}

static void update_rules(t_run *t)
{
    static const rule rules[] = { { "adamw", true, false, true, 0 }, { "adamw without ema", true, false, false, 0 },
                                  { "sgd", false, false, true, 0 }, { "momentum", false, false, true, .9 },
                                  { "nesterov", false, true, true, .9 } };
    for (int k = 0; k < 5; k++)
        for (int l = 0; l < LENGTHS; l++) {
            arrays a = arrays_new(lengths[l]), b = arrays_new(lengths[l]);
            kd_threads_set(1);
            try_rule(t, &rules[k], lengths[l], &a);
            kd_threads_set(3);
            try_rule(t, &rules[k], lengths[l], &b);
            t_check(t, !memcmp(a.p, b.p, (size_t)lengths[l] * sizeof(float)), "%s: threads change bits", rules[k].what);
            arrays_free(&a), arrays_free(&b);
        }
}

static void sums(t_run *t)
{
    for (int l = 0; l < LENGTHS; l++) {
        arrays a = arrays_new(lengths[l]);
        double want = 0, got[2] = { -1, -1 };
        kd_flat_node o;
        a.p[0] = 3e25f;                                              // its square is beyond float
        for (int64_t i = 0; i < lengths[l]; i++) want += (double)a.p[i] * a.p[i];
        for (int k = 0; k < 2; k++) {
            kd_threads_set(1 + 2 * k);
            kd_sum_squares_node(&o, lengths[l], a.p, &got[k]);
            run(t, &o);
        }
        t_check(t, fabs(got[0] / want - 1) < 1e-13, "sum_squares of %lld: %.17g, expected %.17g", (long long)lengths[l], got[0], want);
        t_check(t, !memcmp(&got[0], &got[1], sizeof got[0]), "sum_squares: threads change bits");
        random_fill(a.g, lengths[l], 2, 1);
        memcpy(a.m, a.p, (size_t)lengths[l] * sizeof(float));
        kd_accumulate_node(&o, lengths[l], a.m, a.g);
        run(t, &o);
        for (int64_t i = 0; i < lengths[l]; i++) t_check(t, a.m[i] == a.p[i] + a.g[i], "accumulate: element %lld", (long long)i);
        arrays_free(&a);
    }
}

KD_TEST_FN(optimizer_rules, update_rules)
KD_TEST_FN(optimizer_sums, sums)
