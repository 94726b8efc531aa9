// Runs of sampling as kd-sample makes them: golden samplers through the toy model and its options; guidance, pictures and
// seeds by what they must give.
#include "device/device.h"
#include "diffusion/draw.h"
#include "diffusion/who.h"
#include "model/toy.h"
#include "tests/support/golden.h"
#include "tests/support/sampling.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

typedef struct fixture { kd_model *m; kd_backend *be; kd_denoiser *d; } fixture;

static fixture open_denoiser(kd_model *m)
{
    fixture f = { .m = m };
    kd_err err = { 0 };
    must(kd_device_open(&f.be, "cpu", &err), &err);
    must(kd_denoiser_new(&f.d, f.m, f.be, &err), &err);
    return f;
}

static fixture open_file(const char *name)
{
    char path[256];
    kd_model *m;
    kd_err err = { 0 };
    snprintf(path, sizeof path, "tests/golden/%s.weights.safetensors", name);
    must(kd_model_load(&m, path, false, &err), &err);
    return open_denoiser(m);
}

static void close_denoiser(fixture *f) { kd_denoiser_free(f->d), kd_backend_close(f->be), kd_model_free(f->m); }

// All images of a run, of floats; malloc'ed. *calls: of the last image.
static float *draw_all(const kd_draw_opts *o, fixture *f, kd_denoiser *weak, int64_t *n, int64_t *calls)
{
    kd_drawing *d;
    kd_images run;
    kd_err err = { 0 };
    float *all = NULL;
    *n = 0;
    must(kd_drawing_new(&d, o, f->d, weak, &err), &err);
    const kd_images_info *i = kd_drawing_info(d);
    assert_int_equal(i->dtype, KD_F32);
    const int64_t size = i->h * i->w * i->c;
    for (;;) {
        must(kd_drawing_next(d, &run, &err), &err);
        if (!run.n) break;
        all = realloc(all, (size_t)((*n + run.n) * size) * sizeof *all);
        assert_non_null(all);
        memcpy(all + *n * size, run.image, (size_t)(run.n * size) * sizeof *all);
        *n += run.n;
        if (calls) *calls = run.calls[run.n - 1];
    }
    kd_drawing_free(d);
    return all;
}

// Golden -----------------------------------------------------------------------------------------------------------

enum { C = 3, H = 4, W = 4, PIXELS = C * H * W, IMAGES = 2 };

// The two denoisers of samplers.safetensors (tests/unit/sampler.c has their formulas) as toy mixtures.
static fixture golden_toy(const kd_frame *golden, bool mix)
{
    static const float weight[] = { 0.3F, 0.7F }, std[] = { 0.25F, 0.5F }, mean[] = { -1, 0.75F };
    const int64_t shape[] = { C, H, W };
    kd_frame *f = kd_frame_new();
    kd_model *m;
    kd_err err = { 0 };
    float *mu = golden_f32(golden, "mu", NULL);
    must(kd_frame_add(f, "weight", KD_F32, KD_SHAPE(1 + mix), (void *)weight, NULL, &err), &err);
    must(kd_frame_add(f, "std", KD_F32, KD_SHAPE(1 + mix), (void *)(mix ? std : std + 1), NULL, &err), &err);
    must(kd_frame_add(f, "mean", KD_F32, mix ? KD_SHAPE(2) : KD_SHAPE(1, C, H, W), mix ? (void *)mean : mu, NULL, &err), &err);
    must(kd_toy_new(&m, f, "golden", mix ? shape : NULL, &err), &err);
    kd_frame_free(f);
    free(mu);
    return open_denoiser(m);
}

static void test_golden(void **state)
{
    (void)state;
    kd_frame *f = golden_load("samplers");
    json_t *runs = golden_json(f, "runs"), *run;
    fixture toy[] = { golden_toy(f, false), golden_toy(f, true) };
    const char *name;
    int done = 0;
    json_object_foreach(runs, name, run) {
        char who[8], schedule[8], init[80], sigmas[80];
        int at = 0;
        int64_t n, calls;
        assert_int_equal(sscanf(name, "%7[a-z].%7[a-z0-9_].%n", who, schedule, &at), 2);
        snprintf(init, sizeof init, "tests/golden/samplers.safetensors:x.%s", schedule);
        snprintf(sigmas, sizeof sigmas, "tests/golden/samplers.safetensors:sigmas.%s", schedule);
        kd_draw_opts o = kd_draw_defaults();
        o.sampler = json_string_value(json_object_get(run, "function")) + strlen("sample_");
        o.o = golden_sampler_opts(json_object_get(run, "kwargs"));
        o.init = init, o.sigmas = sigmas, o.noise = "tests/golden/samplers.safetensors:noise_bank", o.as_float = true;
        o.batch = 1 + done % 2;
        float *got = draw_all(&o, &toy[!strcmp(who, "mix")], NULL, &n, &calls);
        double *want = golden_f64(f, name, NULL), nhwc[IMAGES * PIXELS];
        assert_int_equal(n, IMAGES);
        assert_int_equal(calls, json_integer_value(json_object_get(run, "model_calls")));
        for (int i = 0; i < IMAGES * PIXELS; i++) nhwc[i] = want[i / PIXELS * PIXELS + i % C * H * W + i % PIXELS / C];
        const double error = golden_error(got, nhwc, IMAGES * PIXELS), allowed = fmax(1e-5, 3 * golden_tolerance("samplers", name + at));
        if (!(error <= allowed)) fail_msg("%s: error %.2g, allowed %.2g", name, error, allowed);
        free(got), free(want);
        done++;
    }
    assert_int_equal(done, 8 * 36);
    close_denoiser(&toy[0]), close_denoiser(&toy[1]);
    json_decref(runs);
    kd_frame_free(f);
}

