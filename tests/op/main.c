// build/test-op [NAME] [--case=K] [--cpu=base|avx2|avx512] [--device=NAME]: runs the tests of the other files in this folder.
// Prints one line per case, `ok` or `FAIL` with the line that repeats it, and last `N passed, N failed`. A device with "cpu" in
// its name computes with the CPU's kernels, and must give the CPU's bits.
#include "tests/op/test.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include "cpu/cpu.h"
#include "device/device.h"
#include <stdarg.h>
#include <stdlib.h>

static t_test *tests;

void t_register(t_test *test)                                       // kept in the order of names
{
    t_test **at = &tests;
    while (*at && strcmp((*at)->name, test->name) < 0) at = &(*at)->next;
    test->next = *at;
    *at = test;
}

void t_check(t_run *t, bool ok, const char *fmt, ...)
{
    if (ok || t->failed++) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->line, sizeof t->line, fmt, ap);
    va_end(ap);
}

void t_close(t_run *t, const char *what, const float *got, const double *want, int64_t n, double tol)
{
    double largest = 0, worst = -1;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        const double e = fabs(got[i] - want[i]);
        largest = fmax(largest, fabs(want[i]));
        if (!(e <= worst)) worst = e, at = i;
        if (isnan(e)) break;
    }
    t_check(t, n == 0 || worst <= tol * largest + 1e-30,
            "%s: element %lld: %.9g, expected %.9g (error %.2g of the largest, %.2g allowed)", what, (long long)at,
            (double)got[at], want[at], worst / largest, tol);
}

// Inputs -------------------------------------------------------------------------------------------------------------

/// x + 0: what goes in or comes out of the op is then neither an input nor bound, so that the plan may share its memory.
static kd_val *pass_on(kd_graph *g, kd_val *x) { return x ? kd_add(g, x, kd_const(g, "zero", x->shape, NULL)) : NULL; }

kd_val *t_input(t_build *b, int flags, kd_shape shape, t_dist dist)
{
    char name[8];
    const int k = b->n++;
    snprintf(name, sizeof name, "in%d", k);
    b->leaf[k] = b->val[k] = kd_input(b->g, name, dist.below ? KD_I64 : KD_F32, shape);
    b->flags[k] = flags, b->dist[k] = dist;
    if (b->in_place && !dist.below) b->val[k] = pass_on(b->g, b->leaf[k]);
    return b->val[k];
}

kd_val *t_rng(t_build *b)
{
    const int k = b->n++;
    b->leaf[k] = b->val[k] = kd_input(b->g, "rng", KD_U64, KD_SHAPE(2));
    b->flags[k] = T_DATA, b->dist[k] = (t_dist){ .rng = true };
    return b->val[k];
}

/// A function of the number k of the input and of the element alone, so that more images leave the first ones as they are.
static void *numbers(int k, t_dist dist, int64_t n)
{
    const kd_rng rng = kd_rng_of(T_SEED, KD_RNG_TEST, (uint32_t)k, 0, 0);
    float *x = kd_alloc((size_t)n * sizeof(int64_t) + 8);
    if (dist.rng) return memcpy(x, (const uint64_t[]){ T_SEED, T_STEP }, 2 * sizeof(uint64_t));
    if (dist.below) {
        for (int64_t i = 0; i < n; i++) ((int64_t *)(void *)x)[i] = kd_rng_u32(&rng, (uint64_t)i) % dist.below;
        return x;
    }
    kd_rng_normal(&rng, x, 0, n);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(dist.mean + dist.deviation * x[i]);
    return x;
}

// Running with guards ------------------------------------------------------------------------------------------------

enum { GUARD = 64, GUARD_BYTE = 0xff };                             // floats of this byte are NaN

/// GUARD bytes, n floats, GUARD bytes: on the backend, and what was read of them.
typedef struct result { kd_backend *be; char *there; float *block, *data; int64_t n; } result;

static size_t result_bytes(const result *r) { return (size_t)r->n * sizeof(float) + 2 * GUARD; }

static int result_clear(result *r, kd_err *err) { return r->be->fill(r->be, r->there, GUARD_BYTE, result_bytes(r), err); }
static int result_read(result *r, kd_err *err) { return r->be->download(r->be, r->block, r->there, result_bytes(r), err); }

/// Makes a result and binds v to it.
static int result_new(result *r, kd_backend *be, kd_val *v, kd_err *err)
{
    *r = (result){ .be = be, .n = kd_count(v) };
    r->block = kd_alloc(result_bytes(r));
    r->data = r->block + GUARD / sizeof(float);
    KD_TRY(be->alloc(be, (void **)&r->there, result_bytes(r), err));
    if (!v->bound) kd_bind(v, r->there + GUARD);
    return result_clear(r, err);
}

static void result_free(result *r)
{
    if (r->there) r->be->free(r->be, r->there);
    kd_free(r->block);
}

