// What samplers compute between model calls, against double precision rounded once: bit for bit on the CPU, to the last bits
// elsewhere. Lengths are around a tile (4096). Every array has guard elements before and behind it.
#include "op/vec.h"
#include "base/brownian.h"
#include "base/parallel.h"
#include "base/random.h"
#include "tests/op/test.h"
#include <float.h>
#include <stdlib.h>

static const int64_t lengths[] = { 1, 7, 4096, 9001 };
enum { LENGTHS = sizeof lengths / sizeof *lengths, GUARD = 16, VECTORS = 3 };

static void must(t_run *t, int code, const kd_err *err) { t_check(t, !code, "%s", err->msg); }

// Vectors on the backend -----------------------------------------------------------------------------------------------

/// n floats on the backend between two guards; `host` has the same numbers.
typedef struct vector { float *block, *at, *host; int64_t n; } vector;

static void vector_write(t_run *t, const vector *v)
{
    kd_err err = { 0 };
    must(t, t->be->upload(t->be, v->at, v->host, (size_t)v->n * sizeof *v->host, &err), &err);
}

static vector vector_new(t_run *t, int64_t n)
{
    const size_t bytes = (size_t)(n + 2 * GUARD) * sizeof(float);
    vector v = { .host = calloc((size_t)n, sizeof *v.host), .n = n };
    kd_err err = { 0 };
    must(t, t->be->alloc(t->be, (void **)&v.block, bytes, &err), &err);
    must(t, t->be->fill(t->be, v.block, 0xff, bytes, &err), &err);
    v.at = v.block + GUARD;
    return v;
}

static void vector_free(t_run *t, vector *v)
{
    t->be->free(t->be, v->block);
    free(v->host);
}

/// Numbers of very different size.
static void vector_fill(t_run *t, vector *v, uint32_t node)
{
    const kd_rng rng = kd_rng_of(T_SEED, KD_RNG_TEST, node, 0, 0);
    kd_rng_normal(&rng, v->host, 0, v->n);
    for (int64_t i = 0; i < v->n; i++) v->host[i] *= ldexpf(1, (int)(i * 5 % 23) - 11);
    vector_write(t, v);
}

/// v is want on the backend, and its guards are as they were. size: of the terms that an element is the sum of.
static void expect(t_run *t, const char *what, const vector *v, const float *want, const double *size)
{
    const size_t bytes = (size_t)(v->n + 2 * GUARD) * sizeof(float);
    const bool exact = !strncmp(t->be->name, "cpu", 3);
    float *got = malloc(bytes);
    unsigned char guard[GUARD * sizeof(float)];
    kd_err err = { 0 };
    must(t, t->be->download(t->be, got, v->block, bytes, &err), &err);
    memset(guard, 0xff, sizeof guard);
    const bool outside = memcmp(got, guard, sizeof guard) || memcmp(got + GUARD + v->n, guard, sizeof guard);
    t_check(t, !outside, "%s: elements outside were written", what);
    for (int64_t i = 0; i < v->n; i++) {
        const float g = got[GUARD + i], w = want[i];
        const bool same = !memcmp(&g, &w, sizeof g) || (isnan(g) && isnan(w)) || (!exact && g == w);
        const bool near = !exact && size && fabs((double)g - w) <= 1.2e-7 * size[i];
        t_check(t, same || near, "%s: element %lld of %lld: %.9g, expected %.9g", what, (long long)i, (long long)v->n, (double)g,
                (double)w);
    }
    free(got);
}

// Sums -----------------------------------------------------------------------------------------------------------------

static const double A = 1.2345678901234567, B = -0.007654321098765;

/// ref computes an element of the sum, size the sum of its terms' absolute values.
typedef struct sum {
    const char *what;
    int vectors;
    int (*run)(kd_vec *v, int64_t n, float *out, vector *const *x, kd_err *err);
    double (*ref)(const double *x);
    double (*size)(const double *x);
} sum;

static int run_mix(kd_vec *v, int64_t n, float *out, vector *const *x, kd_err *err)
{
    return kd_vec_mix(v, n, out, A, x[0]->at, B, x[1]->at, err);
}
static double ref_mix(const double *x) { return A * x[0] + B * x[1]; }
static double size_mix(const double *x) { return fabs(A * x[0]) + fabs(B * x[1]); }

