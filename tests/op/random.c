// Noise from counters: the same bits as base/random.h and base/brownian.h give for each image alone. Sizes are around a tile
// (4096 elements). A tolerance of 1e-30 allows no difference.
#include "op/random.h"
#include "base/brownian.h"
#include "base/random.h"
#include "tests/op/test.h"
#include <stdlib.h>

// One {seed, step} for all images --------------------------------------------------------------------------------------

static const int64_t cases[][4] = { /* N, rows, columns, number added to the step */
    { 1, 1, 1, 0 }, { 3, 5, 7, 0 }, { 2, 1, 4095, 1 }, { 1, 2, 2048, 0 }, { 2, 17, 241, 5 },
    { 3, 1, 9001, (1 << 24) - 1 - T_STEP } };

static kd_val *build_normal(t_build *b)
{
    kd_val *index = t_input(b, T_IMAGES, KD_SHAPE(b->c[0]), INDEX(100000));
    return kd_normal(b->g, KD_SHAPE(b->c[0], b->c[1], b->c[2]), index, t_rng(b),
                     (kd_draw_attr){ .purpose = KD_RNG_NOISE, .step = (uint32_t)b->c[3] });
}

static void ref_normal(const t_ref *r)
{
    const int64_t size = r->c[1] * r->c[2];
    float *z = malloc((size_t)size * sizeof *z);
    for (int64_t n = 0; n < r->c[0]; n++) {
        const kd_rng rng = kd_rng_of(T_SEED, KD_RNG_NOISE, 0, (uint64_t)r->in[0][n], (uint32_t)(T_STEP + r->c[3]));
        kd_rng_normal(&rng, z, 0, size);
        for (int64_t i = 0; i < size; i++) r->y[n * size + i] = z[i];
    }
    free(z);
}

KD_TEST_OP(normal, cases, .build = build_normal, .ref = ref_normal, .tol = 1e-30)

static const kd_brownian_attr path = { .from = 44.5, .to = 23.4, .low = 0.01, .high = 80 };

static kd_val *build_brownian(t_build *b)
{
    kd_val *index = t_input(b, T_IMAGES, KD_SHAPE(b->c[0]), INDEX(100000));
    return kd_brownian_steps(b->g, KD_SHAPE(b->c[0], b->c[1], b->c[2]), index, t_rng(b), path);
}

/// The size elements of image `index`. scratch [size]
static void path_of_image(uint64_t seed, uint64_t index, const kd_brownian_attr *a, float *z, int64_t size, float *scratch)
{
    const kd_brownian w = { .seed = seed, .index = index, .t0 = a->low, .t1 = a->high };
    kd_brownian_noise(&w, a->from, a->to, z, 0, size, scratch);
}

static void ref_brownian(const t_ref *r)
{
    const int64_t size = r->c[1] * r->c[2];
    float *z = malloc(2 * (size_t)size * sizeof *z);
    for (int64_t n = 0; n < r->c[0]; n++) {
        path_of_image(T_SEED, (uint64_t)r->in[0][n], &path, z, size, z + size);
        for (int64_t i = 0; i < size; i++) r->y[n * size + i] = z[i];
    }
    free(z);
}

KD_TEST_OP(brownian, cases, .build = build_brownian, .ref = ref_brownian, .tol = 1e-30)

// A {seed, step} for each image ----------------------------------------------------------------------------------------

enum { IMAGES = 4 };
static const int64_t sizes[] = { 1, 30, 4095, 4096, 4097, 8192, 9001 };
static const int64_t index_of[IMAGES] = { 0, 5, 5, ((int64_t)1 << 40) - 1 };      // one number twice, with another seed
static const uint64_t rng_of[IMAGES][2] = { { 7, 3 }, { 7, 0 }, { ~(uint64_t)0, 0 }, { 1, (1 << 24) - 1 - 9 } };

/// A graph with the inputs of a draw for IMAGES images; rng is [IMAGES,2] if each has its own.
typedef struct draw { kd_graph *g; kd_val *index, *rng; } draw;

static draw draw_new(bool each)
{
    kd_graph *g = kd_graph_new();
    return (draw){ g, kd_input(g, "index", KD_I64, KD_SHAPE(IMAGES)),
                   kd_input(g, "rng", KD_U64, each ? KD_SHAPE(IMAGES, 2) : KD_SHAPE(2)) };
}

