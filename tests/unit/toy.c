// The toy mixture: its denoiser against the formula for one number, its gradient against finite differences, and the
// samplers' orders of convergence on it, through the same calls as a network.
#include "device/device.h"
#include "diffusion/denoiser.h"
#include "diffusion/sampler.h"
#include "diffusion/sigmas.h"
#include "model/toy.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { C = 2, H = 3, W = 2, SIZE = C * H * W };

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

static kd_model *mixture(int64_t k, bool per_pixel, double std)
{
    kd_err err = { 0 };
    kd_frame *f = kd_frame_new();
    kd_tensor *w, *s, *m;
    kd_model *model;
    const int64_t shape[] = { C, H, W };
    must(kd_frame_add(f, "weight", KD_F32, KD_SHAPE(k), NULL, NULL, &err), &err);
    must(kd_frame_add(f, "std", KD_F64, KD_SHAPE(k), NULL, NULL, &err), &err);
    must(kd_frame_add(f, "mean", KD_F32, per_pixel ? KD_SHAPE(k) : KD_SHAPE(k, C, H, W), NULL, NULL, &err), &err);
    w = kd_frame_get(f, "weight"), s = kd_frame_get(f, "std"), m = kd_frame_get(f, "mean");
    for (int64_t i = 0; i < k; i++) ((float *)w->data)[i] = (float)(1 + i), ((double *)s->data)[i] = std * (double)(1 + i);
    for (int64_t i = 0; i < kd_tensor_count(m); i++) ((float *)m->data)[i] = (float)sin(1 + 2.3 * (double)i) / 2;
    must(kd_toy_new(&model, f, "toy", per_pixel ? shape : NULL, &err), &err);
    kd_frame_free(f);
    return model;
}

typedef struct fixture { kd_model *m; kd_backend *be; kd_denoiser *d; } fixture;

static fixture open_model(int64_t k, bool per_pixel, double std)
{
    kd_err err = { 0 };
    fixture f = { .m = mixture(k, per_pixel, std) };
    must(kd_device_open(&f.be, "cpu", &err), &err);
    must(kd_denoiser_new(&f.d, f.m, f.be, &err), &err);
    return f;
}

static void close_model(fixture *f)
{
    kd_denoiser_free(f->d), kd_backend_close(f->be), kd_model_free(f->m);
}

// Two components for each number: with v_k = std_k^2 + s^2 and r_k proportional to w_k v_k^(-1/2) exp(-(x - m_k)^2 / (2 v_k)),
// D = sum r_k (m_k s^2 + x std_k^2) / v_k.
static void test_per_pixel(void **state)
{
    (void)state;
    fixture f = open_model(2, true, 0.25);
    const float *m = f.m->w + kd_params_find(f.m->params, "mean")->offset;
    float x[2 * SIZE], got[2 * SIZE], sigma[2] = { 0.3F, 20 };
    kd_err err = { 0 };
    for (int i = 0; i < 2 * SIZE; i++) x[i] = (float)cos(i) * (1 + sigma[i / SIZE]);
    must(kd_denoise(f.d, 2, x, sigma, NULL, NULL, got, &err), &err);
    for (int i = 0; i < 2 * SIZE; i++) {
        const double s = sigma[i / SIZE];
        double sum = 0, D = 0;
        for (int k = 0; k < 2; k++) {
            const double q = 0.25 * (k + 1), v = q * q + s * s, r = (k + 1) / sqrt(v) * exp(-pow(x[i] - m[k], 2) / (2 * v));
            sum += r, D += r * (m[k] * s * s + x[i] * q * q) / v;
        }
        assert_true(fabs(got[i] - D / sum) < 1e-6);
    }
    close_model(&f);
}

static void check_gradient(int64_t k, bool per_pixel)
{
    fixture f = open_model(k, per_pixel, 0.3);
    float x[SIZE], v[SIZE], D[SIZE], again[SIZE], vjp[SIZE], sigma = 0.4F;
    kd_err err = { 0 };
    for (int i = 0; i < SIZE; i++) x[i] = 0.5F * (float)cos(i), v[i] = (float)sin(3 * i);
    must(kd_denoise_vjp(f.d, 1, x, &sigma, NULL, v, D, vjp, &err), &err);
    must(kd_denoise(f.d, 1, x, &sigma, NULL, NULL, again, &err), &err);
    assert_memory_equal(D, again, sizeof D);
    for (int i = 0; i < SIZE; i++) {
        const float at = x[i], h = 0.01F;
        float up[SIZE], down[SIZE];
        double slope = 0;
        x[i] = at + h;
        must(kd_denoise(f.d, 1, x, &sigma, NULL, NULL, up, &err), &err);
        x[i] = at - h;
        must(kd_denoise(f.d, 1, x, &sigma, NULL, NULL, down, &err), &err);
        x[i] = at;
        for (int j = 0; j < SIZE; j++) slope += v[j] * ((double)up[j] - down[j]) / (2 * (double)h);
        if (!(fabs(slope - vjp[i]) < 2e-3)) fail_msg("element %d: %g, by differences %g", i, (double)vjp[i], slope);
    }
    close_model(&f);
}

