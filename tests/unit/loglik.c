// Dormand-Prince on systems that are known, and log-likelihoods: golden log_likelihood (its tight runs, the exact values) and
// closed forms.
#include "device/device.h"
#include "diffusion/loglik.h"
#include "diffusion/ode.h"
#include "diffusion/sampler.h"
#include "model/toy.h"
#include "tests/support/golden.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

// Oscillators y'' = -w^2 y, w = 1, 4, 16 by place; size 2.
static int oscillate(void *arg, int64_t m, const int64_t *system, const double *t, const double *y, double *dy, kd_err *err)
{
    (void)t, (void)err;
    for (int64_t j = 0; j < m; j++) {
        const double w = pow(4, (double)system[j]);
        dy[2 * j] = y[2 * j + 1], dy[2 * j + 1] = -w * w * y[2 * j];
    }
    ++*(int64_t *)arg;
    return 0;
}

static void test_oscillators(void **state)
{
    (void)state;
    for (double tolerance = 1e-4; tolerance > 1e-11; tolerance /= 100) {
        int64_t rounds = 0, calls[3], own;
        double y[6] = { 1, 0, 1, 0, 1, 0 };
        const kd_ode o = { .f = oscillate, .arg = &rounds, .rtol = tolerance, .atol = tolerance, .part = 2, .max_calls = 100000 };
        kd_err err = { 0 };
        must(kd_ode_dopri5(&o, 1, 3, 3, 2, y, calls, &err), &err);
        for (int i = 0; i < 3; i++) {
            const double error = fabs(y[2 * i] - cos(2 * pow(4, i)));
            if (!(error < 200 * tolerance)) fail_msg("tolerance %g, system %d: error %g", tolerance, i, error);
        }
        assert_true(calls[0] < calls[1] && calls[1] < calls[2]);       // each at its own pace
        assert_int_equal(rounds, calls[2]);
        double alone[2] = { 1, 0 };                                    // and whatever is beside it
        must(kd_ode_dopri5(&o, 1, 3, 1, 2, alone, &own, &err), &err);
        assert_memory_equal(alone, y, sizeof alone);
        assert_int_equal(own, calls[0]);
    }
}

static int explode(void *arg, int64_t m, const int64_t *system, const double *t, const double *y, double *dy, kd_err *err)
{
    (void)arg, (void)system, (void)y, (void)err;
    for (int64_t j = 0; j < m; j++) dy[j] = t[j] > 0.5 ? NAN : 1;
    return 0;
}

static void test_failures(void **state)
{
    (void)state;
    int64_t rounds = 0;
    double y[2] = { 1, 0 };
    kd_ode o = { .f = oscillate, .arg = &rounds, .part = 2, .max_calls = 50 };
    kd_err err = { 0 }, nan = { 0 };
    assert_int_equal(kd_ode_dopri5(&o, 1, 3, 1, 2, y, NULL, &err), KD_EFAIL);      // no tolerance can be met
    assert_non_null(strstr(err.msg, "50"));
    o = (kd_ode){ .f = explode, .rtol = 1e-3, .atol = 1e-3, .part = 1, .max_calls = 1000 };
    assert_int_equal(kd_ode_dopri5(&o, 0, 1, 1, 1, y, NULL, &nan), KD_EFAIL);
    assert_non_null(strstr(nan.msg, "NaN"));
}

// Golden -----------------------------------------------------------------------------------------------------------

// NHWC out of golden NCHW.
static float *images(const kd_frame *f, const char *name, const kd_config *c, int64_t *n)
{
    int64_t count;
    float *nchw = golden_f32(f, name, &count), *x = malloc((size_t)count * sizeof *x);
    const int64_t channels = c->channels, pixels = c->size[0] * c->size[1], size = channels * pixels;
    for (int64_t i = 0; i < count; i++) x[i] = nchw[i / size * size + i % channels * pixels + i % size / channels];
    free(nchw);
    *n = count / size;
    return x;
}

static void run(const kd_frame *f, const char *which, kd_model *m, const kd_loglik_opts *o, double *got, int64_t *calls)
{
    kd_backend *be;
    kd_denoiser *d;
    kd_err err = { 0 };
    char name[32];
    int64_t n;
    must(kd_device_open(&be, "cpu", &err), &err);
    must(kd_denoiser_new(&d, m, be, &err), &err);
    snprintf(name, sizeof name, "%s.x", which);
    float *x = images(f, name, m->config, &n);
    snprintf(name, sizeof name, "%s.bits", which);
    float *v = images(f, name, m->config, &n);
    for (int64_t i = 0; i < n * m->config->size[0] * m->config->size[1] * m->config->channels; i++) v[i] = 2 * v[i] - 1;
    must(kd_loglik(d, o, n, x, NULL, v, got, calls, &err), &err);
    free(x), free(v);
    kd_denoiser_free(d);
    kd_backend_close(be);
}

