// unet.cu's diffusion beside ours: its Python program's tables of the linear schedule, a noised image and its loss, a step of its
// generator. Its tables are products of float32 numbers, ours of double ones rounded once: that is how far they are apart.
// Peer: https://github.com/clu0/unet.cu, train_unet.py, run by PyTorch.
#include "device/device.h"
#include "diffusion/denoiser.h"
#include "diffusion/sampler.h"
#include "model/steps.h"
#include "tests/support/golden.h"
#include "tests/support/sampling.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { STEPS = 1000, PIXELS = 16 };

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

static kd_config *config(void)
{
    kd_config *c;
    kd_err err = { 0 };
    must(kd_config_parse(&c, "{\"model\": {\"type\": \"guided_diffusion\", \"image_size\": 4, \"num_channels\": 32,"
                             " \"channel_mult\": \"1\", \"input_channels\": 1,"
                             " \"in_channels\": 1, \"max_period\": 1000, \"num_head_channels\": 32}}", "seed.json",
                         false, NULL, &err), &err);
    return c;
}

static double apart(double got, double want) { return fabs(got - want) / fabs(want); }

static void test_tables(void **state)
{
    (void)state;
    kd_frame *f = golden_load("seed_diffusion");
    kd_config *c = config();
    int64_t n;
    double *beta = golden_f64(f, "betas", &n), *alpha = golden_f64(f, "alphas_cumprod", NULL),
           *root = golden_f64(f, "sqrt_alphas_cumprod", NULL), *rest = golden_f64(f, "sqrt_one_minus_alphas_cumprod", NULL);
    double worst_beta = 0, worst_alpha = 0, worst_sigma = 0;
    assert_int_equal(n, STEPS);
    assert_int_equal(c->steps->n, STEPS);
    for (int i = 0; i < STEPS; i++) {
        worst_beta = fmax(worst_beta, apart(c->steps->beta[i], beta[i]));
        worst_alpha = fmax(worst_alpha, apart(c->steps->alpha[i], alpha[i]));
        worst_sigma = fmax(worst_sigma, apart(c->steps->sigma[i], rest[i] / root[i]));
    }
    print_message("beta %.2g, alpha %.2g, sigma %.2g apart\n", worst_beta, worst_alpha, worst_sigma);
    assert_true(worst_beta < 1.2e-7);
    assert_true(worst_alpha < 2e-6);
    assert_true(worst_sigma < 3e-4);                       // 1 - alpha of the first steps: both round alpha to float32 before
    free(beta), free(alpha), free(root), free(rest);
    kd_config_free(c);
    kd_frame_free(f);
}

/// Its x_t is our c_in x at the level of step t, of which the network is told t; and its loss is that of our eps,
/// in D mean(((x0 - D)/s)^2).
static void test_noised(void **state)
{
    (void)state;
    kd_frame *f = golden_load("seed_diffusion");
    kd_config *c = config();
    int64_t n;
    double *t = golden_f64(f, "t", &n), *x0 = golden_f64(f, "x0", NULL), *noise = golden_f64(f, "noise", NULL),
           *x_t = golden_f64(f, "x_t", NULL), *out = golden_f64(f, "model_output", NULL), *loss = golden_f64(f, "mse_loss", NULL);
    assert_int_equal(n, 5);
    for (int64_t i = 0; i < n; i++) {
        const double s = c->steps->sigma[(int)t[i]];
        const kd_precond p = kd_precond_at(c, s);
        double sum = 0;
        assert_true((double)p.c_noise == t[i]);
        for (int64_t k = i * PIXELS; k < (i + 1) * PIXELS; k++) {
            const double x = x0[k] + s * noise[k], D = (double)p.c_skip * x + (double)p.c_out * out[k];
            if (fabs((double)p.c_in * x - x_t[k]) > 1e-5) fail_msg("t %g: %.9g, not %.9g", t[i], (double)p.c_in * x, x_t[k]);
            sum += (x0[k] - D) * (x0[k] - D) / (s * s) / PIXELS;
        }
        if (apart(sum, loss[i]) > 2e-5) fail_msg("loss at t %g: %.9g, not %.9g", t[i], sum, loss[i]);
    }
    free(t), free(x0), free(noise), free(x_t), free(out), free(loss);
    kd_config_free(c);
    kd_frame_free(f);
}

// A step of its generator --------------------------------------------------------------------------------------------------

typedef struct step { kd_backend *be; const double *eps, *z; } step;

static void denoise_here(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out)
{
    const step *s = arg;
    (void)n, (void)image;
    for (int i = 0; i < PIXELS; i++) out[i] = (float)(x[i] - sigma[0] * s->eps[i]);
}

static int denoise(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err)
{
    return denoise_on_host(((const step *)arg)->be, denoise_here, arg, n, PIXELS, image, sigma, x, out, err);
}

static int draw(void *arg, kd_vec *vec, int64_t request, double from, double to, int64_t first, int64_t n, int64_t size, float *z,
                kd_err *err)
{
    const step *s = arg;
    float noise[PIXELS];
    (void)request, (void)from, (void)to, (void)first, (void)n;
    assert_int_equal(size, PIXELS);
    for (int i = 0; i < PIXELS; i++) noise[i] = (float)s->z[i];
    return vec->be->upload(vec->be, z, noise, sizeof noise, err);
}

/// It is our ddpm from the level of step t-1 to that of t-2: its generator tells the network a number that is one too large, and
/// ends at step 2. Images are x_t = sqrt(alpha) x of ours.
static void test_generator(void **state)
{
    (void)state;
    kd_frame *f = golden_load("seed_diffusion");
    kd_config *c = config();
    int64_t n;
    double *t = golden_f64(f, "step.t", &n), *x = golden_f64(f, "step.x", NULL), *eps = golden_f64(f, "step.eps", NULL),
           *z = golden_f64(f, "step.noise", NULL), *out = golden_f64(f, "step.out", NULL);
    kd_err err = { 0 };
    step s = { .eps = eps, .z = z };
    must(kd_device_open(&s.be, "cpu", &err), &err);
    const kd_noise noise = { draw, &s };
    const kd_sampler_opts o = kd_sampler_defaults();
    for (int64_t i = 0; i < n; i++) {
        const float levels[2] = { c->steps->sigma[(int)t[i] - 1], c->steps->sigma[(int)t[i] - 2] };
        const kd_sampling run = { .be = s.be, .sampler = kd_sampler_find("ddpm"), .o = &o, .sigmas = levels, .steps = 1,
                                  .call = denoise, .arg = &s };
        const double from = sqrt(1 + (double)levels[0] * levels[0]), to = sqrt(1 + (double)levels[1] * levels[1]);
        float image[PIXELS];
        for (int k = 0; k < PIXELS; k++) image[k] = (float)(x[k] * from);
        must(kd_sample_with(&run, 1, PIXELS, &noise, image, NULL, &err), &err);
        double worst = 0;
        for (int k = 0; k < PIXELS; k++) worst = fmax(worst, fabs(image[k] / to - out[i * PIXELS + k]));
        print_message("step %g: %.2g apart\n", t[i], worst);
        assert_true(worst < 2e-5);
    }
    free(t), free(x), free(eps), free(z), free(out);
    kd_backend_close(s.be);
    kd_config_free(c);
    kd_frame_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_tables), cmocka_unit_test(test_noised), cmocka_unit_test(test_generator) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