// Guidance ---------------------------------------------------------------------------------------------------------

static kd_draw_opts few(void)
{
    kd_draw_opts o = kd_draw_defaults();
    o.count = 3, o.steps = 3, o.sampler = "euler", o.as_float = true;
    return o;
}

static bool same(const kd_draw_opts *a, const kd_draw_opts *b, fixture *f, kd_denoiser *weak)
{
    int64_t n, m;
    const int64_t size = f->m->config->size[0] * f->m->config->size[1] * f->m->config->channels;
    float *x = draw_all(a, f, weak, &n, NULL), *y = draw_all(b, f, NULL, &m, NULL);
    assert_int_equal(n, m);
    const bool equal = !memcmp(x, y, (size_t)(n * size) * sizeof *x);
    free(x), free(y);
    return equal;
}

static void test_guidance(void **state)
{
    (void)state;
    fixture f = open_file("v2_neighborhood_k7");
    kd_draw_opts plain = few(), a = few(), none = few();
    none.classes = "none";
    a.guidance.scale = 0;
    assert_false(same(&plain, &none, &f, NULL));
    assert_true(same(&a, &none, &f, NULL));            // 0: without class, to the bit
    a.guidance.scale = 2;
    assert_false(same(&a, &plain, &f, NULL));
    a.guidance.low = 100, a.guidance.high = 200;       // where no level is
    assert_true(same(&a, &plain, &f, NULL));
    a.guidance.low = 0, a.guidance.high = 1;
    assert_false(same(&a, &plain, &f, NULL));
    a = few(), a.guidance.scale = 0;
    assert_true(same(&a, &plain, &f, f.d));            // guided by itself: D_other is D
    a.guidance.scale = 3;                              // and D_other + 3 (D - D_other) too
    assert_true(same(&a, &plain, &f, f.d));
    close_denoiser(&f);
}

// The peer's own guided run: the start out of a file, as --init takes it.
static void test_golden_guidance(void **state)
{
    (void)state;
    char file[] = "/tmp/kd-draw-XXXXXX", init[64], classes[32];
    kd_frame *golden = golden_load("model_sampling"), *f = kd_frame_new();
    fixture m = open_file("v2_neighborhood_k7");
    kd_out *out;
    kd_err err = { 0 };
    int64_t count, n;
    const int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    float *unit = golden_f32(golden, "v2_neighborhood_k7.unit", &count), *sigmas = golden_f32(golden, "sigmas", NULL);
    const int64_t *class_cond = kd_frame_get(golden, "v2_neighborhood_k7.class_cond")->data;
    double *want = golden_f64(golden, "v2_neighborhood_k7.cfg2.5.dpmpp_2m_sde_heun_eta0", NULL);
    for (int64_t i = 0; i < count; i++) unit[i] *= sigmas[0];
    must(kd_frame_add(f, "x", KD_F32, KD_SHAPE(count / 784, 1, 28, 28), unit, NULL, &err), &err);
    must(kd_out_open(&out, file, false, &err), &err);
    must(kd_safetensors_write(out, f, &err), &err);
    must(kd_out_commit(out, &err), &err);
    kd_out_close(out);
    kd_frame_free(f);

    kd_draw_opts o = kd_draw_defaults();
    snprintf(classes, sizeof classes, "%d,%d", (int)class_cond[0], (int)class_cond[1]);
    snprintf(init, sizeof init, "%s:x", file);
    o.init = init, o.sigmas = "tests/golden/model_sampling.safetensors:sigmas", o.as_float = true;
    o.classes = classes, o.sampler = "dpmpp_2m_sde", o.o.solver = "heun", o.o.eta = 0, o.guidance.scale = 2.5;
    float *got = draw_all(&o, &m, NULL, &n, NULL);
    assert_int_equal(n, 2);
    assert_int_equal(count, 2 * 784);
    const double error = golden_error(got, want, count), allowed = 3 * golden_tolerance("model_sampling", "v2_neighborhood_k7.cfg2.5");
    printf("# cfg 2.5: %.2g of %.2g allowed\n", error, allowed);
    assert_true(error <= allowed);
    remove(file);
    free(unit), free(sigmas), free(want), free(got);
    kd_frame_free(golden);
    close_denoiser(&m);
}