static kd_model *gauss(const kd_frame *golden)
{
    kd_frame *f = kd_frame_new();
    kd_model *m;
    kd_err err = { 0 };
    float one = 1, std = 0.5F, *mu = golden_f32(golden, "gauss.mu", NULL);
    must(kd_frame_add(f, "weight", KD_F32, KD_SHAPE(1), &one, NULL, &err), &err);
    must(kd_frame_add(f, "std", KD_F32, KD_SHAPE(1), &std, NULL, &err), &err);
    must(kd_frame_add(f, "mean", KD_F32, KD_SHAPE(1, 3, 4, 4), mu, NULL, &err), &err);
    must(kd_toy_new(&m, f, "gauss", NULL, &err), &err);
    kd_frame_free(f);
    free(mu);
    return m;
}

static void near(const char *what, const double *got, const kd_frame *f, const char *name, double allowed)
{
    int64_t n;
    double *want = golden_f64(f, name, &n);
    for (int64_t i = 0; i < n; i++) {
        printf("# %-46s %.6f, want %.6f\n", what, got[i], want[i]);
        assert_true(fabs(got[i] - want[i]) <= allowed);
    }
    free(want);
}

static void test_gauss(void **state)
{
    (void)state;
    kd_frame *f = golden_load("log_likelihood");
    kd_model *m = gauss(f);
    kd_loglik_opts o = kd_loglik_defaults();
    for (int k = 0; k < 4; k++) {
        double got[2];
        int64_t calls[2];
        o.sigma_min = k % 2 ? 0.03 : 0.01, o.sigma_max = k % 2 ? 14.6 : 80, o.batch_norm = k >= 2, o.rtol = o.atol = 1e-7;
        run(f, "gauss", m, &o, got, calls);
        const char *level = k % 2 ? "gauss.min0.03.max14.6" : "gauss.min0.01.max80.0";
        char name[80];
        snprintf(name, sizeof name, "%s.ll_ode_exact", level);
        near(name, got, f, name, 3e-5);
        snprintf(name, sizeof name, "%s.atol1e-09.rtol1e-09.ll", level);
        near(name, got, f, name, 3e-5);
        assert_true(calls[0] < 400);
    }
    kd_model_free(m);
    kd_frame_free(f);
}

static void test_network(void **state)
{
    (void)state;
    kd_frame *f = golden_load("log_likelihood");
    kd_model *m;
    kd_err err = { 0 };
    must(kd_model_load(&m, "tests/golden/v2_global.weights.safetensors", false, &err), &err);
    kd_loglik_opts o = kd_loglik_defaults();
    double got[2];
    o.rtol = o.atol = 1e-6;
    run(f, "model", m, &o, got, NULL);
    near("model.min0.01.max80.0", got, f, "model.min0.01.max80.0.atol1e-06.rtol1e-06.ll", 1e-2);
    kd_model_free(m);
    kd_frame_free(f);
}

