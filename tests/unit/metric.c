// Distances between sets of feature vectors: golden values of clean-fid, pytorch-fid and k-diffusion, closed forms, and plain
// loops in double written here.
#include "base/random.h"
#include "metric/fid.h"
#include "metric/kid.h"
#include "metric/neighbours.h"
#include "tests/support/golden.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/// Two sets of features and their moments.
struct pair { float *f[2]; kd_matrix rows[2]; double *mu[2], *cov[2]; kd_gauss g[2]; };

static void measure(struct pair *p)
{
    kd_err err = {0};
    for (int s = 0; s < 2; s++) {
        const int64_t d = p->rows[s].d;
        p->mu[s] = malloc((size_t)d * sizeof(double)), p->cov[s] = malloc((size_t)(d * d) * sizeof(double));
        assert_int_equal(kd_moments_of(&p->rows[s], p->mu[s], p->cov[s], &err), 0);
        p->g[s] = (kd_gauss){ p->rows[s].n, d, p->mu[s], p->cov[s] };
    }
}

static struct pair pair_of(const kd_frame *f, const char *name)
{
    struct pair p = {0};
    for (int s = 0; s < 2; s++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%c", name, "xy"[s]);
        p.f[s] = golden_f32(f, key, NULL);
        const kd_shape shape = kd_frame_get(f, key)->shape;
        p.rows[s] = (kd_matrix){ p.f[s], shape.d[0], shape.d[1], NULL };
    }
    measure(&p);
    return p;
}

// Normal features of the given means and deviations.
static struct pair pair_random(int64_t nx, int64_t ny, int64_t d, double shift, double scale)
{
    struct pair p = {0};
    const int64_t n[2] = { nx, ny };
    for (int s = 0; s < 2; s++) {
        const kd_rng rng = kd_rng_of(5, KD_RNG_TEST, (uint32_t)s, 0, 0);
        p.f[s] = malloc((size_t)(n[s] * d) * sizeof(float));
        kd_rng_normal(&rng, p.f[s], 0, n[s] * d);
        for (int64_t i = 0; s && i < n[s] * d; i++) p.f[s][i] = (float)(p.f[s][i] * scale + shift);
        p.rows[s] = (kd_matrix){ p.f[s], n[s], d, NULL };
    }
    measure(&p);
    return p;
}

static void pair_free(struct pair *p)
{
    for (int s = 0; s < 2; s++) free(p->f[s]), free(p->mu[s]), free(p->cov[s]);
}

static void near(const char *what, double got, double want, double allowed)
{
    if (!(fabs(got - want) <= allowed * fabs(want))) fail_msg("%s: %.12g, expected %.12g", what, got, want);
}

static double golden_number(const kd_frame *f, const char *name, const char *key)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, key);
    double *x = golden_f64(f, full, NULL), value = *x;
    free(x);
    return value;
}

static double fid(const kd_gauss *a, const kd_gauss *b, double ridge)
{
    kd_err err = {0};
    kd_fid f;
    if (kd_fid_of(&f, a, b, ridge, &err)) fail_msg("%s", err.msg);
    return f.value;
}

static const char *const cases[] = { "d8", "d8_equal", "d64", "rank_deficient", "half_rounding" };

static void test_fid_golden(void **state)
{
    (void)state;
    kd_frame *f = golden_load("fid");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct pair p = pair_of(f, cases[k]);
        near(cases[k], fid(&p.g[0], &p.g[1], 0), golden_number(f, cases[k], "cleanfid_fid"), 1e-6);
        near(cases[k], fid(&p.g[0], &p.g[1], 0), golden_number(f, cases[k], "pytorch_fid_fid"), 1e-6);
        near(cases[k], fid(&p.g[0], &p.g[1], 1e-8), golden_number(f, cases[k], "fid"), 1e-6);     // k-diffusion's 1e-8 I
        near(cases[k], fid(&p.g[1], &p.g[0], 0), fid(&p.g[0], &p.g[1], 0), 1e-9);
        pair_free(&p);
    }
    kd_frame_free(f);
}