static bool guards_whole(const result *r)
{
    const unsigned char *a = (const void *)r->block, *b = (const void *)(r->data + r->n);
    for (int i = 0; i < GUARD; i++)
        if (a[i] != GUARD_BYTE || b[i] != GUARD_BYTE) return false;
    return true;
}

/// One evaluation: y, and the gradient of sum(y dy) for each input that has one.
typedef struct outcome {
    t_build b;
    void *in[KD_MAX_IN];
    result y, dx[KD_MAX_IN];
    float *dy;
    int64_t count[KD_MAX_IN];
} outcome;

static void outcome_free(outcome *o)
{
    for (int k = 0; k < KD_MAX_IN; k++) kd_free(o->in[k]), result_free(&o->dx[k]);
    kd_free(o->dy);
    result_free(&o->y);
}

static bool differentiable(const t_build *b, int k) { return !(b->flags[k] & T_DATA) && !b->dist[k].below; }

static int run_twice(t_run *t, outcome *o, kd_program *p, kd_val *dy_in, int n_out, result **out, kd_err *err)
{
    float *first[1 + KD_MAX_IN] = { 0 };
    for (int k = 0; k < o->b.n; k++) KD_TRY(kd_program_set(p, o->b.leaf[k], o->in[k], err));
    if (dy_in) KD_TRY(kd_program_set(p, dy_in, o->dy, err));
    KD_TRY(kd_program_run(p, err));
    for (int k = 0; k < n_out; k++) {
        const size_t bytes = (size_t)out[k]->n * sizeof(float);
        first[k] = kd_alloc(bytes + 1);
        KD_TRY(result_read(out[k], err));
        memcpy(first[k], out[k]->data, bytes);
        KD_TRY(result_clear(out[k], err));
    }
    KD_TRY(kd_program_run(p, err));
    for (int k = 0; k < n_out; k++) {
        KD_TRY(result_read(out[k], err));
        const bool same = !memcmp(first[k], out[k]->data, (size_t)out[k]->n * sizeof(float));
        t_check(t, same, "output %d: a second run gives other bits", k);
        t_check(t, guards_whole(out[k]), "output %d: bytes outside of it were written", k);
        kd_free(first[k]);
    }
    return 0;
}

/// How a case is run.
typedef struct way { const char *what; int threads; bool in_place, forward_only; } way;

static int evaluate(t_run *t, const int64_t *c, way w, outcome *o, kd_err *err)
{
    const t_op *op = &t->test->op;
    memset(o, 0, sizeof *o);
    kd_threads_set(w.threads);
    o->b = (t_build){ .g = kd_graph_new(), .c = c, .in_place = w.in_place };
    kd_scope_push(o->b.g, "layer");
    kd_val *y = op->build(&o->b), *wrt[KD_MAX_IN], *dx[KD_MAX_IN], *outs[1 + KD_MAX_IN], *dy = NULL;
    result *res[1 + KD_MAX_IN];
    int n = 0, input[KD_MAX_IN], n_out = 0;
    KD_TRY(kd_graph_error(o->b.g, err));
    for (int k = 0; k < o->b.n; k++) {
        o->count[k] = kd_count(o->b.leaf[k]);
        o->in[k] = numbers(k, o->b.dist[k], o->count[k]);
        if (differentiable(&o->b, k) && !w.forward_only) wrt[n] = o->b.val[k], input[n++] = k;
    }
    KD_TRY(kd_graph_error(o->b.g, err));
    if (n) {
        o->dy = numbers(99, NORMAL(0, 1), kd_count(y));
        dy = kd_input(o->b.g, "dy", KD_F32, y->shape);
        kd_grad(o->b.g, y, w.in_place ? pass_on(o->b.g, dy) : dy, wrt, n, dx);
        for (int i = 0; i < n && w.in_place; i++) dx[i] = pass_on(o->b.g, dx[i]);
    }
    if (w.in_place) y = pass_on(o->b.g, y);
    KD_TRY(kd_graph_error(o->b.g, err));
    KD_TRY(result_new(&o->y, t->be, y, err));
    outs[n_out] = y, res[n_out++] = &o->y;
    for (int i = 0; i < n; i++) {
        t_check(t, dx[i] != NULL, "input %d: no gradient", input[i]);
        if (!dx[i] || dx[i] == dy) continue;
        // Two inputs may have one value as their gradient (add): then it is bound once and copied below.
        const bool again = dx[i]->bound;
        KD_TRY(result_new(&o->dx[input[i]], t->be, dx[i], err));
        if (again) continue;
        outs[n_out] = dx[i], res[n_out++] = &o->dx[input[i]];
    }
    kd_program *p = NULL;
    KD_TRY(kd_program_new(&p, o->b.g, t->be, outs, n_out, err));
    int rc = run_twice(t, o, p, dy, n_out, res, err);
    for (int i = 0; i < n && !rc; i++) {
        result *d = &o->dx[input[i]];
        if (dx[i] == dy) {                                          // the gradient is dy itself
            *d = (result){ .n = o->count[input[i]], .block = kd_alloc((size_t)o->count[input[i]] * sizeof(float) + 1) };
            d->data = d->block;
            memcpy(d->data, o->dy, (size_t)d->n * sizeof(float));
        } else if (dx[i] && (char *)dx[i]->data != d->there + GUARD)
            rc = t->be->download(t->be, d->data, dx[i]->data, (size_t)d->n * sizeof(float), err);
    }
    kd_program_free(p);
    return rc;
}