// Three Gaussians over the image, whose density is known: the mean over many probes is it within their standard error, which is
// the spread of means over fewer of them.
static void test_probes(void **state)
{
    (void)state;
    enum { K = 3, SIZE = 6, PROBES = 400, GROUP = 20 };
    float weight[K] = { 1, 2, 3 }, std[K] = { 0.3F, 0.5F, 0.4F }, mean[K * SIZE], x[SIZE], v[PROBES * SIZE];
    for (int i = 0; i < K * SIZE; i++) mean[i] = 0.7F * (float)sin(1 + 2.3 * i);
    for (int i = 0; i < SIZE; i++) x[i] = (mean[i] + mean[SIZE + i]) / 2 + 0.2F * (float)cos(i);
    kd_frame *f = kd_frame_new();
    kd_model *m;
    kd_backend *be;
    kd_denoiser *d;
    kd_err err = { 0 };
    must(kd_frame_add(f, "weight", KD_F32, KD_SHAPE(K), weight, NULL, &err), &err);
    must(kd_frame_add(f, "std", KD_F32, KD_SHAPE(K), std, NULL, &err), &err);
    must(kd_frame_add(f, "mean", KD_F32, KD_SHAPE(K, 1, 2, 3), mean, NULL, &err), &err);
    must(kd_toy_new(&m, f, "mixture", NULL, &err), &err);
    must(kd_device_open(&be, "cpu", &err), &err);
    must(kd_denoiser_new(&d, m, be, &err), &err);

    kd_loglik_opts o = kd_loglik_defaults();
    o.rtol = o.atol = 1e-6, o.probes = PROBES;
    double density = 0, nats[PROBES], average = 0, square = 0, spread = 0;
    for (int k = 0; k < K; k++) {
        const double var = (double)std[k] * std[k] + o.sigma_min * o.sigma_min;
        double q = 0;
        for (int i = 0; i < SIZE; i++) q += pow((double)x[i] - mean[k * SIZE + i], 2);
        density += weight[k] / 6 * exp(-q / (2 * var)) * pow(2 * M_PI * var, -SIZE / 2.);
    }
    kd_loglik_probes(v, PROBES, SIZE, 3, 4);
    must(kd_loglik(d, &o, 1, x, NULL, v, nats, NULL, &err), &err);
    for (int p = 0; p < PROBES; p++) average += nats[p] / PROBES;
    for (int p = 0; p < PROBES; p++) square += pow(nats[p] - average, 2) / (PROBES - 1);
    for (int g = 0; g < PROBES / GROUP; g++) {
        double part = 0;
        for (int p = 0; p < GROUP; p++) part += nats[g * GROUP + p] / GROUP;
        spread += pow(part - average, 2) / (PROBES / GROUP - 1);
    }
    const double error = sqrt(square / PROBES);
    printf("# %d probes: %.4f +- %.4f, want %.4f; means of %d differ by %.4f, expected %.4f\n", PROBES, average, error, log(density), GROUP,
           sqrt(spread), sqrt(square / GROUP));
    assert_true(error > 0.005 && fabs(average - log(density)) < 3 * error);
    assert_true(spread / (square / GROUP) > 0.4 && spread / (square / GROUP) < 2);
    kd_denoiser_free(d), kd_backend_close(be), kd_model_free(m), kd_frame_free(f);
}

// 8-bit pixels under a Gaussian: bits a value are those of the pixels' probabilities, the density integrated over each level.
static void test_change_of_scale(void **state)
{
    (void)state;
    enum { SIDE = 32, SIZE = SIDE * SIDE, LEVEL = 255 };
    const double deviation = 0.25, centre = 0.1;
    float one = 1, std = (float)deviation, mean[SIZE], level[SIZE], x[SIZE], v[SIZE];
    double bits = 0, nats;
    kd_frame *f = kd_frame_new();
    kd_model *m;
    kd_backend *be;
    kd_denoiser *d;
    kd_err err = { 0 };
    for (int i = 0; i < SIZE; i++) {
        const int p = 64 + i * 37 % 150;
        mean[i] = (float)centre, level[i] = (float)p / LEVEL * 2 - 1;
        const double a = ((p - 0.5) / LEVEL * 2 - 1 - centre) / deviation, b = ((p + 0.5) / LEVEL * 2 - 1 - centre) / deviation;
        bits -= log2((erf(b / sqrt(2)) - erf(a / sqrt(2))) / 2) / SIZE;
    }
    must(kd_frame_add(f, "weight", KD_F32, KD_SHAPE(1), &one, NULL, &err), &err);
    must(kd_frame_add(f, "std", KD_F32, KD_SHAPE(1), &std, NULL, &err), &err);
    must(kd_frame_add(f, "mean", KD_F32, KD_SHAPE(1, 1, SIDE, SIDE), mean, NULL, &err), &err);
    must(kd_toy_new(&m, f, "gauss", NULL, &err), &err);
    must(kd_device_open(&be, "cpu", &err), &err);
    must(kd_denoiser_new(&d, m, be, &err), &err);
    kd_loglik_opts o = kd_loglik_defaults();
    o.sigma_min = 1e-3, o.rtol = o.atol = 1e-6;
    kd_dequantize(x, level, SIZE, 1, 2);
    kd_loglik_probes(v, 1, SIZE, 1, 2);
    must(kd_loglik(d, &o, 1, x, NULL, v, &nats, NULL, &err), &err);
    const double got = kd_bits_per_dim(nats, SIZE);
    printf("# %.5f bits a value, of the pixels' probabilities %.5f\n", got, bits);
    assert_true(fabs(got - bits) < 2e-3);
    kd_denoiser_free(d), kd_backend_close(be), kd_model_free(m), kd_frame_free(f);
}