static void test_kid_golden(void **state)
{
    (void)state;
    static const struct { const char *name, *key; int64_t most; } parts[] = {
        { "d8", "kid.max5000", 5000 }, { "d8", "kid.max150", 150 }, { "d8_equal", "kid.max5000", 5000 }, { "d8_equal", "kid.max100", 100 },
        { "d64", "kid.max5000", 5000 }, { "d64", "kid.max700", 700 }, { "rank_deficient", "kid.max5000", 5000 },
        { "half_rounding", "kid.max20", 20 }, { "d8_equal", "cleanfid_kid", 300 } };
    kd_frame *f = golden_load("fid");
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        struct pair p = pair_of(f, parts[k].name);
        kd_err err = {0};
        double kid;
        assert_int_equal(kd_kid_partitions(&kid, &p.rows[0], &p.rows[1], parts[k].most, &err), 0);
        near(parts[k].key, kid, golden_number(f, parts[k].name, parts[k].key), 1e-6);
        pair_free(&p);
    }
    kd_frame_free(f);
}

static void test_kid_subsets(void **state)
{
    (void)state;
    struct pair p = pair_random(700, 500, 8, 0.2, 1.1);
    kd_err err = {0};
    double all, kid, deviation, again;
    int64_t size = 1000;
    assert_int_equal(kd_kid_of(&all, &p.rows[0], &p.rows[1], &err), 0);
    assert_int_equal(kd_kid_subsets(&kid, &deviation, &p.rows[0], &p.rows[1], 100, &size, 1, &err), 0);
    assert_int_equal(size, 500);                              // no set can give more
    assert_true(deviation > 0 && fabs(kid - all) < 4 * deviation / 10 + 0.2 * fabs(all));
    size = 100;
    assert_int_equal(kd_kid_subsets(&kid, &deviation, &p.rows[0], &p.rows[1], 400, &size, 1, &err), 0);
    assert_true(fabs(kid - all) < 4 * deviation / 20);        // unbiased
    // Another order of arrival, undone by `at`, is the same numbers.
    const int64_t d = p.rows[1].d, n = p.rows[1].n;
    float *moved = malloc((size_t)(n * d) * sizeof *moved);
    int64_t *at = malloc((size_t)n * sizeof *at);
    for (int64_t i = 0; i < n; i++) {
        at[i] = (int64_t)kd_permute(3, 0, (uint64_t)n, (uint64_t)i);
        memcpy(moved + at[i] * d, p.f[1] + i * d, (size_t)d * sizeof *moved);
    }
    assert_int_equal(kd_kid_subsets(&again, &deviation, &p.rows[0], &(kd_matrix){ moved, n, d, at }, 400, &size, 1, &err), 0);
    assert_true(again == kid);
    free(moved), free(at);
    size = 2;
    kd_matrix few = { p.f[0], 1, 8, NULL };
    assert_int_equal(kd_kid_subsets(&kid, &deviation, &few, &p.rows[1], 4, &size, 1, &err), KD_EUSAGE);
    pair_free(&p);
}

// Unbiased, in plain loops. at: rows of each set, or NULL
static double plain_kid(const kd_matrix *x, const kd_matrix *y, const int64_t *at[2], const int64_t n[2])
{
    const kd_matrix *r[2] = { x, y };
    double sum[2][2] = {{0}};
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++)
            for (int64_t i = 0; i < n[a]; i++)
                for (int64_t j = 0; j < n[b]; j++) {
                    const float *u = kd_row(r[a], at ? at[a][i] : i), *v = kd_row(r[b], at ? at[b][j] : j);
                    double dot = 0;
                    for (int64_t c = 0; c < x->d; c++) dot += (double)u[c] * v[c];
                    if (a != b || i != j) sum[a][b] += pow(dot / (double)x->d + 1, 3);
                }
    const double nx = (double)n[0], ny = (double)n[1];
    return sum[0][0] / (nx * (nx - 1)) + sum[1][1] / (ny * (ny - 1)) - (sum[0][1] + sum[1][0]) / (nx * ny);
}