static void test_gradient(void **state)
{
    (void)state;
    check_gradient(1, true);
    check_gradient(3, true);
    check_gradient(1, false);
    check_gradient(3, false);
}

// Orders -----------------------------------------------------------------------------------------------------------

static int denoise(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err)
{
    (void)image;
    return kd_denoise_on(arg, n, x, sigma, NULL, out, err);
}

enum { MOST_STEPS = 256 };
static const double HIGH = 4, LOW = 0.1;

// Levels to measure orders by, with n steps. Their steps begin small: multistep samplers take the first ones at a lower order.
// Every other level is moved, so that steps of 1.3 and 0.7 alternate: a wrong ratio of steps costs an order.
static void levels(float *sigmas, int64_t n)
{
    for (int64_t i = 0; i <= n; i++) {
        const double u = ((double)i + (i % 2 && i < n ? 0.3 : 0)) / (double)n;
        sigmas[i] = (float)(HIGH * pow(LOW / HIGH, u * u));
    }
}

// The worst error of a run against the ODE's exact solution for one Gaussian of deviation 1:
// x(low) = m + (x(high) - m) sqrt(1 + low^2) / sqrt(1 + high^2).
static double error_of(const fixture *f, const char *sampler, const kd_sampler_opts *o, int64_t steps, int64_t *calls)
{
    float sigmas[MOST_STEPS], x[SIZE];
    double want[SIZE], worst = 0;
    kd_err err = { 0 };
    const kd_draw draw = { 3, 0 };
    assert_true(steps < MOST_STEPS);
    levels(sigmas, steps);
    kd_sample_start(x, SIZE, draw, sigmas[0]);
    for (int i = 0; i < SIZE; i++) {
        const double mean = f->m->w[kd_params_find(f->m->params, "mean")->offset + i % C * H * W + i / C];
        want[i] = mean + (x[i] - mean) * sqrt((1 + LOW * LOW) / (1 + HIGH * HIGH));
    }
    const kd_sampling g = { .be = f->be, .sampler = kd_sampler_find(sampler), .o = o, .sigmas = sigmas, .steps = steps, .call = denoise,
                            .arg = f->d };
    must(kd_sample(&g, 1, SIZE, &draw, x, calls, &err), &err);
    for (int i = 0; i < SIZE; i++) worst = fmax(worst, fabs(x[i] - want[i]));
    return worst;
}

// dpm_fast: so many calls that the second run has twice the steps; its last one is of order 1, or of order 2 and then all
// its orders show. dpmpp_3m_sde: see dpmpp.c for why it is not 3.
typedef struct order { const char *sampler; int64_t steps, twice; double is, within; int64_t order; const char *solver; double r; } order;
static order orders[] = {
    { "euler", 96, 192, 1, 0.02, 0, "midpoint", 0.5 },
    { "euler_ancestral", 96, 192, 1, 0.02, 0, "midpoint", 0.5 },
    { "ddim", 96, 192, 1, 0.02, 0, "midpoint", 0.5 },
    { "heun", 48, 96, 2, 0.05, 0, "midpoint", 0.5 },
    { "dpm_2", 48, 96, 2, 0.05, 0, "midpoint", 0.5 },
    { "dpm_2_ancestral", 48, 96, 2, 0.05, 0, "midpoint", 0.5 },
    { "dpmpp_2s_ancestral", 48, 96, 2, 0.05, 0, "midpoint", 0.5 },
    { "dpmpp_sde", 48, 96, 2, 0.05, 0, "midpoint", 0.5 },
    { "dpmpp_sde", 48, 96, 2, 0.05, 0, "midpoint", 0.3 },
    { "dpmpp_2m", 48, 96, 2, 0.05, 0, "midpoint", 0.5 },
    { "dpmpp_2m_sde", 48, 96, 2, 0.05, 0, "midpoint", 0.5 },
    { "dpmpp_2m_sde", 48, 96, 2, 0.07, 0, "heun", 0.5 },
    { "dpmpp_3m_sde", 48, 96, 1.85, 0.08, 0, "midpoint", 0.5 },
    { "dpm_fast", 93, 189, 2, 0.08, 0, "midpoint", 0.5 },
    { "dpm_fast", 47, 95, 3, 0.15, 0, "midpoint", 0.5 },
    { "lms", 96, 192, 1, 0.02, 1, "midpoint", 0.5 },
    { "lms", 96, 192, 2, 0.05, 2, "midpoint", 0.5 },
    { "lms", 48, 96, 3, 0.1, 3, "midpoint", 0.5 },
    { "lms", 24, 48, 4, 0.15, 0, "midpoint", 0.5 } };