static int run_advance(kd_vec *v, int64_t n, float *out, vector *const *x, kd_err *err)
{
    return kd_vec_advance(v, n, out, x[0]->at, A, x[1]->at, B, x[2]->at, err);
}
static double ref_advance(const double *x) { return x[0] + A * x[1] + B * (x[2] - x[1]); }
static double size_advance(const double *x) { return fabs(x[0]) + fabs(A * x[1]) + fabs(B * x[2]) + fabs(B * x[1]); }

static int run_advance_2(kd_vec *v, int64_t n, float *out, vector *const *x, kd_err *err)
{
    return kd_vec_advance(v, n, out, x[0]->at, A, x[1]->at, NAN, NULL, err);        // b has no part in it
}
static double ref_advance_2(const double *x) { return x[0] + A * x[1]; }
static double size_advance_2(const double *x) { return fabs(x[0]) + fabs(A * x[1]); }

static int run_extrapolate(kd_vec *v, int64_t n, float *out, vector *const *x, kd_err *err)
{
    return kd_vec_extrapolate(v, n, out, x[0]->at, A, x[1]->at, err);
}
static double ref_extrapolate(const double *x) { return x[0] + A * (x[1] - x[0]); }
static double size_extrapolate(const double *x) { return fabs(x[0]) + fabs(A * x[0]) + fabs(A * x[1]); }

static const sum sums_of[] = { { "mix", 2, run_mix, ref_mix, size_mix },
                               { "advance", 3, run_advance, ref_advance, size_advance },
                               { "advance without f", 2, run_advance_2, ref_advance_2, size_advance_2 },
                               { "extrapolate", 2, run_extrapolate, ref_extrapolate, size_extrapolate } };
enum { SUMS = sizeof sums_of / sizeof *sums_of };

/// over: the number of the vector that the result is written over; -1: none.
static void try_sum(t_run *t, kd_vec *v, const sum *s, int64_t n, int over)
{
    vector x[VECTORS], out = vector_new(t, n), *in[VECTORS];
    float *want = malloc((size_t)n * sizeof *want);
    double *size = malloc((size_t)n * sizeof *size);
    char what[64];
    kd_err err = { 0 };
    for (int k = 0; k < VECTORS; k++) {
        x[k] = vector_new(t, n), in[k] = &x[k];
        vector_fill(t, &x[k], (uint32_t)k);
    }
    for (int64_t i = 0; i < n; i++) {
        const double at[VECTORS] = { x[0].host[i], x[1].host[i], x[2].host[i] };
        want[i] = (float)s->ref(at), size[i] = s->size(at);
    }
    snprintf(what, sizeof what, over < 0 ? "%s" : "%s over vector %d", s->what, over);
    const vector *to = over < 0 ? &out : &x[over];
    must(t, s->run(v, n, to->at, in, &err), &err);
    expect(t, what, to, want, size);
    for (int k = 0; k < VECTORS; k++)
        if (k != over) expect(t, "an input", &x[k], x[k].host, NULL);
    for (int k = 0; k < VECTORS; k++) vector_free(t, &x[k]);
    vector_free(t, &out);
    free(want), free(size);
}

static void sums(t_run *t)
{
    kd_vec v = { .be = t->be };
    for (int threads = 1; threads <= 3; threads += 2)
        for (int k = 0; k < SUMS; k++)
            for (int l = 0; l < LENGTHS; l++)
                for (int over = -1; over < sums_of[k].vectors && !t->failed; over++) {
                    kd_threads_set(threads);
                    try_sum(t, &v, &sums_of[k], lengths[l], over);
                }
    kd_vec_free(&v);
}

// Choices --------------------------------------------------------------------------------------------------------------

/// NaN remains, infinities are limited, and limits are rounded to float.
static void clamp(t_run *t)
{
    static const double limits[][2] = { { -1, 1 }, { -0.1, 0.3 }, { 0, INFINITY }, { -2, -0.5 } };
    static const float special[] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1, -1, 1e-45f, 3.4e38f, 0.1f, -0.1f, 0.3f };
    enum { SPECIAL = sizeof special / sizeof *special };
    kd_vec v = { .be = t->be };
    kd_err err = { 0 };
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++)
        for (int l = 0; l < LENGTHS; l++) {
            const int64_t n = lengths[l];
            vector x = vector_new(t, n);
            float *want = malloc((size_t)n * sizeof *want);
            vector_fill(t, &x, 5);
            for (int64_t i = 0; i < n; i++) {
                if (i % 3 == 0) x.host[i] = special[i / 3 % SPECIAL];
                want[i] = x.host[i];
                if (want[i] < limits[k][0]) want[i] = (float)limits[k][0];
                if (want[i] > limits[k][1]) want[i] = (float)limits[k][1];
            }
            vector_write(t, &x);
            must(t, kd_vec_clamp(&v, n, x.at, limits[k][0], limits[k][1], &err), &err);
            expect(t, "clamp", &x, want, NULL);
            vector_free(t, &x);
            free(want);
        }
    kd_vec_free(&v);
}

