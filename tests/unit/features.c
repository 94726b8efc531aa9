// The way of images to features: golden resizing to 299 pixels by clean-fid and k-diffusion; collecting in any order and in any runs.
#include "base/memory.h"
#include "base/random.h"
#include "data/picture.h"
#include "metric/extract.h"
#include "metric/kid.h"
#include "tests/support/golden.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <cmocka.h>

enum { SIDE = 299, STEP = 7, SOME = 43 };

static uint8_t pixel(const char *name, int c, int y, int x, int block)
{
    uint32_t h = (uint32_t)((c * 1000 + y / block) * 1000 + x / block) * 2654435761u;
    h += (uint32_t)crc32(0, (const unsigned char *)name, (unsigned)strlen(name));
    h ^= h >> 16, h *= 0x85ebca6b;
    h ^= h >> 13, h *= 0xc2b2ae35;
    return (uint8_t)((h ^ h >> 16) >> 24);
}

static const kd_feature_net plain = { .size = SIDE, .scale = { 1, 1, 1 } };           // leaves 0..255

static void test_resize(void **state)
{
    (void)state;
    static const struct { const char *name; int h, w, block; } images[] = { { "r32", 32, 32, 3 }, { "r64x48", 64, 48, 5 },
                                                                            { "r330x312", 330, 312, 7 } };
    kd_frame *f = golden_load("inception_resize");
    kd_err err = {0};
    float *got = malloc(SIDE * SIDE * 3 * sizeof *got), *some = malloc(SOME * SOME * 3 * sizeof *some);
    for (size_t k = 0; k < 3; k++) {
        const int h = images[k].h, w = images[k].w;
        uint8_t *image = malloc((size_t)(h * w * 3));
        for (int i = 0; i < h * w * 3; i++) image[i] = pixel(images[k].name, i % 3, i / 3 / w, i / 3 % w, images[k].block);
        const kd_pictures p = { KD_U8, 1, h, w, 3, image, NULL };
        for (int mode = 0; mode < 2; mode++) {
            char key[64];
            assert_int_equal(kd_extract_prepare(got, &p, &plain, mode ? KD_RESIZE_TORCH : KD_RESIZE_CLEAN, &err), 0);
            for (int i = 0; i < SOME * SOME * 3; i++) {          // clean's golden is [y,x,c], k-diffusion's [c,y,x]
                const int c = mode ? i / (SOME * SOME) : i % 3, y = mode ? i / SOME % SOME : i / 3 / SOME;
                const int x = mode ? i % SOME : i / 3 % SOME;
                some[i] = got[(y * STEP * SIDE + x * STEP) * 3 + c];
            }
            snprintf(key, sizeof key, "%s.%s", images[k].name, mode ? "kdiff" : "cleanfid");
            double *want = golden_f64(f, key, NULL);
            const double error = golden_error(some, want, SOME * SOME * 3);
            if (!(error <= 1e-6)) fail_msg("%s: error %.2g", key, error);
            free(want);
        }
        free(image);
    }
    free(got), free(some), kd_frame_free(f);
}

// Grey is colour of three equal channels; float pixels are rounded for clean, and not for torch.
static void test_kinds(void **state)
{
    (void)state;
    kd_err err = {0};
    uint8_t grey[20], colour[60];
    float exact[60], between[60];
    for (int i = 0; i < 60; i++) colour[i] = grey[i / 3] = (uint8_t)(i / 3 * 12);
    kd_images_float(exact, colour, 60);
    for (int i = 0; i < 60; i++) between[i] = exact[i] + 0.001f;
    const size_t bytes = SIDE * SIDE * 3 * sizeof(float);
    float *a = malloc(bytes), *b = malloc(bytes);
    const kd_pictures p[] = { { KD_U8, 1, 4, 5, 3, colour, NULL }, { KD_U8, 1, 4, 5, 1, grey, NULL }, { KD_F32, 1, 4, 5, 3, exact, NULL },
                              { KD_F32, 1, 4, 5, 3, between, NULL }, { KD_U8, 1, 4, 5, 2, grey, NULL } };
    assert_int_equal(kd_extract_prepare(a, &p[0], &plain, KD_RESIZE_CLEAN, &err), 0);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(kd_extract_prepare(b, &p[i], &plain, KD_RESIZE_CLEAN, &err), 0);
        assert_memory_equal(a, b, bytes);
    }
    assert_int_equal(kd_extract_prepare(a, &p[0], &plain, KD_RESIZE_TORCH, &err), 0);
    assert_int_equal(kd_extract_prepare(b, &p[3], &plain, KD_RESIZE_TORCH, &err), 0);
    assert_true(fabs(b[3 * SIDE * 150] - a[3 * SIDE * 150] - 0.1275) < 1e-3);
    assert_int_equal(kd_extract_prepare(a, &p[4], &plain, KD_RESIZE_CLEAN, &err), KD_EUSAGE);
    free(a), free(b);
}