// Images that take different numbers of steps are the same bits together and alone: each has its own probes and class.
static void test_company(void **state)
{
    (void)state;
    enum { N = 3, SIZE = 28 * 28, PROBES = 2 };
    kd_model *m;
    kd_backend *be;
    kd_denoiser *d;
    kd_err err = { 0 };
    const int64_t class_cond[N] = { 1, 2, 3 };
    float x[N * SIZE], v[N * PROBES * SIZE];
    double together[N * PROBES], alone[PROBES];
    int64_t calls[N], own;
    must(kd_model_load(&m, "tests/golden/v2_neighborhood_k7.weights.safetensors", false, &err), &err);
    must(kd_device_open(&be, "cpu", &err), &err);
    must(kd_denoiser_new(&d, m, be, &err), &err);
    for (int j = 0; j < N; j++) {
        kd_sample_start(x + j * SIZE, SIZE, (kd_draw){ 1, (uint64_t)j }, j == 1 ? 5 : 0.1F);
        kd_loglik_probes(v + j * PROBES * SIZE, PROBES, SIZE, 1, (uint64_t)j);
    }
    kd_loglik_opts o = kd_loglik_defaults();
    o.rtol = o.atol = 0.1, o.probes = PROBES, o.sigma_min = 0.5, o.sigma_max = 20;
    must(kd_loglik(d, &o, N, x, class_cond, v, together, calls, &err), &err);
    assert_true(calls[0] != calls[1] && calls[1] != calls[2]);
    for (int j = 0; j < N; j++) {
        must(kd_loglik(d, &o, 1, x + j * SIZE, class_cond + j, v + j * PROBES * SIZE, alone, &own, &err), &err);
        assert_memory_equal(alone, together + j * PROBES, sizeof alone);
        assert_int_equal(own, calls[j]);
    }
    kd_denoiser_free(d), kd_backend_close(be), kd_model_free(m);
}

static int64_t asked;
static void count(void *arg) { (void)arg, asked++; }

static void test_no_images_and_nan(void **state)
{
    (void)state;
    kd_frame *f = golden_load("log_likelihood");
    kd_model *m = gauss(f);
    kd_backend *be;
    kd_denoiser *d;
    kd_err err = { 0 }, nan = { 0 };
    float x[48] = { 0 }, v[48];
    double nats;
    kd_loglik_opts o = kd_loglik_defaults();
    must(kd_device_open(&be, "cpu", &err), &err);
    must(kd_denoiser_new(&d, m, be, &err), &err);
    kd_loglik_probes(v, 1, 48, 1, 2);
    o.tick = count;
    must(kd_loglik(d, &o, 0, x, NULL, v, &nats, NULL, &err), &err);
    assert_int_equal(asked, 0);
    x[47] = NAN;
    assert_int_equal(kd_loglik(d, &o, 1, x, NULL, v, &nats, NULL, &nan), KD_EFAIL);
    assert_string_equal(nan.msg, "denoiser gave NaN or infinity at sigma 0.01");
    kd_denoiser_free(d), kd_backend_close(be), kd_model_free(m), kd_frame_free(f);
}

// A Gaussian's own entropy in bits, and the levels of 8 bits.
static void test_bits(void **state)
{
    (void)state;
    assert_true(fabs(kd_bits_per_dim(-784 * log(2), 784) - (1 + log2(127.5))) < 1e-12);
    float x[1000], v[2000];
    double mean = 0, most = 0;
    for (int i = 0; i < 1000; i++) x[i] = 0.25F;
    kd_dequantize(v, x, 1000, 5, 6);
    for (int i = 0; i < 1000; i++) mean += (v[i] - 0.25) / 1000, most = fmax(most, fabs(v[i] - 0.25));
    assert_true(fabs(mean) < 3e-4 && most > 0.99 / 255 && most <= 1.0001 / 255);
    double sum = 0, cross = 0;
    kd_loglik_probes(v, 2, 1000, 5, 6);
    for (int i = 0; i < 1000; i++) {
        assert_true(v[i] == 1 || v[i] == -1);
        sum += v[i], cross += v[i] * v[1000 + i];
    }
    assert_true(fabs(sum) < 130 && fabs(cross) < 130);                 // 4 deviations
    float other[1000];
    kd_loglik_probes(other, 1, 1000, 5, 7);                            // another image, another seed
    assert_memory_not_equal(other, v, sizeof other);
    kd_loglik_probes(other, 1, 1000, 6, 6);
    assert_memory_not_equal(other, v, sizeof other);
    kd_dequantize(v, x, 1000, 5, 6), kd_dequantize(other, x, 1000, 5, 7);
    assert_memory_not_equal(other, v, sizeof other);
    kd_dequantize(other, x, 1000, 6, 6);
    assert_memory_not_equal(other, v, sizeof other);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_oscillators), cmocka_unit_test(test_failures), cmocka_unit_test(test_gauss),
                                        cmocka_unit_test(test_network), cmocka_unit_test(test_probes), cmocka_unit_test(test_company),
                                        cmocka_unit_test(test_change_of_scale), cmocka_unit_test(test_no_images_and_nan),
                                        cmocka_unit_test(test_bits) };
    return cmocka_run_group_tests_name("loglik", tests, NULL, NULL);
}
