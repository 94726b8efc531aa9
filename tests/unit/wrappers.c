// Every wrapper around every network of k-diffusion's own: what k_diffusion/external.py does, written out here in double
// precision, around the network itself. Its calls, its vector-Jacobian product, its loss.
#include "device/device.h"
#include "diffusion/denoiser.h"
#include "tests/support/golden.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N = 6, LEVELS = 1000, MOST = 32 * 32 * 3 };
static const char *const networks[] = { "unet_skip_stage", "v1t_plain", "v2_global" };
static const char *const wrappers[] = { "v", "eps", "vd" };

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

// The peer's wrappers ----------------------------------------------------------------------------------------------

/// log_sigmas of the linear schedule, as the peer's table has them: from alphas rounded to float32.
static void levels(double log_sigma[LEVELS])
{
    double alpha = 1;
    for (int i = 0; i < LEVELS; i++) {
        alpha *= 1 - (0.0001 + (0.02 - 0.0001) * i / (LEVELS - 1));
        log_sigma[i] = log(sqrt((1 - (double)(float)alpha) / (double)(float)alpha));
    }
}

/// DiscreteSchedule.sigma_to_t
static double step_of(double sigma, bool quantize)
{
    double at[LEVELS], x = log(sigma);
    int nearest = 0, low = 0;
    levels(at);
    for (int i = 1; i < LEVELS; i++) {
        if (fabs(x - at[i]) < fabs(x - at[nearest])) nearest = i;
        if (x >= at[i] && i < LEVELS - 1) low = i;
    }
    const double w = fmin(fmax((at[low] - x) / (at[low] - at[low + 1]), 0), 1);
    return quantize ? nearest : (1 - w) * low + w * (low + 1);
}

typedef struct wrap { double skip, out, in, told; } wrap;

static wrap wrap_of(const char *wrapper, double s, bool quantize)
{
    const double r = sqrt(s * s + 1);
    if (!strcmp(wrapper, "v")) return (wrap){ 1 / (r * r), -s / r, 1 / r, atan(s) / M_PI * 2 };
    const double t = fmax(step_of(s, quantize), 1e-3);       // the peer has no answer at step 0
    if (!strcmp(wrapper, "vd")) return (wrap){ 1 / (r * r), -s / r, 1 / r, t };
    return (wrap){ 1, -s, 1 / r, t };
}

// Ours -------------------------------------------------------------------------------------------------------------

typedef struct fixture {
    kd_model *m; kd_backend *be; kd_denoiser *d;
    int64_t size;
    float x[N * MOST], noise[N * MOST], sigma[N];
    kd_cond cond;
} fixture;

static void setup(fixture *f, const char *network, const char *wrapper, bool quantize)
{
    // below the lowest level, at it, just above it, between two, where two are as near, above the highest
    static const float sigmas[N] = { 0.004f, 0.0100013297f, 0.0100016f, 0.3f, 7, 200 };
    char path[100];
    kd_err err = {0};
    snprintf(path, sizeof path, "tests/golden/%s.weights.safetensors", network);
    must(kd_model_load(&f->m, path, false, &err), &err);
    must(kd_model_wrap(f->m, wrapper, &err), &err);
    f->m->config->quantize = quantize;
    must(kd_device_open(&f->be, "cpu", &err), &err);
    must(kd_denoiser_new(&f->d, f->m, f->be, &err), &err);
    const kd_config *c = f->m->config;
    f->size = c->size[0] * c->size[1] * c->channels;
    assert_true(f->size <= MOST);
    memcpy(f->sigma, sigmas, sizeof f->sigma);
    for (int64_t i = 0; i < N * f->size; i++) {
        f->x[i] = (float)(0.9 * sin((double)i * 1.7));
        f->noise[i] = (float)(1.4 * cos((double)i * 0.9 + (double)(i * i % 1009)));
    }
}

static void teardown(fixture *f)
{
    kd_denoiser_free(f->d);
    kd_backend_close(f->be);
    kd_model_free(f->m);
}

/// The network at in x, told what the wrapper tells it.
static void network(fixture *f, const wrap *w, const float *x, float *F)
{
    float *in = malloc((size_t)(N * f->size) * sizeof *in), told[N];
    kd_err err = {0};
    for (int i = 0; i < N; i++) told[i] = (float)w[i].told;
    for (int64_t i = 0; i < N * f->size; i++) in[i] = (float)(w[i / f->size].in * x[i]);
    must(kd_network_call(f->d, N, in, told, NULL, F, NULL, &err), &err);
    free(in);
}

static void check(const char *what, const fixture *f, const char *wrapper, const float *got, const double *want, double limit)
{
    for (int i = 0; i < N; i++) {
        double worst = 0, most = 0;
        for (int64_t k = i * f->size; k < (i + 1) * f->size; k++) {
            worst = fmax(worst, isfinite(got[k]) ? fabs(got[k] - want[k]) : INFINITY);
            most = fmax(most, fabs(want[k]));
        }
        if (!(worst <= limit * most)) fail_msg("%s %s at %g: off by %g of %g", wrapper, what, f->sigma[i], worst, most);
    }
}