// 2048 features of a mean like Inception's: products in single precision would leave six digits of the kernel, and none or one of
// the small difference that KID is.
static void test_kid_digits(void **state)
{
    (void)state;
    struct pair p = pair_random(90, 70, 2048, 0, 1);
    for (int64_t i = 0; i < 90 * 2048; i++) p.f[0][i] = fabsf(p.f[0][i]) * 0.4f;
    for (int64_t i = 0; i < 70 * 2048; i++) p.f[1][i] = fabsf(p.f[1][i]) * 0.4f;
    kd_err err = {0};
    double kid;
    const int64_t n[2] = { 90, 70 };
    assert_int_equal(kd_kid_of(&kid, &p.rows[0], &p.rows[1], &err), 0);
    const double want = plain_kid(&p.rows[0], &p.rows[1], NULL, n);
    if (!(fabs(want) < 1e-3 && fabs(kid - want) < 1e-13)) fail_msg("%.15g, expected %.15g", kid, want);
    pair_free(&p);
}

// Subsets that share products, and few of large sets, each by itself: both against plain loops over the rows that are drawn.
static void test_kid_subsets_plain(void **state)
{
    (void)state;
    enum { SIZE = 20 };
    struct pair p = pair_random(100, 90, 5, 0.2, 1.1);
    kd_err err = {0};
    static const int64_t times[] = { 2, 12, 40 };             // all pairs are as many as 22 subsets'
    for (int k = 0; k < 3; k++) {
        double sum = 0, squares = 0, kid, deviation;
        for (int64_t t = 0; t < times[k]; t++) {
            int64_t at[2][SIZE], size[2] = { SIZE, SIZE };
            for (int i = 0; i < 2 * SIZE; i++)
                at[i / SIZE][i % SIZE] = (int64_t)kd_permute(3, (uint64_t)(2 * t + i / SIZE), i < SIZE ? 100 : 90, (uint64_t)(i % SIZE));
            const double v = plain_kid(&p.rows[0], &p.rows[1], (const int64_t *[2]){ at[0], at[1] }, size);
            sum += v, squares += v * v;
        }
        const double mean = sum / (double)times[k];
        int64_t size = SIZE;
        assert_int_equal(kd_kid_subsets(&kid, &deviation, &p.rows[0], &p.rows[1], times[k], &size, 3, &err), 0);
        near("mean over subsets", kid, mean, 1e-10);
        near("deviation", deviation, sqrt(squares / (double)times[k] - mean * mean), 1e-8);
    }
    pair_free(&p);
}

// Diagonal covariances commute: FID = sum (mu_a - mu_b)^2 + (s_a - s_b)^2. Turned by a reflection they are full matrices.
static void test_fid_closed_form(void **state)
{
    (void)state;
    enum { D = 37 };
    static double mu[2][D], cov[2][D * D], h[D * D];
    double want = 0, length = 0;
    for (int i = 0; i < D; i++) length += (i + 1.0) * (i + 1.0);
    for (int i = 0; i < D * D; i++) h[i] = (i / D == i % D) - 2 * (i / D + 1.0) * (i % D + 1.0) / length;
    for (int i = 0; i < D; i++) {
        const double a = i % 5 ? pow(10, i % 7 - 4) : 0, b = i % 3 ? 0.3 * i : 0, m = sin(i);      // with directions of no spread
        mu[0][i] = m, mu[1][i] = m + 0.1 * i;
        want += 0.01 * i * i + (a - b) * (a - b);
        for (int j = 0; j < D * D; j++) {
            cov[0][j] += a * a * h[j / D * D + i] * h[j % D * D + i];
            cov[1][j] += b * b * h[j / D * D + i] * h[j % D * D + i];
        }
    }
    const kd_gauss a = { 0, D, mu[0], cov[0] }, b = { 0, D, mu[1], cov[1] };
    near("closed form", fid(&a, &b, 0), want, 1e-6);
    near("equal covariances", fid(&a, &(kd_gauss){ 0, D, mu[1], cov[0] }, 0), 0.01 * 36 * 37 * 73 / 6, 1e-12);
    static double none[D * D];
    double trace = 0;
    for (int i = 0; i < D; i++) trace += cov[0][i * D + i];
    near("a single point", fid(&a, &(kd_gauss){ 0, D, mu[0], none }, 0), trace, 1e-12);
    assert_true(fid(&(kd_gauss){ 0, D, mu[0], none }, &(kd_gauss){ 0, D, mu[0], none }, 0) == 0);
    kd_err err = {0};
    kd_fid f;
    cov[1][0] -= 100;
    assert_int_equal(kd_fid_of(&f, &a, &b, 0, &err), KD_EFORMAT);
    assert_string_equal(err.msg, "covariance is not positive semidefinite");
    err = (kd_err){0};
    mu[1][3] = NAN;
    assert_int_equal(kd_fid_of(&f, &a, &b, 0, &err), KD_EFORMAT);
    err = (kd_err){0};
    assert_int_equal(kd_fid_of(&f, &a, &(kd_gauss){ 0, 3, mu[0], cov[0] }, 0, &err), KD_EUSAGE);
}