/// What the mask hides has no part in the result, even if it is NaN.
static void keep(t_run *t)
{
    kd_vec v = { .be = t->be };
    kd_err err = { 0 };
    for (int l = 0; l < LENGTHS; l++) {
        const int64_t n = lengths[l];
        vector x = vector_new(t, n), known = vector_new(t, n), mask = vector_new(t, n);
        float *want = malloc((size_t)n * sizeof *want);
        vector_fill(t, &x, 6), vector_fill(t, &known, 7);
        for (int64_t i = 0; i < n; i++) {
            static const float masks[] = { 0, 1, -0.0f, 1e-45f, -2 };
            mask.host[i] = masks[i % 5];
            if (i % 7 == 3) (mask.host[i] == 0 ? x : known).host[i] = NAN;         // hidden
            want[i] = mask.host[i] == 0 ? known.host[i] : x.host[i];
        }
        vector_write(t, &x), vector_write(t, &known), vector_write(t, &mask);
        must(t, kd_vec_keep(&v, n, x.at, known.at, mask.at, &err), &err);
        expect(t, "keep", &x, want, NULL);
        expect(t, "known", &known, known.host, NULL);
        vector_free(t, &x), vector_free(t, &known), vector_free(t, &mask);
        free(want);
    }
    kd_vec_free(&v);
}

// Checks ---------------------------------------------------------------------------------------------------------------

/// The codes of n images, on the backend between guards: what they are, and what they must be.
static void expect_codes(t_run *t, const char *what, const int64_t *block, const int64_t *want, int64_t n)
{
    int64_t *got = malloc((size_t)(n + 2) * sizeof *got);
    kd_err err = { 0 };
    must(t, t->be->download(t->be, got, block, (size_t)(n + 2) * sizeof *got, &err), &err);
    t_check(t, got[0] == -1 && got[n + 1] == -1, "%s: codes outside were written", what);
    for (int64_t i = 0; i < n; i++)
        t_check(t, got[i + 1] == want[i], "%s: image %lld: code %lld, expected %lld", what, (long long)i, (long long)got[i + 1],
                (long long)want[i]);
    free(got);
}

/// Each number that is not within the limit, at the first, a middle and the last element of one image among others.
static void check_one(t_run *t, kd_vec *v, int64_t size, int64_t *block)
{
    enum { N = 5 };
    static const struct { float x; double limit; bool bad; } cases[] = {
        { NAN, 100, true }, { -NAN, FLT_MAX, true }, { INFINITY, FLT_MAX, true }, { -INFINITY, FLT_MAX, true },
        { FLT_MAX, FLT_MAX, false }, { -FLT_MAX, FLT_MAX, false }, { 100, 100, false }, { -100, 100, false },
        { 100.00001f, 100, true }, { -100.00001f, 100, true }, { 1e-45f, 0, true }, { -0.0f, 0, false } };
    kd_err err = { 0 };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int place = 0; place < 3; place++) {
            vector x = vector_new(t, N * size);
            int64_t codes[N + 2] = { -1, 0, 0, 0, 0, 0, -1 }, want[N] = { 0 };
            const int64_t image = (int64_t)k % N, at = place == 0 ? 0 : place == 1 ? size / 2 : size - 1;
            x.host[image * size + at] = cases[k].x;
            if (cases[k].bad) want[image] = 41;
            vector_write(t, &x);
            must(t, t->be->upload(t->be, block, codes, sizeof codes, &err), &err);
            must(t, kd_vec_check(v, N, size, block + 1, x.at, cases[k].limit, 41, &err), &err);
            expect_codes(t, "check", block, want, N);
            vector_free(t, &x);
        }
}