static void denoised(fixture *f, const char *wrapper, const wrap *w)
{
    const size_t n = (size_t)(N * f->size);
    float *noisy = calloc(n, sizeof *noisy), *F = malloc(n * sizeof *F), *D = malloc(n * sizeof *D);
    double *want = malloc(n * sizeof *want);
    kd_err err = {0};
    for (size_t i = 0; i < n; i++) noisy[i] = f->x[i] + f->sigma[(int64_t)i / f->size] * f->noise[i];
    network(f, w, noisy, F);
    for (size_t i = 0; i < n; i++) {
        const wrap *k = &w[(int64_t)i / f->size];
        want[i] = k->out * F[i] + k->skip * noisy[i];
    }
    must(kd_denoise(f->d, N, noisy, f->sigma, NULL, NULL, D, &err), &err);
    check("denoised", f, wrapper, D, want, 3e-5);
    free(noisy), free(F), free(D), free(want);
}

/// Along one direction u, <vjp(v), u> = d/de <D(x + e u), v>: symmetric differences, in float32, so roughly.
static void product(fixture *f, const char *wrapper)
{
    const size_t n = (size_t)(N * f->size);
    const double e = 0.005;
    float *up = malloc(n * sizeof *up), *down = malloc(n * sizeof *down), *vjp = malloc(n * sizeof *vjp), *D = malloc(n * sizeof *D);
    kd_err err = {0};
    for (size_t i = 0; i < n; i++) {
        const float s = fmaxf(f->sigma[(int64_t)i / f->size], 0.1f);
        up[i] = f->x[i] * s + (float)e * s * f->noise[i];
        down[i] = f->x[i] * s - (float)e * s * f->noise[i];
        D[i] = f->x[i] * s;
    }
    must(kd_denoise_vjp(f->d, N, D, f->sigma, NULL, f->noise, NULL, vjp, &err), &err);
    must(kd_denoise(f->d, N, up, f->sigma, NULL, NULL, up, &err), &err);
    must(kd_denoise(f->d, N, down, f->sigma, NULL, NULL, down, &err), &err);
    for (int i = 0; i < N; i++) {
        const double s = fmax(f->sigma[i], 0.1);
        double slope = 0, inner = 0;
        for (int64_t k = i * f->size; k < (i + 1) * f->size; k++) {
            slope += ((double)up[k] - down[k]) * f->noise[k] / (2 * e * s);
            inner += (double)vjp[k] * f->noise[k];
        }
        if (!(fabs(slope - inner) <= 0.02 * fmax(fabs(slope), 1)))
            fail_msg("%s: the product at %g is %g, by differences %g", wrapper, f->sigma[i], inner, slope);
    }
    free(up), free(down), free(vjp), free(D);
}

static void loss(fixture *f, const char *wrapper, const wrap *w)
{
    const size_t n = (size_t)(N * f->size);
    float *noisy = calloc(n, sizeof *noisy), *F = malloc(n * sizeof *F), got[N];
    kd_err err = {0};
    for (size_t i = 0; i < n; i++) noisy[i] = f->x[i] + f->sigma[(int64_t)i / f->size] * f->noise[i];
    network(f, w, noisy, F);
    must(kd_denoiser_loss(f->d, N, f->x, f->noise, f->sigma, NULL, got, NULL, &err), &err);
    for (int i = 0; i < N; i++) {
        double sum = 0;
        const double s = f->sigma[i], r = sqrt(s * s + 1);
        for (int64_t k = i * f->size; k < (i + 1) * f->size; k++) {
            const double target = strcmp(wrapper, "eps") ? (f->noise[k] - s * f->x[k]) / r : f->noise[k];
            sum += (F[k] - target) * (F[k] - target) / (double)f->size;
        }
        if (!(fabs(got[i] - sum) <= 1e-4 * sum)) fail_msg("%s: the loss at %g is %g, not %g", wrapper, s, got[i], sum);
    }
    free(noisy), free(F);
}

static void all(void **state)
{
    (void)state;
    fixture *f = calloc(1, sizeof *f);
    for (size_t n = 0; n < sizeof networks / sizeof *networks; n++)
        for (int k = 0; k < 3; k++)
            for (int quantize = 0; quantize < (k ? 2 : 1); quantize++) {
                wrap w[N];
                setup(f, networks[n], wrappers[k], quantize);
                for (int i = 0; i < N; i++) w[i] = wrap_of(wrappers[k], f->sigma[i], quantize);
                denoised(f, wrappers[k], w);
                product(f, wrappers[k]);
                loss(f, wrappers[k], w);
                teardown(f);
            }
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