// |FID(x, x)| < 1e-6, also for fewer rows than dimensions, constant columns, large means.
static void test_fid_self(void **state)
{
    (void)state;
    static const struct { int64_t n, d; double shift; } sets[] = { { 2, 1, 0 }, { 2, 64, 3 }, { 63, 64, 0 }, { 64, 64, 0 }, { 65, 64, 100 },
                                                                   { 1000, 64, 0 }, { 300, 300, 10 } };
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        struct pair p = pair_random(sets[k].n, sets[k].n, sets[k].d, sets[k].shift, 1);
        for (int64_t i = 0; i < sets[k].n; i++) p.f[1][i * sets[k].d] = 7;
        kd_matrix back = p.rows[1];
        int64_t *at = malloc((size_t)back.n * sizeof *at);
        for (int64_t i = 0; i < back.n; i++) at[i] = back.n - 1 - i;
        back.at = at;
        const size_t d = (size_t)back.d;
        double *m = malloc(2 * d * sizeof *m), *c = malloc(2 * d * d * sizeof *c);
        kd_err err = {0};
        assert_int_equal(kd_moments_of(&p.rows[1], m, c, &err), 0);
        assert_int_equal(kd_moments_of(&back, m + d, c + d * d, &err), 0);
        const kd_gauss a = { back.n, back.d, m, c }, b = { back.n, back.d, m + d, c + d * d };
        if (!(fabs(fid(&a, &a, 0)) < 1e-6)) fail_msg("n %d d %d: FID(x, x) = %g", (int)back.n, (int)d, fid(&a, &a, 0));
        if (!(fabs(fid(&a, &b, 0)) < 1e-6)) fail_msg("n %d d %d: FID(x, x backwards) = %g", (int)back.n, (int)d, fid(&a, &b, 0));
        free(at), free(m), free(c), pair_free(&p);
    }
}

static void test_moments(void **state)
{
    (void)state;
    enum { N = 1500, D = 5 };
    struct pair p = pair_random(N, 2, D, 0, 1);
    for (int i = 0; i < N * D; i++) p.f[0][i] = p.f[0][i] * 1e-2f + 1000;           // a second moment would have no digits left
    double mean[D] = {0}, cov[D * D] = {0}, mu[3][D], c[3][D * D];
    for (int i = 0; i < N * D; i++) mean[i % D] += p.f[0][i] / (double)N;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < D * D; j++)
            cov[j] += (p.f[0][i * D + j / D] - mean[j / D]) * (p.f[0][i * D + j % D] - mean[j % D]) / (N - 1);
    kd_err err = {0};
    static const int64_t sizes[] = { 1, 97, N };
    for (int k = 0; k < 3; k++) {
        kd_moments *m;
        assert_int_equal(kd_moments_new(&m, D, &err), 0);
        for (int64_t i = 0; i < N; i += sizes[k])
            assert_int_equal(kd_moments_add(m, p.f[0] + i * D, N - i < sizes[k] ? N - i : sizes[k], &err), 0);
        assert_int_equal(kd_moments_count(m), N);
        assert_int_equal(kd_moments_get(m, mu[k], c[k], &err), 0);
        assert_memory_equal(c[k], c[0], sizeof c[0]);
        assert_memory_equal(mu[k], mu[0], sizeof mu[0]);
        kd_moments_free(m);
    }
    for (int j = 0; j < D; j++) near("mean", mu[0][j], mean[j], 1e-14);
    for (int j = 0; j < D * D; j++) assert_true(fabs(c[0][j] - cov[j]) < 1e-9 * cov[0]);
    p.f[0][7] = NAN;
    assert_int_equal(kd_moments_of(&(kd_matrix){ p.f[0], N, D, NULL }, mu[0], c[0], &err), KD_EFAIL);
    assert_string_equal(err.msg, "value 2 of feature vector 1 is not a finite number");
    err = (kd_err){0};
    assert_int_equal(kd_moments_of(&(kd_matrix){ p.f[1], 1, D, NULL }, mu[0], c[0], &err), KD_EUSAGE);
    pair_free(&p);
}