// Images keep their classes, pictures and masks when others of the run are at the end already.
static void test_places(void **state)
{
    (void)state;
    enum { N = 3, SIZE = 784 };
    fixture f = open_file("v2_neighborhood_k7");
    const int64_t label[N] = { 1, 2, 3 }, image[N] = { 0, 1, 2 };
    const float sigma[N] = { 2, 2, 2 };
    static float x[N * SIZE], known[N * SIZE], mask[N * SIZE], all[N * SIZE], last[SIZE];
    kd_err err = { 0 };
    for (int i = 0; i < N * SIZE; i++) x[i] = (float)sin(i), known[i] = (float)i, mask[i] = i % (2 + i / SIZE) == 0;
    kd_guide g = { .g = { .scale = 2, .low = 0, .high = INFINITY }, .d = f.d, .size = SIZE, .label = label, .known = known, .mask = mask };
    must(kd_guide_begin(&g, N, &err), &err);
    must(kd_guide_call(&g, N, image, sigma, x, all, &err), &err);
    must(kd_guide_call(&g, 1, image + 2, sigma, x + 2 * SIZE, last, &err), &err);
    assert_memory_equal(last, all + 2 * SIZE, sizeof last);
    kd_guide_free(&g);
    close_denoiser(&f);
}

// A clamp at the percentile of |D|, between neighbours by a line, against one written here; static is a clamp at 1.
static void test_dynamic_threshold(void **state)
{
    (void)state;
    fixture f = open_file("v2_global");
    enum { SIZE = 16 * 16 * 3 };
    float x[SIZE], plain[SIZE], got[SIZE], sorted[SIZE], sigma = 3;
    const int64_t image = 0;
    kd_err err = { 0 };
    kd_guide g = { .g = { .scale = 1, .low = 0, .high = INFINITY }, .d = f.d, .size = SIZE };
    for (int i = 0; i < SIZE; i++) x[i] = 8 * (float)sin(i) * (float)(i % 7);
    must(kd_guide_call(&g, 1, &image, &sigma, x, plain, &err), &err);
    for (int i = 0; i < SIZE; i++) {
        int k = i;
        for (; k > 0 && sorted[k - 1] > fabsf(plain[i]); k--) sorted[k] = sorted[k - 1];
        sorted[k] = fabsf(plain[i]);
    }
    for (int p = 0; p <= 100; p += 10) {
        const double at = p / 100. * (SIZE - 1), below = sorted[(int)at], above = sorted[(int)ceil(at)];
        const double q = fmax(1, below + (at - floor(at)) * (above - below));
        g.g.threshold = KD_THRESHOLD_DYNAMIC, g.g.percentile = p;
        must(kd_guide_call(&g, 1, &image, &sigma, x, got, &err), &err);
        for (int i = 0; i < SIZE; i++) assert_true(fabs(got[i] - fmin(fmax(plain[i], -q), q) / q) < 1e-6);
    }
    assert_true(sorted[SIZE / 2] < 1 && sorted[SIZE * 9 / 10] > 1);         // both kinds of percentile
    g.g.threshold = KD_THRESHOLD_STATIC;
    must(kd_guide_call(&g, 1, &image, &sigma, x, got, &err), &err);
    for (int i = 0; i < SIZE; i++) assert_true(got[i] == fminf(fmaxf(plain[i], -1), 1));
    kd_guide_free(&g);
    close_denoiser(&f);
}

static void test_threshold(void **state)
{
    (void)state;
    fixture f = open_file("v2_neighborhood_k7");
    kd_draw_opts o = few();
    o.guidance.scale = 30, o.guidance.threshold = KD_THRESHOLD_NONE;
    for (int k = 0; k < 3; k++, o.guidance.threshold++) {
        int64_t n;
        float *x = draw_all(&o, &f, NULL, &n, NULL), most = 0;
        for (int64_t i = 0; i < n * 784; i++) most = fmaxf(most, fabsf(x[i]));
        assert_true(k == 0 ? most > 1.5F : most <= 1 + 1e-5F);         // euler's last step ends at D
        free(x);
    }
    close_denoiser(&f);
}