// Comparing ----------------------------------------------------------------------------------------------------------

/// Same bits (but for the sign of a zero) in y and all dx; of image 0 alone if images > 0: then o has more than base.
static void compare(t_run *t, const outcome *base, const outcome *o, const char *what, int64_t images)
{
    for (int k = -1; k < base->b.n; k++) {
        const result *a = k < 0 ? &base->y : &base->dx[k], *b = k < 0 ? &o->y : &o->dx[k];
        if (!a->block || !b->block) continue;
        int64_t n = a->n;
        if (images && (k < 0 ? t->test->op.shared_y : !(base->b.flags[k] & T_IMAGES))) continue;
        if (images) n /= images;
        int64_t i = 0;
        while (i < n && (!memcmp(a->data + i, b->data + i, sizeof(float)) || (a->data[i] == 0 && b->data[i] == 0))) i++;
        t_check(t, i == n, "%s: %s%d element %lld has other bits: %.9g and %.9g", what,
                k < 0 ? "output " : "gradient of input ", k < 0 ? 0 : k, (long long)i, i < n ? (double)a->data[i] : 0,
                i < n ? (double)b->data[i] : 0);
    }
}

/// sum(y dy) in double precision, with the inputs as they are now.
static double value(const t_op *op, t_ref *r, const outcome *o)
{
    double sum = 0;
    op->ref(r);
    for (int64_t i = 0; i < o->y.n; i++) sum += r->y[i] * o->dy[i];
    return sum;
}

static void check_gradient(t_run *t, const outcome *o, t_ref *r, int k, double *x)
{
    const t_op *op = &t->test->op;
    const double h = 3e-5, tol = op->grad_tol ? op->grad_tol : 5e-6;
    const int64_t n = o->count[k], some = n < 48 ? n : 48;
    double largest = 0, along = 0, size = 0;
    const float *dx = o->dx[k].data;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)dx[i]));
    for (int64_t s = 0; s < some; s++) {
        const int64_t i = s * n / some;
        const double keep = x[i];
        x[i] = keep + h;
        const double up = value(op, r, o);
        x[i] = keep - h;
        const double slope = (up - value(op, r, o)) / (2 * h);
        x[i] = keep;
        t_check(t, fabs(slope - dx[i]) <= tol * fmax(largest, fabs(slope)) + 1e-7,
                "gradient of input %d: element %lld: %.9g, expected %.9g (largest %.3g)", k, (long long)i, (double)dx[i],
                slope, largest);
    }
    float *v = numbers(50 + k, NORMAL(0, 1), n);
    for (int64_t i = 0; i < n; i++) along += (double)dx[i] * v[i], size += fabs((double)dx[i] * v[i]), x[i] += h * v[i];
    const double up = value(op, r, o);
    for (int64_t i = 0; i < n; i++) x[i] -= 2 * h * v[i];
    const double slope = (up - value(op, r, o)) / (2 * h);
    for (int64_t i = 0; i < n; i++) x[i] += h * v[i];
    t_check(t, fabs(slope - along) <= tol * size + 1e-6 * fabs(slope) + 1e-7,
            "gradient of input %d along a direction: %.9g, expected %.9g", k, along, slope);
    kd_free(v);
}

static void check_reference(t_run *t, const outcome *o)
{
    const t_op *op = &t->test->op;
    double *in[KD_MAX_IN];
    t_ref r = { .c = o->b.c, .y = kd_alloc((size_t)o->y.n * sizeof(double) + 1) };
    for (int k = 0; k < o->b.n; k++) {
        in[k] = kd_alloc((size_t)o->count[k] * sizeof(double) + 1);
        const bool integers = o->b.dist[k].below || o->b.dist[k].rng;
        for (int64_t i = 0; i < o->count[k]; i++)
            in[k][i] = integers ? (double)((int64_t *)o->in[k])[i] : (double)((float *)o->in[k])[i];
        r.in[k] = in[k];
    }
    op->ref(&r);
    t_close(t, "output", o->y.data, r.y, o->y.n, op->tol ? op->tol : 1e-6);
    for (int k = 0; k < o->b.n; k++)
        if (o->dx[k].block) check_gradient(t, o, &r, k, in[k]);
    for (int k = 0; k < o->b.n; k++) kd_free(in[k]);
    kd_free(r.y);
}