static double square(const float *a, const float *b, int64_t d)
{
    double sum = 0;
    for (int64_t i = 0; i < d; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sum;
}

static int order(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double radius(const kd_matrix *r, int64_t i, int64_t k)
{
    double *d = malloc((size_t)r->n * sizeof *d), result;
    for (int64_t j = 0; j < r->n; j++) d[j] = square(kd_row(r, i), kd_row(r, j), r->d);
    qsort(d, (size_t)r->n, sizeof *d, order);
    result = d[k];                                            // d[0] is the row itself
    free(d);
    return result;
}

static void test_coverage(void **state)
{
    (void)state;
    struct pair p = pair_random(300, 171, 9, 0.5, 0.8);
    const kd_matrix *x = &p.rows[0], *y = &p.rows[1];
    kd_coverage want = {0}, got;
    kd_err err = {0};
    for (int64_t i = 0; i < x->n; i++) {
        const double r = radius(x, i, 5);
        bool hit = false, in = false;
        for (int64_t j = 0; j < y->n; j++) {
            const double s = square(kd_row(x, i), kd_row(y, j), 9);
            want.density += (s < r) / 5.0 / (double)y->n;
            hit |= s < r;
            in |= s < radius(y, j, 5);
        }
        want.coverage += hit / (double)x->n;
        want.recall += in / (double)x->n;
    }
    for (int64_t j = 0; j < y->n; j++) {
        bool in = false;
        for (int64_t i = 0; i < x->n && !in; i++) in = square(kd_row(x, i), kd_row(y, j), 9) < radius(x, i, 5);
        want.precision += in / (double)y->n;
    }
    assert_int_equal(kd_coverage_of(&got, x, y, 5, &err), 0);
    near("precision", got.precision, want.precision, 1e-12);
    near("recall", got.recall, want.recall, 1e-12);
    near("density", got.density, want.density, 1e-12);
    near("coverage", got.coverage, want.coverage, 1e-12);
    assert_true(want.recall > 0.1 && want.recall < 0.9);
    assert_int_equal(kd_coverage_of(&got, x, x, 5, &err), 0);
    assert_true(got.precision == 1 && got.recall == 1 && got.coverage == 1);
    near("density of itself", got.density, 6.0 / 5, 1e-12);                        // k balls and the one whose edge a row is
    assert_int_equal(kd_coverage_of(&got, x, &(kd_matrix){ p.f[1], 5, 9, NULL }, 5, &err), KD_EUSAGE);
    pair_free(&p);
}

// Copies are in the balls of their equals: a set scores 1 against itself in any order, however often it repeats its rows.
static void test_coverage_of_copies(void **state)
{
    (void)state;
    static const struct { int64_t rows, copies, extra, d; double shift; } sets[] = {        // extra: more copies of the first row
        { 10, 7, 0, 3, 0 }, { 26, 1, 3, 16, 0 }, { 150, 2, 0, 33, 0 }, { 3, 50, 9, 1, 0 }, { 100, 3, 2, 64, 1000 }, { 1, 8, 0, 4, 5 } };
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        struct pair p = pair_random(sets[k].rows + 1, 2, sets[k].d, sets[k].shift, 1);
        const int64_t n = sets[k].rows * sets[k].copies + sets[k].extra;
        int64_t *at = malloc((size_t)n * sizeof *at), *back = malloc((size_t)n * sizeof *back);
        for (int64_t i = 0; i < n; i++) at[i] = i < n - sets[k].extra ? i % sets[k].rows : 0;
        for (int64_t i = 0; i < n; i++) back[i] = at[n - 1 - i];
        const kd_matrix x = { p.f[0], n, sets[k].d, at }, y = { p.f[0], n, sets[k].d, back };
        for (int64_t neighbours = 3; neighbours <= 5; neighbours++) {
            kd_coverage got;
            kd_err err = {0};
            assert_int_equal(kd_coverage_of(&got, &x, &y, neighbours, &err), 0);
            if (!(got.precision == 1 && got.recall == 1 && got.coverage == 1 && got.density >= 1))
                fail_msg("set %zu, k %d: %g %g %g %g", k, (int)neighbours, got.precision, got.recall, got.density, got.coverage);
        }
        free(at), free(back), pair_free(&p);
    }
}

static void test_inception_score(void **state)
{
    (void)state;
    float logits[40] = {0};
    double score, deviation;
    kd_err err = {0};
    for (int i = 0; i < 10; i++) logits[4 * i + i % 4] = 200;        // certain: classes 3, 3, 2, 2 of 10 rows
    assert_int_equal(kd_inception_score(&score, &deviation, &(kd_matrix){ logits, 10, 4, NULL }, 1, &err), 0);
    near("inception score", score, exp(-0.6 * log(0.3) - 0.4 * log(0.2)), 1e-12);
    assert_int_equal(kd_inception_score(&score, &deviation, &(kd_matrix){ logits, 8, 4, NULL }, 2, &err), 0);
    near("inception score", score, 4, 1e-12);
    assert_true(deviation < 1e-6);
    assert_int_equal(kd_inception_score(&score, &deviation, &(kd_matrix){ logits, 8, 4, NULL }, 9, &err), KD_EUSAGE);
}

// The deviation over resamplings is the deviation over fresh draws; the fit to infinitely many removes most of the bias.
static void test_spread(void **state)
{
    (void)state;
    enum { N = 400, D = 4 };
    kd_err err = {0};
    struct pair p = pair_random(N, N, D, 0.5, 1.2);
    double mean, deviation, again, value, slope, sum = 0, squares = 0;
    assert_int_equal(kd_fid_bootstrap(&mean, &deviation, &p.g[0], &p.rows[0], &p.g[1], &p.rows[1], 100, 1, &err), 0);
    assert_int_equal(kd_fid_bootstrap(&mean, &again, &p.g[0], &p.rows[0], &p.g[1], &p.rows[1], 100, 1, &err), 0);
    assert_true(again == deviation);
    for (int k = 0; k < 100; k++) {
        struct pair q = {0};
        for (int s = 0; s < 2; s++) {
            const kd_rng rng = kd_rng_of(6, KD_RNG_TEST, (uint32_t)s, (uint64_t)k, 0);
            q.f[s] = malloc(N * D * sizeof(float));
            kd_rng_normal(&rng, q.f[s], 0, N * D);
            for (int i = 0; s && i < N * D; i++) q.f[s][i] = q.f[s][i] * 1.2f + 0.5f;
            q.rows[s] = (kd_matrix){ q.f[s], N, D, NULL };
        }
        measure(&q);
        const double v = fid(&q.g[0], &q.g[1], 0);
        sum += v, squares += v * v;
        pair_free(&q);
    }
    const double fresh = sqrt((squares - sum * sum / 100) / 99);
    if (!(deviation > fresh / 1.5 && deviation < fresh * 1.5)) fail_msg("bootstrap %g, fresh draws %g", deviation, fresh);
    pair_free(&p);

    p = pair_random(20000, 600, 32, 0, 1);                     // the same distribution: truly 0
    assert_int_equal(kd_fid_infinite(&value, &slope, &p.g[0], &p.rows[1], 15, 1, &err), 0);
    const double biased = fid(&p.g[0], &p.g[1], 0);
    if (!(fabs(value) < biased / 2 && slope > 0)) fail_msg("infinite %g, of 600 %g", value, biased);
    assert_int_equal(kd_fid_infinite(&value, &slope, &p.g[0], &(kd_matrix){ p.f[1], 19, 32, NULL }, 15, 1, &err), KD_EUSAGE);
    pair_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fid_golden), cmocka_unit_test(test_kid_golden), cmocka_unit_test(test_kid_subsets),
        cmocka_unit_test(test_kid_digits), cmocka_unit_test(test_kid_subsets_plain),
        cmocka_unit_test(test_fid_closed_form), cmocka_unit_test(test_fid_self), cmocka_unit_test(test_moments),
        cmocka_unit_test(test_coverage), cmocka_unit_test(test_coverage_of_copies),
        cmocka_unit_test(test_inception_score), cmocka_unit_test(test_spread) };
    return cmocka_run_group_tests_name("metric", tests, NULL, NULL);
}