static void test_order(void **state)
{
    const order *w = *state;
    fixture f = open_model(1, false, 1);
    kd_sampler_opts o = kd_sampler_defaults();
    o.eta = 0, o.order = w->order, o.solver = w->solver, o.r = w->r;
    const double coarse = error_of(&f, w->sampler, &o, w->steps, NULL), fine = error_of(&f, w->sampler, &o, w->twice, NULL);
    const double p = log2(coarse / fine);
    printf("# %-20s %lld steps %.2g, twice as many %.2g: order %.2f\n", w->sampler, (long long)w->steps, coarse, fine, p);
    assert_true(fine > 4e-6);                          // not rounding
    assert_true(fabs(p - w->is) < w->within);
    close_model(&f);
}

// dpm_adaptive has its order in what a smaller error costs in calls.
static void test_order_of_adaptive(void **state)
{
    (void)state;
    fixture f = open_model(1, false, 1);
    for (int q = 2; q <= 3; q++) {
        kd_sampler_opts o = kd_sampler_defaults();
        int64_t calls[2];
        double error[2];
        o.eta = 0, o.order = q;
        for (int k = 0; k < 2; k++) {
            o.rtol = o.atol = k ? 3e-5 : 3e-4;
            error[k] = error_of(&f, "dpm_adaptive", &o, 1, &calls[k]);
        }
        const double p = log(error[0] / error[1]) / log((double)calls[1] / (double)calls[0]);
        printf("# dpm_adaptive %d: %lld calls %.2g, %lld calls %.2g: order %.2f\n", q, (long long)calls[0], error[0], (long long)calls[1],
               error[1], p);
        assert_true(error[1] > 4e-6 && p > q - 0.2);
    }
    close_model(&f);
}

// Whatever noise a sampler adds, samples of a Gaussian are that Gaussian: 3,600 numbers of deviation 1 have one of 1 +- 0.012.
static void test_distribution(void **state)
{
    (void)state;
    enum { IMAGES = 300, STEPS = 50 };
    int samplers;
    const kd_sampler *list = kd_sampler_list(&samplers);
    fixture f = open_model(1, false, 1);
    const float *m = f.m->w + kd_params_find(f.m->params, "mean")->offset;
    float sigmas[STEPS + 1], *x = malloc(IMAGES * SIZE * sizeof *x);
    kd_draw draw[IMAGES];
    kd_err err = { 0 };
    must(kd_sigmas_karras(sigmas, STEPS, 0.02, 40, 7, &err), &err);
    for (int k = 0; k < samplers; k++) {
        kd_sampler_opts o = kd_sampler_defaults();
        double sum = 0, square = 0;
        o.eta = 1, o.s_churn = 10, o.rtol = 1e-3;
        const kd_sampling g = { .be = f.be, .sampler = &list[k], .o = &o, .sigmas = sigmas, .steps = STEPS, .call = denoise,
                                .arg = f.d };
        for (int j = 0; j < IMAGES; j++) {
            draw[j] = (kd_draw){ 17, (uint64_t)j };
            kd_sample_start(x + j * SIZE, SIZE, draw[j], sigmas[0]);
        }
        must(kd_sample(&g, IMAGES, SIZE, draw, x, NULL, &err), &err);
        for (int i = 0; i < IMAGES * SIZE; i++) {
            const double d = x[i] - m[i % SIZE % C * H * W + i % SIZE / C];
            sum += d / (IMAGES * SIZE), square += d * d / (IMAGES * SIZE);
        }
        printf("# %-20s mean %.3f, deviation %.3f\n", list[k].name, sum, sqrt(square - sum * sum));
        // Steps of first order draw all numbers a little together.
        const bool first = strstr("euler euler_ancestral ddim ddpm", list[k].name);
        assert_true(fabs(sum) < 0.05 && fabs(sqrt(square - sum * sum) - 1) < (first ? 0.1 : 0.04));
    }
    free(x);
    close_model(&f);
}

