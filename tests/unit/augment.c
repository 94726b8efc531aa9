// The augmentation pipeline against golden augmentation.safetensors, and its draws.
#include "formats/safetensors.h"
#include "train/augment.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// Three times what PyTorch and scikit-image make in float32 on the same matrix (tolerances.json).
static const double warp_error = 3 * 2.6084866e-06;
// The peer multiplies ten float32 matrices; their entries go up to the image's size.
static const double matrix_error = 2e-5;

static const char *const groups[] = { "none", "xflip", "yflip", "scale", "rot", "aniso", "trans", "all", "all2" };
static kd_frame *golden;

static int load(void **state)
{
    (void)state;
    kd_err err = {0};
    return kd_safetensors_load("tests/golden/augmentation.safetensors", &golden, &err);
}

static int unload(void **state)
{
    (void)state;
    kd_frame_free(golden);
    return 0;
}

static const kd_tensor *get(const char *image, const char *group, const char *what)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s%s%s%s", image, group ? "." : "", group ? group : "", what ? "." : "", what ? what : "");
    const kd_tensor *t = kd_frame_get(golden, name);
    if (!t) fail_msg("%s is missing", name);
    return t;
}

static void matrices_and_conditions(void **state)
{
    (void)state;
    static const struct { const char *name; int64_t h, w; } images[] = { { "image_32x32", 32, 32 }, { "image_28x36", 28, 36 } };
    for (int i = 0; i < 2; i++)
        for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
            const float *draws = get(images[i].name, groups[g], "draws")->data, *want = get(images[i].name, groups[g], "matrix")->data;
            const float *want_cond = get(images[i].name, groups[g], "cond")->data;
            double m[9];
            float cond[KD_AUGMENT_COND];
            kd_augment_matrix(m, cond, draws, images[i].h, images[i].w, 0.12);
            for (int k = 0; k < 9; k++)
                if (fabs(m[k] - want[k]) > matrix_error)
                    fail_msg("%s.%s matrix[%d]: %g, want %g", images[i].name, groups[g], k, m[k], want[k]);
            for (int k = 0; k < KD_AUGMENT_COND; k++)
                if (fabs(cond[k] - want_cond[k]) > 1e-6)
                    fail_msg("%s.%s cond[%d]: %g, want %g", images[i].name, groups[g], k, cond[k], want_cond[k]);
        }
}

static void warps(void **state)
{
    (void)state;
    static const struct { const char *name; int64_t h, w; } images[] = { { "image_32x32", 32, 32 }, { "image_28x36", 28, 36 } };
    enum { C = 3 };
    for (int i = 0; i < 2; i++) {
        const int64_t h = images[i].h, w = images[i].w;
        const uint8_t *chw = get(images[i].name, NULL, NULL)->data;
        uint8_t *in = malloc((size_t)(h * w * C));
        float *out = malloc((size_t)(h * w * C) * sizeof *out);
        for (int64_t p = 0; p < h * w; p++)
            for (int k = 0; k < C; k++) in[p * C + k] = chw[k * h * w + p];
        for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
            const float *f = get(images[i].name, groups[g], "matrix")->data;       // the peer's: only the warp is judged
            const kd_tensor *t = get(images[i].name, groups[g], "augmented_f64");
            const double *want = t->data;
            double m[9], most = 0, worst = 0;
            assert_int_equal(t->dtype, KD_F64);
            for (int k = 0; k < 9; k++) m[k] = f[k];
            kd_augment_warp(out, in, h, w, C, m);
            for (int64_t p = 0; p < h * w; p++)
                for (int k = 0; k < C; k++) {
                    most = fmax(most, fabs(want[k * h * w + p]));
                    worst = fmax(worst, fabs(out[p * C + k] - want[k * h * w + p]));
                }
            if (worst > warp_error * most) fail_msg("%s.%s: off by %g of %g", images[i].name, groups[g], worst, most);
        }
        free(in);
        free(out);
    }
}

static void switched_off(void **state)
{
    (void)state;
    const float *draws = get("image_28x36", "all", "draws")->data;
    double m[9];
    float cond[KD_AUGMENT_COND];
    kd_augment_matrix(m, cond, draws, 28, 36, 0);
    for (int k = 0; k < 9; k++) assert_true(m[k] == (k % 4 == 0));
    for (int k = 0; k < KD_AUGMENT_COND; k++) assert_true(cond[k] == 0);
}

// One row, one column, one pixel: reflection has nowhere to go.
static void thin_images(void **state)
{
    (void)state;
    const uint8_t row[5] = { 10, 20, 30, 40, 50 };
    float out[5];
    const double left_right[9] = { -1, 0, 4, 0, 1, 0, 0, 0, 1 }, far[9] = { 1, 0, 1000.5, 0, 1, -777.25, 0, 0, 1 };
    kd_augment_warp(out, row, 1, 5, 1, left_right);
    for (int i = 0; i < 5; i++) assert_true(fabsf(out[i] - ((float)row[4 - i] / 255 * 2 - 1)) < 1e-6f);
    kd_augment_warp(out, row, 5, 1, 1, far);
    kd_augment_warp(out, row, 1, 1, 1, far);
    assert_true(fabsf(out[0] - (10.f / 255 * 2 - 1)) < 1e-6f);
}

static void draws_have_their_distributions(void **state)
{
    (void)state;
    enum { N = 20000 };
    static const bool normal[KD_AUGMENT_DRAWS] = { [4] = true, [9] = true, [11] = true, [12] = true };
    double sum[KD_AUGMENT_DRAWS] = {0}, square[KD_AUGMENT_DRAWS] = {0};
    for (int i = 0; i < N; i++) {
        float d[KD_AUGMENT_DRAWS];
        const kd_rng r = kd_rng_of(5, KD_RNG_AUGMENT, 0, (uint64_t)i, 3);
        kd_augment_draw(d, &r);
        assert_true((d[0] == 0 || d[0] == 1) && (d[2] == 0 || d[2] == 1));
        for (int k = 0; k < KD_AUGMENT_DRAWS; k++) sum[k] += d[k], square[k] += d[k] * d[k];
    }
    for (int k = 0; k < KD_AUGMENT_DRAWS; k++) {
        const double mean = sum[k] / N, variance = square[k] / N - mean * mean;
        const double want = normal[k] ? 0 : 0.5, spread = normal[k] ? 1 : k == 0 || k == 2 ? 0.25 : 1.0 / 12;
        if (fabs(mean - want) > 0.04 || fabs(variance - spread) > 0.05 * spread)
            fail_msg("draw %d: mean %g, variance %g", k, mean, variance);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_and_conditions), cmocka_unit_test(warps), cmocka_unit_test(switched_off),
        cmocka_unit_test(thin_images), cmocka_unit_test(draws_have_their_distributions),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