// pil is Pillow's resizing of 8-bit pictures, which lib/data's tests compare with it; grey and float images are brought to that first.
static void test_pil(void **state)
{
    (void)state;
    enum { H = 40, W = 31, TO = 24 };
    kd_err err = {0};
    uint8_t colour[H * W * 3], grey[H * W];
    static float exact[H * W * 3], a[TO * TO * 3], b[TO * TO * 3];
    const kd_feature_net net = { .size = TO, .mean = { 10, 20, 30 }, .scale = { 2, 4, 8 } };
    for (int i = 0; i < H * W * 3; i++) colour[i] = grey[i / 3] = pixel("pil", 0, i / 3 / W, i / 3 % W, 2);
    kd_images_float(exact, colour, H * W * 3);
    for (int i = 0; i < H * W * 3; i++) exact[i] += 0.003f;                         // a third of a level: rounded away
    const kd_pictures p[] = { { KD_U8, 1, H, W, 3, colour, NULL }, { KD_U8, 1, H, W, 1, grey, NULL }, { KD_F32, 1, H, W, 3, exact, NULL } };
    kd_picture want = { .p = kd_alloc(sizeof colour), .h = H, .w = W, .c = 3 };
    memcpy(want.p, colour, sizeof colour);
    assert_int_equal(kd_picture_resize(&want, TO, TO, KD_BICUBIC, &err), 0);
    assert_int_equal(kd_extract_prepare(a, &p[0], &net, KD_RESIZE_PIL, &err), 0);
    for (int i = 0; i < TO * TO * 3; i++) assert_true(a[i] == ((float)want.p[i] - net.mean[i % 3]) / net.scale[i % 3]);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(kd_extract_prepare(b, &p[i], &net, KD_RESIZE_PIL, &err), 0);
        assert_memory_equal(a, b, sizeof a);
    }
    kd_picture_free(&want);
    const kd_feature_net inception = { .classes = 1008 };
    assert_int_equal(kd_resize_usual(&inception), KD_RESIZE_CLEAN);
    assert_int_equal(kd_resize_usual(&net), KD_RESIZE_PIL);
    assert_int_equal(kd_resize_of("pil"), KD_RESIZE_PIL);
    assert_int_equal(kd_resize_of(""), KD_RESIZE_USUAL);
}

static kd_set *collect(const float *x, const int64_t *index, int64_t n, int64_t d, int64_t run)
{
    kd_err err = {0};
    kd_collect *c;
    kd_set *s;
    assert_int_equal(kd_collect_new(&c, d, 2, 0, true, &err), 0);
    for (int64_t i = 0; i < n; i += run) {
        const int64_t k = n - i < run ? n - i : run;
        assert_int_equal(kd_collect_add(c, k, &(kd_vectors){ x + i * d, x + 2 * i, NULL, index ? index + i : NULL }, &err), 0);
    }
    if (kd_collect_finish(&s, c, "set", &(kd_made){ .extractor = "test" }, &err)) fail_msg("%s", err.msg);
    kd_collect_free(c);
    return s;
}

// Whatever the runs and the order of arrival, moments agree to 1e-9 and vectors lie in the order of the index.
static void test_collect(void **state)
{
    (void)state;
    enum { N = 700, D = 6 };
    static float x[N * D], moved[N * D];
    static int64_t index[N], moved_index[N];
    const kd_rng rng = kd_rng_of(1, KD_RNG_TEST, 0, 0, 0);
    kd_rng_normal(&rng, x, 0, N * D);
    for (int i = 0; i < N; i++) {
        const int to = (int)kd_permute(9, 0, N, (uint64_t)i);
        index[i] = moved_index[to] = 10 * i;
        memcpy(moved + to * D, x + i * D, D * sizeof *x);
    }
    kd_set *a = collect(x, index, N, D, N), *b = collect(x, NULL, N, D, 64), *c = collect(moved, moved_index, N, D, 3);
    assert_memory_equal(a->pool.cov, b->pool.cov, D * D * sizeof(double));
    assert_memory_equal(a->spatial.cov, b->spatial.cov, 4 * sizeof(double));
    for (int i = 0; i < D * D; i++) assert_true(fabs(a->pool.cov[i] - c->pool.cov[i]) < 1e-12);
    for (int i = 0; i < D; i++) assert_true(fabs(a->pool.mu[i] - c->pool.mu[i]) < 1e-12);
    for (int i = 0; i < N; i++) {
        assert_memory_equal(kd_row(&a->feature, i), x + i * D, D * sizeof *x);
        assert_memory_equal(kd_row(&b->feature, i), x + i * D, D * sizeof *x);
        assert_memory_equal(kd_row(&c->feature, i), x + i * D, D * sizeof *x);
    }
    assert_true(a->index && !b->index && c->n == N);
    kd_set_free(a), kd_set_free(b), kd_set_free(c);
    kd_err err = {0};
    kd_collect *one;
    assert_int_equal(kd_collect_new(&one, D, 0, 0, false, &err), 0);
    assert_int_equal(kd_collect_add(one, 1, &(kd_vectors){ .feature = x }, &err), 0);
    assert_int_equal(kd_collect_finish(&a, one, "set", &(kd_made){0}, &err), KD_EUSAGE);
    assert_string_equal(err.msg, "set: 1 image: at least 2 are needed");
    kd_collect_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_resize), cmocka_unit_test(test_kinds), cmocka_unit_test(test_pil),
                                        cmocka_unit_test(test_collect) };
    return cmocka_run_group_tests_name("features", tests, NULL, NULL);
}