// DDIM is Euler and DDPM is Euler ancestral, written by other letters.
static void test_ddim(void **state)
{
    (void)state;
    const char *const pairs[][2] = { { "ddim", "euler" }, { "ddpm", "euler_ancestral" } };
    fixture f = open_model(3, true, 0.3);
    const kd_sampler_opts o = kd_sampler_defaults();
    float sigmas[13];
    kd_err err = { 0 };
    must(kd_sigmas_karras(sigmas, 12, 0.01, 80, 7, &err), &err);
    for (int k = 0; k < 2; k++) {
        float x[2][SIZE];
        const kd_draw draw = { 5, 6 };
        for (int j = 0; j < 2; j++) {
            const kd_sampling g = { .be = f.be, .sampler = kd_sampler_find(pairs[k][j]), .o = &o, .sigmas = sigmas, .steps = 12,
                                    .call = denoise, .arg = f.d };
            kd_sample_start(x[j], SIZE, draw, sigmas[0]);
            must(kd_sample(&g, 1, SIZE, &draw, x[j], NULL, &err), &err);
        }
        for (int i = 0; i < SIZE; i++) assert_true(fabs(x[0][i] - x[1][i]) < 1e-5);
    }
    close_model(&f);
}

// A Brownian path is the same for any number of steps: finer steps come nearer to one image, that of the seed. Also when the
// first level is not quite the same number.
static double distance(const fixture *f, const char *sampler, double high, int64_t steps, uint64_t seed, const float *to, float *x)
{
    const kd_sampler_opts o = kd_sampler_defaults();
    const kd_draw draw = { seed, 2 };
    float sigmas[512];
    double sum = 0;
    kd_err err = { 0 };
    must(kd_sigmas_karras(sigmas, steps, 0.05, high, 7, &err), &err);
    const kd_sampling g = { .be = f->be, .sampler = kd_sampler_find(sampler), .o = &o, .sigmas = sigmas, .steps = steps, .call = denoise,
                            .arg = f->d };
    kd_sample_start(x, SIZE, draw, sigmas[0]);
    must(kd_sample(&g, 1, SIZE, &draw, x, NULL, &err), &err);
    for (int i = 0; to && i < SIZE; i++) sum += pow((double)x[i] - to[i], 2) / SIZE;
    return sqrt(sum);
}

static void test_same_path(void **state)
{
    (void)state;
    const char *const samplers[] = { "dpmpp_sde", "dpmpp_2m_sde", "dpmpp_3m_sde" };
    fixture f = open_model(1, false, 1);
    for (int k = 0; k < 3; k++) {
        float finest[SIZE], x[SIZE];
        distance(&f, samplers[k], 80, 400, 1, NULL, finest);
        const double coarse = distance(&f, samplers[k], 80, 20, 1, finest, x), fine = distance(&f, samplers[k], 80, 80, 1, finest, x);
        const double moved = distance(&f, samplers[k], 79.99998, 80, 1, finest, x), other = distance(&f, samplers[k], 80, 80, 2, finest, x);
        printf("# %-13s 20 steps %.3f, 80 steps %.3f, from 79.99998 %.3f, another seed %.3f\n", samplers[k], coarse, fine, moved, other);
        assert_true(fine < 0.6 * coarse && coarse < 0.5 * other && fabs(moved - fine) < 0.02);
    }
    close_model(&f);
}

int main(void)
{
    enum { ORDERS = sizeof orders / sizeof *orders, OTHERS = 6 };
    struct CMUnitTest tests[ORDERS + OTHERS] = {
        cmocka_unit_test(test_per_pixel), cmocka_unit_test(test_gradient), cmocka_unit_test(test_ddim), cmocka_unit_test(test_same_path),
        cmocka_unit_test(test_order_of_adaptive), cmocka_unit_test(test_distribution) };
    for (int k = 0; k < ORDERS; k++) tests[k + OTHERS] = (struct CMUnitTest){ orders[k].sampler, test_order, NULL, NULL, &orders[k] };
    return cmocka_run_group_tests_name("toy", tests, NULL, NULL);
}
