// Densities of noise levels, preconditioning, loss weights: against golden densities and weightings (float64).
#include "diffusion/denoiser.h"
#include "diffusion/density.h"
#include "tests/support/golden.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static double relative(double a, double b) { return a == b ? 0 : fabs(a - b) / fabs(b); }

// The parameters that make_sample_density fills in, for the settings that golden densities names.
static const struct { const char *name; double allowed; kd_density d; } densities[] = {
    { "lognormal", 1e-9, { .type = KD_DENSITY_LOGNORMAL, .loc = -1.2, .scale = 1.2 } },
    { "lognormal_loc", 1e-9, { .type = KD_DENSITY_LOGNORMAL, .loc = 0.3, .scale = 0.7 } },
    { "loglogistic", 1e-9, { .type = KD_DENSITY_LOGLOGISTIC, .loc = -0.69314718055994530942, .scale = 0.5, .max_value = INFINITY } },
    { "loglogistic_full", 1e-9, { .type = KD_DENSITY_LOGLOGISTIC, .loc = -0.5, .scale = 0.8, .min_value = 0.02, .max_value = 40 } },
    { "loguniform", 1e-12, { .type = KD_DENSITY_LOGUNIFORM, .min_value = 0.01, .max_value = 80 } },
    { "loguniform_full", 1e-12, { .type = KD_DENSITY_LOGUNIFORM, .min_value = 0.1, .max_value = 10 } },
    { "v-diffusion", 1e-9, { .type = KD_DENSITY_V_DIFFUSION, .min_value = 1e-3, .max_value = 1e3, .sigma_data = 0.5 } },
    { "cosine", 1e-9, { .type = KD_DENSITY_V_DIFFUSION, .min_value = 0.01, .max_value = 100, .sigma_data = 0.5 } },
    { "split-lognormal", 1e-12, { .type = KD_DENSITY_SPLIT_LOGNORMAL, .loc = -0.4, .scale = 1.1, .scale_2 = 0.6 } },
    { "cosine-interpolated", 1e-9, { .type = KD_DENSITY_COSINE_INTERPOLATED, .min_value = 1e-3, .max_value = 1e3, .image_d = 64,
                                     .noise_d_low = 32, .noise_d_high = 64, .sigma_data = 0.5 } },
    { "cosine-interpolated_full", 1e-9, { .type = KD_DENSITY_COSINE_INTERPOLATED, .min_value = 0.002, .max_value = 500, .image_d = 128,
                                          .noise_d_low = 16, .noise_d_high = 96, .sigma_data = 0.5 } },
};

static void test_densities(void **state)
{
    (void)state;
    kd_frame *f = golden_load("densities");
    int64_t n;
    double *u = golden_f64(f, "u", &n), *normal = golden_f64(f, "randn", NULL);
    for (size_t k = 0; k < sizeof densities / sizeof *densities; k++) {
        double *want = golden_f64(f, densities[k].name, NULL), worst = 0;
        for (int64_t i = 0; i < n; i++)
            worst = fmax(worst, relative(kd_density_sigma(&densities[k].d, u[i], normal[i]), want[i]));
        if (!(worst <= densities[k].allowed)) fail_msg("%s: error %.2g, allowed %.2g", densities[k].name, worst, densities[k].allowed);
        free(want);
    }
    free(u), free(normal), kd_frame_free(f);
}

static void test_stratified(void **state)
{
    (void)state;
    kd_frame *f = golden_load("densities");
    int64_t n;
    double *u = golden_f64(f, "u", &n), *one = golden_f64(f, "stratified.group0of1", NULL);
    double *three = golden_f64(f, "stratified.group2of3", NULL);
    for (int64_t i = 0; i < n; i++) {
        assert_true(fabs(kd_stratified(u[i], i, n, 0, 1) - one[i]) < 1e-12);
        assert_true(fabs(kd_stratified(u[i], i, n, 2, 3) - three[i]) < 1e-12);
    }
    free(u), free(one), free(three), kd_frame_free(f);
}

// Calls f(sigma, sigma_data) for each noise level and compares with NAME.sigma_data.
static void compare(const kd_frame *f, const char *name, double (*call)(double sigma, double d), double allowed)
{
    int64_t n;
    double *sigma = golden_f64(f, "sigma", &n);
    const char *const text[] = { "0.5", "0.6162", "1.0" };
    for (int k = 0; k < 3; k++) {
        char full[64];
        snprintf(full, sizeof full, "%s.sigma_data%s", name, text[k]);
        double *want = golden_f64(f, full, NULL), worst = 0;
        for (int64_t i = 0; i < n; i++) worst = fmax(worst, relative(call(sigma[i], strtod(text[k], NULL)), want[i]));
        if (!(worst <= allowed)) fail_msg("%s: error %.2g, allowed %.2g", full, worst, allowed);
        free(want);
    }
    free(sigma);
}

static double c_skip(double s, double d) { return kd_precond_of(s, d).c_skip; }
static double c_out(double s, double d) { return kd_precond_of(s, d).c_out; }
static double c_in(double s, double d) { return kd_precond_of(s, d).c_in; }
static double karras(double s, double d) { return kd_loss_weight(KD_WEIGHT_KARRAS, s, d); }
static double snr(double s, double d) { return kd_loss_weight(KD_WEIGHT_SNR, s, d); }
static double soft_min_snr(double s, double d) { return kd_loss_weight(KD_WEIGHT_SOFT_MIN_SNR, s, d); }

static void test_weights(void **state)
{
    (void)state;
    kd_frame *f = golden_load("weightings");
    compare(f, "c_skip", c_skip, 1e-7);               // these three are rounded to float
    compare(f, "c_out", c_out, 1e-7);
    compare(f, "c_in", c_in, 1e-7);
    compare(f, "weight.karras", karras, 0);
    compare(f, "weight.snr", snr, 1e-12);
    compare(f, "weight.soft-min-snr", soft_min_snr, 1e-12);
    assert_true(fabs(kd_precond_of(3, 0.5).c_noise - 0.27465307216702745) < 1e-7);
    kd_frame_free(f);
}

static void test_frequencies(void **state)
{
    (void)state;
    static const struct { const char *name; int64_t h, w, scales; } cases[] = {
        { "freq_weight.16x16.scales6", 16, 16, 6 }, { "freq_weight.16x5.scales2", 16, 5, 2 },
        { "freq_weight.8x12.scales3", 8, 12, 3 }, { "freq_weight.8x8.scales1", 8, 8, 1 } };
    kd_frame *f = golden_load("weightings");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        float got[256];
        int64_t n;
        double *want = golden_f64(f, cases[k].name, &n);
        assert_int_equal(n, cases[k].h * cases[k].w);
        kd_frequency_weights(got, cases[k].h, cases[k].w, cases[k].scales);
        assert_true(golden_error(got, want, n) < 1e-7);
        free(want);
    }
    kd_frame_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_densities), cmocka_unit_test(test_stratified),
                                        cmocka_unit_test(test_weights), cmocka_unit_test(test_frequencies) };
    return cmocka_run_group_tests_name("density", tests, NULL, NULL);
}