// Seeds ------------------------------------------------------------------------------------------------------------

static void test_seeds(void **state)
{
    (void)state;
    fixture f = open_file("v2_global");
    kd_draw_opts list = few(), one = few(), arc = few();
    enum { SIZE = 16 * 16 * 3 };
    int64_t n;
    list.seeds = "7,9-10", list.count = 2, list.first = 4;
    float *x = draw_all(&list, &f, NULL, &n, NULL);
    assert_int_equal(n, 6);
    one.seed = 9, one.first = 5, one.count = 1;
    float *y = draw_all(&one, &f, NULL, &n, NULL);
    assert_memory_equal(x + 3 * SIZE, y, SIZE * sizeof *x);
    arc.interpolate = "7,10,5", arc.count = -1, arc.first = 4, arc.batch = 2;
    float *z = draw_all(&arc, &f, NULL, &n, NULL);
    assert_int_equal(n, 5);
    assert_memory_equal(z, x, SIZE * sizeof *x);                       // its ends are the seeds' own images
    assert_memory_equal(z + 4 * SIZE, x + 4 * SIZE, SIZE * sizeof *x);
    free(x), free(y), free(z);
    close_denoiser(&f);
}

static void test_lists(void **state)
{
    (void)state;
    static const char *const bad_seeds[] = { "", "1,", ",1", "a", "3-1", "1--2", "0-99999999", "18446744073709551616" };
    static const char *const bad_arcs[] = { "1,2", "1,2,1", "1,2,3,4", "a,2,3", "1,2,3x" };
    uint64_t *seeds;
    int64_t n;
    kd_interpolation arc;
    kd_err err = { 0 };
    must(kd_seeds_parse(&seeds, &n, "18446744073709551615,2-4", &err), &err);
    assert_int_equal(n, 4);
    assert_true(seeds[0] == UINT64_MAX && seeds[1] == 2 && seeds[3] == 4);
    free(seeds);
    for (size_t k = 0; k < sizeof bad_seeds / sizeof *bad_seeds; k++) {
        kd_err e = { 0 };
        assert_int_equal(kd_seeds_parse(&seeds, &n, bad_seeds[k], &e), KD_EUSAGE);
        free(seeds);
    }
    for (size_t k = 0; k < sizeof bad_arcs / sizeof *bad_arcs; k++) {
        kd_err e = { 0 };
        assert_int_equal(kd_interpolation_parse(&arc, bad_arcs[k], &e), KD_EUSAGE);
    }
}

// Points of the arc keep the length, and the middle is between.
static void test_slerp(void **state)
{
    (void)state;
    enum { N = 1000 };
    float a[N], b[N], m[N], right[2] = { 1, 0 };
    kd_slerp(right, (float[2]){ 0, 1 }, 2, 1. / 3);                    // a third of a right angle
    assert_true(fabs(right[0] - sqrt(3) / 2) < 1e-6 && fabs(right[1] - 0.5) < 1e-6);
    kd_sample_start(a, N, (kd_draw){ 1, 0 }, 1), kd_sample_start(b, N, (kd_draw){ 2, 0 }, 1);
    double aa = 0, mm = 0, am = 0, bm = 0, bb = 0;
    memcpy(m, a, sizeof m);
    kd_slerp(m, b, N, 0.5);
    for (int i = 0; i < N; i++) aa += a[i] * a[i], bb += b[i] * b[i], mm += m[i] * m[i], am += a[i] * m[i], bm += b[i] * m[i];
    assert_true(fabs(mm - (aa + bb) / 2) < 0.05 * mm);                 // a straight line would give half of it
    assert_true(fabs(am / sqrt(aa) - bm / sqrt(bb)) < 0.05 * sqrt(mm));
}

static void test_random_classes(void **state)
{
    (void)state;
    kd_classes c;
    kd_err err = { 0 };
    int count[10] = { 0 };
    must(kd_classes_parse(&c, "random", 10, &err), &err);
    for (uint64_t k = 0; k < 5000; k++) count[kd_class_of(&c, (kd_draw){ 3, k })]++;
    for (int k = 0; k < 10; k++) assert_true(abs(count[k] - 500) < 110);           // 5 deviations
    kd_classes_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_golden), cmocka_unit_test(test_guidance), cmocka_unit_test(test_threshold),
                                        cmocka_unit_test(test_places),
                                        cmocka_unit_test(test_golden_guidance), cmocka_unit_test(test_dynamic_threshold),
                                        cmocka_unit_test(test_seeds), cmocka_unit_test(test_lists), cmocka_unit_test(test_slerp),
                                        cmocka_unit_test(test_random_classes) };
    return cmocka_run_group_tests_name("draw", tests, NULL, NULL);
}