/// The same case on the CPU itself must give the same bits.
static int compare_with_cpu(t_run *t, const int64_t *c, way w, const outcome *base, kd_err *err)
{
    outcome other = { 0 };
    kd_backend *const be = t->be;
    int rc = kd_cpu_open(&t->be, err);
    if (!rc) rc = evaluate(t, c, w, &other, err);
    if (!rc) compare(t, base, &other, "the CPU", 0);
    outcome_free(&other);
    kd_backend_close(t->be);
    t->be = be;
    return rc;
}

static int run_case(t_run *t, const int64_t *c, kd_err *err)
{
    outcome base, other;
    int64_t more[16];
    const way plain = { "two more images", 2, false, false };
    int rc = evaluate(t, c, plain, &base, err);
    if (!rc) check_reference(t, &base);
    if (!rc && t->cpu_bits) rc = compare_with_cpu(t, c, plain, &base, err);
    static const way ways[] = { { "one thread", 1, false, false }, { "in place, 3 threads", 3, true, false },
                                { "in place, no gradient", 2, true, true }, { "8 threads", 8, false, false } };
    for (int i = 0; i < 4 && !rc; i++) {
        rc = evaluate(t, c, ways[i], &other, err);
        if (!rc) compare(t, &base, &other, ways[i].what, 0);
        outcome_free(&other);
    }
    memcpy(more, c, (size_t)t->test->width * sizeof *c);
    more[0] += 2;
    if (!rc) {
        rc = evaluate(t, more, plain, &other, err);
        if (!rc) compare(t, &base, &other, plain.what, c[0]);
        outcome_free(&other);
    }
    outcome_free(&base);
    return rc;
}

int t_run_graph(t_run *t, kd_graph *g, kd_val *const *in, const void *const *data, int n_in, kd_val *const *out,
                float *const *to, int n_out)
{
    kd_err err = { 0 };
    kd_program *p = NULL;
    int rc = kd_program_new(&p, g, t->be, out, n_out, &err);
    for (int k = 0; k < n_in && !rc; k++) rc = kd_program_set(p, in[k], data[k], &err);
    if (!rc) rc = kd_program_run(p, &err);
    for (int k = 0; k < n_out && !rc; k++) rc = kd_program_get(p, out[k], to[k], &err);
    t_check(t, !rc, "%s", err.msg);
    kd_program_free(p);
    return rc;
}

// The program --------------------------------------------------------------------------------------------------------

static int passed, failed;

static void run_one(const t_test *test, int number, const char *cpu, const char *device)
{
    t_run t = { .cpu = cpu, .test = test, .number = number };
    snprintf(t.where, sizeof t.where, "%s%s%s", cpu, strcmp(device, "cpu") ? " on " : "", strcmp(device, "cpu") ? device : "");
    kd_err err = { 0 };
    if (!kd_device_open(&t.be, device, &err)) {
        t.cpu_bits = strcmp(device, "cpu") && strstr(t.be->name, "cpu");
        if (test->fn) test->fn(&t);
        else if (run_case(&t, test->cases + number * test->width, &err)) t_check(&t, false, "%s", err.msg);
        t.be->close(t.be);
    } else
        t_check(&t, false, "%s", err.msg);
    if (!t.failed) {
        printf("ok %s case %d (%s)\n", test->name, number, t.where);
        passed++;
        return;
    }
    printf("FAIL %s case %d (%s): %s\n     again: build/test-op %s --case=%d --cpu=%s --device=%s\n", test->name, number, t.where, t.line,
           test->name, number, cpu, device);
    failed++;
}

int main(int argc, char **argv)
{
    const char *name = NULL, *cpu = NULL, *device = "cpu", *sets[3];
    int only = -1;
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], "--case=", 7)) only = atoi(argv[i] + 7);
        else if (!strncmp(argv[i], "--cpu=", 6)) cpu = argv[i] + 6;
        else if (!strncmp(argv[i], "--device=", 9)) device = argv[i] + 9;
        else name = argv[i];
    const int n = kd_cpu_sets(sets);
    for (const t_test *test = tests; test; test = test->next)
        for (int k = 0; k < test->n; k++)
            for (int s = 0; s < n; s++) {
                if (name && strcmp(name, test->name)) continue;
                if ((only >= 0 && only != k) || (cpu && strcmp(cpu, sets[s]))) continue;
                if (!cpu && strcmp(device, "cpu") && s < n - 1) continue;         // there the best set stands for all
                setenv("KD_CPU", sets[s], 1);
                run_one(test, k, sets[s], device);
            }
    if (!passed && !failed) fprintf(stderr, "test-op: no such test\n");
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