/// Runs the graph with index_of and rng and compares its output y with want, bit for bit. Frees the graph.
static void expect(t_run *t, const char *what, draw d, const void *rng, kd_val *y, const float *want)
{
    kd_val *const in[] = { d.index, d.rng };
    const void *const data[] = { index_of, rng };
    const size_t bytes = (size_t)kd_count(y) * sizeof *want;
    float *got = malloc(bytes);
    memset(got, 0xff, bytes);
    if (!t_run_graph(t, d.g, in, data, 2, &y, &got, 1)) t_check(t, !memcmp(got, want, bytes), "%s: other bits", what);
    free(got);
}

static void normal_each(t_run *t)
{
    static const kd_draw_attr draws[] = { { KD_RNG_NOISE, 0 }, { KD_RNG_STEP, 9 }, { KD_RNG_START, 1 }, { KD_RNG_PROBE, 2 } };
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (size_t j = 0; j < sizeof draws / sizeof *draws; j++) {
            const int64_t size = sizes[k];
            const draw d = draw_new(true);
            float *want = malloc((size_t)(IMAGES * size) * sizeof *want);
            for (int n = 0; n < IMAGES; n++) {
                const uint32_t step = (uint32_t)rng_of[n][1] + draws[j].step;
                const kd_rng r = kd_rng_of(rng_of[n][0], draws[j].purpose, 0, (uint64_t)index_of[n], step);
                kd_rng_normal(&r, want + n * size, 0, size);
            }
            expect(t, "normal", d, rng_of, kd_normal(d.g, KD_SHAPE(IMAGES, size), d.index, d.rng, draws[j]), want);
            free(want);
        }
}

static void brownian_each(t_run *t)
{
    // Down, up, no way at all, and beyond the ends of the path.
    static const kd_brownian_attr ways[] = {
        { 44.5, 23.4, 0.01, 80 }, { 0.02, 0.3, 0.01, 80 }, { 3, 3, 0.01, 80 }, { 81, 0.005, 0.01, 80 } };
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            const int64_t size = sizes[k];
            const draw d = draw_new(true);
            float *want = malloc((size_t)((IMAGES + 1) * size) * sizeof *want);
            for (int n = 0; n < IMAGES; n++)
                path_of_image(rng_of[n][0], (uint64_t)index_of[n], &ways[w], want + n * size, size, want + IMAGES * size);
            expect(t, "brownian", d, rng_of, kd_brownian_steps(d.g, KD_SHAPE(IMAGES, size), d.index, d.rng, ways[w]), want);
            free(want);
        }
}

/// The path belongs to seed and image: a run's step does not change it.
static void brownian_step(t_run *t)
{
    enum { SIZE = 37 };
    static float want[(IMAGES + 1) * SIZE];
    for (int n = 0; n < IMAGES; n++)
        path_of_image(11, (uint64_t)index_of[n], &path, want + n * SIZE, SIZE, want + IMAGES * SIZE);
    for (uint64_t step = 0; step < 3; step++) {
        const draw d = draw_new(false);
        kd_val *y = kd_brownian_steps(d.g, KD_SHAPE(IMAGES, SIZE), d.index, d.rng, path);
        expect(t, "brownian", d, (const uint64_t[]){ 11, step }, y, want);
    }
}

/// Shapes and types that do not fit are refused.
static void refused(t_run *t)
{
    static const struct { kd_dtype index, rng; int64_t n_index, n_rng; } bad[] = {
        { KD_F32, KD_U64, 4, 4 }, { KD_I64, KD_I64, 4, 4 }, { KD_I64, KD_U64, 3, 4 }, { KD_I64, KD_U64, 4, 3 } };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        kd_graph *g = kd_graph_new();
        kd_err err = { 0 };
        kd_val *index = kd_input(g, "index", bad[k].index, KD_SHAPE(bad[k].n_index));
        kd_val *rng = kd_input(g, "rng", bad[k].rng, KD_SHAPE(bad[k].n_rng, 2));
        kd_val *y = kd_normal(g, KD_SHAPE(4, 6), index, rng, (kd_draw_attr){ KD_RNG_NOISE, 0 });
        const bool refused_it = !y && kd_graph_error(g, &err) == KD_EUSAGE;
        t_check(t, refused_it && strstr(err.msg, "normal: expected index [N] of I64"), "case %d: %s", (int)k, err.msg);
        kd_graph_free(g);
    }
}

KD_TEST_FN(normal_each_image, normal_each)
KD_TEST_FN(brownian_each_image, brownian_each)
KD_TEST_FN(brownian_any_step, brownian_step)
KD_TEST_FN(random_refused, refused)