/// A code that is set already remains. Images are checked against all calls, whatever their number.
static void check_sticky(t_run *t, kd_vec *v, int64_t *block)
{
    enum { N = 5, SIZE = 3 };
    vector x = vector_new(t, N * SIZE);
    const int64_t codes[N + 2] = { -1, 0, 6, 0, 0, 0, -1 };
    kd_err err = { 0 };
    x.host[1 * SIZE] = NAN, x.host[2 * SIZE + 1] = INFINITY;
    vector_write(t, &x);
    must(t, t->be->upload(t->be, block, codes, sizeof codes, &err), &err);
    must(t, kd_vec_check(v, N, SIZE, block + 1, x.at, 10, 8, &err), &err);
    expect_codes(t, "first call", block, (const int64_t[N]){ 0, 6, 8, 0, 0 }, N);
    x.host[4 * SIZE + 2] = 11, x.host[2 * SIZE + 1] = 0;
    vector_write(t, &x);
    must(t, kd_vec_check(v, N, SIZE, block + 1, x.at, 10, 9, &err), &err);
    expect_codes(t, "second call", block, (const int64_t[N]){ 0, 6, 8, 0, 9 }, N);
    must(t, kd_vec_check(v, 2, SIZE, block + 4, x.at + 3 * SIZE, 10, 7, &err), &err);      // the last two images alone
    expect_codes(t, "third call", block, (const int64_t[N]){ 0, 6, 8, 0, 9 }, N);
    vector_free(t, &x);
}

static void check(t_run *t)
{
    kd_vec v = { .be = t->be };
    int64_t *block;
    kd_err err = { 0 };
    must(t, t->be->alloc(t->be, (void **)&block, 7 * sizeof *block, &err), &err);
    for (int threads = 1; threads <= 3; threads += 2)
        for (int l = 0; l < LENGTHS && !t->failed; l++) {
            kd_threads_set(threads);
            check_one(t, &v, lengths[l], block);
        }
    check_sticky(t, &v, block);
    t->be->free(t->be, block);
    kd_vec_free(&v);
}

// Noise ----------------------------------------------------------------------------------------------------------------

enum { RUN = 5, FIRST = 2, DRAWN = 3 };                 // of a run's 5 images, the last 3 are drawn for

static void noise(t_run *t)
{
    static const int64_t index[RUN] = { 9, 8, ((int64_t)1 << 40) - 1, 3, 3 };
    static const uint64_t rng[RUN][2] = { { 1, 0 }, { 2, 0 }, { 3, 0 }, { ~(uint64_t)0, 0 }, { 5, 0 } };
    static const kd_brownian_attr path = { .from = 3.5, .to = 0.7, .low = 0.02, .high = 20 };
    kd_vec v = { .be = t->be };
    kd_vec_images images;
    const int64_t before = t->be->in_use(t->be);
    kd_err err = { 0 };
    must(t, t->be->alloc(t->be, (void **)&images.index, sizeof index, &err), &err);
    must(t, t->be->alloc(t->be, (void **)&images.rng, sizeof rng, &err), &err);
    must(t, t->be->upload(t->be, images.index, index, sizeof index, &err), &err);
    must(t, t->be->upload(t->be, images.rng, rng, sizeof rng, &err), &err);
    for (int l = 0; l < LENGTHS && !t->failed; l++) {
        const int64_t size = lengths[l];
        vector z = vector_new(t, DRAWN * size);
        float *want = malloc((size_t)(DRAWN + 1) * (size_t)size * sizeof *want), *scratch = want + DRAWN * size;
        for (int i = 0; i < DRAWN; i++) {
            const kd_rng r = kd_rng_of(rng[FIRST + i][0], KD_RNG_STEP, 0, (uint64_t)index[FIRST + i], 6);
            kd_rng_normal(&r, want + i * size, 0, size);
        }
        must(t, kd_vec_normal(&v, DRAWN, size, z.at, &images, FIRST, (kd_draw_attr){ KD_RNG_STEP, 6 }, &err), &err);
        expect(t, "normal", &z, want, NULL);
        for (int i = 0; i < DRAWN; i++) {
            const kd_brownian w = { rng[FIRST + i][0], (uint64_t)index[FIRST + i], path.low, path.high };
            kd_brownian_noise(&w, path.from, path.to, want + i * size, 0, size, scratch);
        }
        must(t, kd_vec_brownian(&v, DRAWN, size, z.at, &images, FIRST, path, &err), &err);
        expect(t, "brownian", &z, want, NULL);
        vector_free(t, &z);
        free(want);
    }
    t->be->free(t->be, images.index);
    t->be->free(t->be, images.rng);
    kd_vec_free(&v);
    t_check(t, t->be->in_use(t->be) == before, "%lld bytes are left", (long long)(t->be->in_use(t->be) - before));
}

KD_TEST_FN(vec_sums, sums)
KD_TEST_FN(vec_clamp, clamp)
KD_TEST_FN(vec_keep, keep)
KD_TEST_FN(vec_check, check)
KD_TEST_FN(vec_noise, noise)
