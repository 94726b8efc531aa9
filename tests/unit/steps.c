// Discrete schedules and the wrappers that use them, against k-diffusion's: tables, steps of noise levels and back, and a toy
// network wrapped as v, eps and vd; what a learned variance is taught, against guided-diffusion's formulas.
#include "base/random.h"
#include "device/device.h"
#include "diffusion/denoiser.h"
#include "diffusion/density.h"
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

static double *values(const kd_frame *f, const char *schedule, const char *what, int64_t *n)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", schedule, what);
    return golden_f64(f, name, n);
}

static void close_to(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fabs(want))) fail_msg("%.17g, not %.17g", got, want);
}

static void test_tables(void **state)
{
    (void)state;
    kd_frame *f = golden_load("discrete_denoisers");
    static const char *const names[] = { "linear", "cosine" };
    for (int k = 0; k < 2; k++) {
        int64_t n, probes, times;
        kd_steps *s;
        kd_err err = { 0 };
        double *alpha = values(f, names[k], "alphas_cumprod_float64", &n), *sigma = values(f, names[k], "sigmas_float32", NULL);
        double *log_sigma = values(f, names[k], "log_sigmas_float32", NULL), *probe = golden_f64(f, "probe_sigma", &probes);
        double *cont = values(f, names[k], "sigma_to_t_cont", NULL), *quant = values(f, names[k], "sigma_to_t_quant", NULL);
        double *t = golden_f64(f, "probe_t", &times), *back = values(f, names[k], "t_to_sigma", NULL);
        must(kd_steps_new(&s, (kd_steps_type)k, n, 0, 0, &err), &err);
        for (int64_t i = 0; i < n; i++) {
            close_to(s->alpha[i], alpha[i], 1e-12);
            close_to(s->sigma[i], sigma[i], 1.2e-7);
            assert_true(fabs(s->log_sigma[i] - log_sigma[i]) <= 5e-7);
            assert_true(kd_steps_of(s, s->sigma[i], false) == (double)i && kd_steps_of(s, s->sigma[i], true) == (double)i);
        }
        for (int64_t i = 0; i < probes; i++) {
            assert_true(fabs(kd_steps_of(s, probe[i], false) - cont[i]) <= 1e-6 * fmax(cont[i], 1));
            assert_true(kd_steps_of(s, probe[i], true) == quant[i]);
        }
        for (int64_t i = 0; i < times; i++) close_to(kd_steps_sigma(s, t[i]), back[i], 1e-6);
        kd_steps_free(s);
        free(alpha), free(sigma), free(log_sigma), free(probe), free(cont), free(quant), free(t), free(back);
    }
    kd_frame_free(f);
}

/// CompVis': the roots of beta run evenly.
static void test_scaled_linear(void **state)
{
    (void)state;
    kd_steps *s;
    kd_err err = { 0 };
    must(kd_steps_new(&s, KD_STEPS_SCALED_LINEAR, 1000, 0.00085, 0.012, &err), &err);
    close_to(s->beta[0], 0.00085, 1e-12);
    close_to(s->beta[999], 0.012, 1e-12);
    close_to(sqrt(s->beta[500]) - sqrt(s->beta[499]), (sqrt(0.012) - sqrt(0.00085)) / 999, 1e-9);
    close_to(s->sigma[999], 14.6146, 1e-4);               // the highest level of Stable Diffusion
    kd_steps_free(s);
}

static kd_config *config(const char *wrapper, bool quantize)
{
    char text[400];
    kd_config *c;
    kd_err err = { 0 };
    snprintf(text, sizeof text,
             "{\"model\": {\"type\": \"guided_diffusion\", \"num_channels\": 32, \"image_size\": 64, \"wrapper\": \"%s\", "
             "\"quantize\": %s, \"sigma_min\": 0.01, \"sigma_max\": 80}}", wrapper, quantize ? "true" : "false");
    must(kd_config_parse(&c, text, "cfg", false, NULL, &err), &err);
    return c;
}

/// f(x, t) = 0.3 x + sin(x + 0.01 t)
static double toy(double x, double t) { return 0.3 * x + sin(x + 0.01 * t); }

static void test_wrappers(void **state)
{
    (void)state;
    static const struct { const char *name, *wrapper; bool quantize; } cases[] = {
        { "vdenoiser", "v", false }, { "compvis_eps_cont", "eps", false }, { "compvis_eps_quant", "eps", true },
        { "discrete_v_cont", "vd", false }, { "discrete_v_quant", "vd", true } };
    kd_frame *f = golden_load("discrete_denoisers");
    int64_t images, count;
    double *sigma = golden_f64(f, "toy.sigma", &images), *x = golden_f64(f, "toy.x", &count);
    const int64_t size = count / images;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char name[64];
        kd_config *c = config(cases[k].wrapper, cases[k].quantize);
        snprintf(name, sizeof name, "toy.%s.denoised", cases[k].name);
        double *want = golden_f64(f, name, NULL);
        for (int64_t i = 0; i < count; i++) {
            const kd_precond p = kd_precond_at(c, sigma[i / size]);
            const double D = (double)p.c_out * toy((double)p.c_in * x[i], (double)p.c_noise) + (double)p.c_skip * x[i];
            assert_true(fabs(D - want[i]) <= 1e-5 * fmax(1, sigma[i / size]));
        }
        free(want);
        kd_config_free(c);
    }
    free(sigma), free(x);
    kd_frame_free(f);
}

// Losses -----------------------------------------------------------------------------------------------------------

/// A small network with weights of its own, whose last layers are not zeros.
static kd_model *model(const char *more)
{
    char text[500];
    kd_config *c;
    kd_model *m;
    kd_err err = { 0 };
    snprintf(text, sizeof text,
             "{\"model\": {\"type\": \"guided_diffusion\", \"num_channels\": 32, \"num_res_blocks\": 1, \"image_size\": 8, "
             "\"channel_mult\": \"1\", \"attention_resolutions\": \"\", \"num_head_channels\": 32, "
             "\"sigma_min\": 0.01, \"sigma_max\": 80%s}}", more);
    must(kd_config_parse(&c, text, "cfg", false, NULL, &err), &err);
    must(kd_model_new(&m, c, 3, &err), &err);
    for (int i = 0; i < m->params->n; i++) {
        const kd_param_info *p = &m->params->p[i];
        for (int64_t k = 0; k < p->count && p->init == KD_INIT_ZERO; k++)
            m->w[p->offset + k] = (float)(0.1 * sin((double)(k * 7 + i)));
    }
    return m;
}

enum { N = 3, SIZE = 8 * 8 * 3 };

typedef struct batch { float x0[N * SIZE], noise[N * SIZE], sigma[N]; } batch;

static void fill(batch *b, const float sigma[N])
{
    for (int i = 0; i < N * SIZE; i++) b->x0[i] = (float)(1.2 * sin(i * 1.7)), b->noise[i] = (float)(1.5 * cos(i * 0.9 + i * i * 0.01));
    for (int i = 0; i < N; i++) b->sigma[i] = sigma[i];
    for (int i = 0; i < N * SIZE; i++) b->x0[i] = fminf(fmaxf(b->x0[i], -1), 1);
}

/// v, vd: mean((F - (x0 - c_skip x) / c_out)^2), F asked of the network itself.
static void test_v_losses(void **state)
{
    (void)state;
    static const char *const wrappers[] = { ", \"wrapper\": \"v\"", ", \"wrapper\": \"vd\"", ", \"wrapper\": \"eps\"" };
    static const float sigmas[N] = { 0.05f, 1.3f, 20 };
    for (int k = 0; k < 3; k++) {
        kd_model *m = model(wrappers[k]);
        kd_backend *be;
        kd_denoiser *d;
        batch b;
        float in[N * SIZE], told[N], F[N * SIZE], loss[N];
        kd_precond p[N];
        kd_err err = { 0 };
        fill(&b, sigmas);
        must(kd_device_open(&be, "cpu", &err), &err);
        must(kd_denoiser_new(&d, m, be, &err), &err);
        for (int i = 0; i < N; i++) p[i] = kd_precond_at(m->config, b.sigma[i]), told[i] = p[i].c_noise;
        for (int i = 0; i < N * SIZE; i++) in[i] = p[i / SIZE].c_in * (b.x0[i] + b.sigma[i / SIZE] * b.noise[i]);
        must(kd_network_call(d, N, in, told, NULL, F, NULL, &err), &err);
        must(kd_denoiser_loss(d, N, b.x0, b.noise, b.sigma, NULL, loss, NULL, &err), &err);
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int j = i * SIZE; j < (i + 1) * SIZE; j++) {
                const double x = b.x0[j] + (double)b.sigma[i] * b.noise[j];
                sum += pow(F[j] - (b.x0[j] - (double)p[i].c_skip * x) / (double)p[i].c_out, 2);
            }
            close_to(loss[i], sum / SIZE, 1e-4);
        }
        kd_denoiser_free(d);
        kd_backend_close(be);
        kd_model_free(m);
    }
}

/// q(x_{t-1} | x_t, x_0) and its prediction, as guided_diffusion/gaussian_diffusion.py computes them, in nats an element of
/// image i at step t. out: what the network gives, 6 channels.
static double bound(const kd_steps *s, int64_t t, const batch *b, int i, const float *out)
{
    const double a = s->alpha[t], before = t ? s->alpha[t - 1] : 1, beta = s->beta[t];
    const double variance = beta * (1 - before) / (1 - a);
    const double clipped = log(t ? variance : s->beta[1] * (1 - s->alpha[0]) / (1 - s->alpha[1]));
    const double c1 = beta * sqrt(before) / (1 - a), c2 = (1 - before) * sqrt(1 - beta) / (1 - a);
    double sum = 0;
    for (int j = 0; j < SIZE; j++) {
        const double x0 = b->x0[i * SIZE + j], xt = sqrt(a) * x0 + sqrt(1 - a) * b->noise[i * SIZE + j];
        const double eps = out[j / 3 * 6 + j % 3], frac = (out[j / 3 * 6 + 3 + j % 3] + 1) / 2;
        const double logvar = frac * log(beta) + (1 - frac) * clipped;
        const double guess = xt / sqrt(a) - sqrt(1 / a - 1) * eps;
        const double mean = c1 * guess + c2 * xt, truth = c1 * x0 + c2 * xt;
        if (t) {
            sum += 0.5 * (-1 + logvar - clipped + exp(clipped - logvar) + pow(truth - mean, 2) * exp(-logvar));
            continue;
        }
        const double inv = exp(-logvar / 2), z1 = inv * (x0 - mean + 1 / 255.0), z0 = inv * (x0 - mean - 1 / 255.0);
        const double up = 0.5 * (1 + tanh(sqrt(2 / M_PI) * (z1 + 0.044715 * pow(z1, 3))));
        const double low = 0.5 * (1 + tanh(sqrt(2 / M_PI) * (z0 + 0.044715 * pow(z0, 3))));
        sum -= log(fmax(1e-12, x0 < -0.999 ? up : x0 > 0.999 ? 1 - low : up - low));
    }
    return sum / SIZE;
}

/// The images as levels of 8 bits, and the noise that training draws for images 0 to N - 1 in step 0 of seed 0.
static void fill_as_training(batch *b, uint8_t pixels[N * SIZE], const float sigma[N])
{
    fill(b, sigma);
    for (int i = 0; i < N * SIZE; i++) {
        pixels[i] = (uint8_t)lrint((b->x0[i] + 1) / 2 * 255);
        b->x0[i] = (float)pixels[i] / 255.0f * 2.0f - 1.0f;
    }
    for (int i = 0; i < N; i++) {
        const kd_rng rng = kd_rng_of(0, KD_RNG_NOISE, 0, (uint64_t)i, 0);
        kd_rng_normal(&rng, b->noise + i * SIZE, 0, SIZE);
    }
}

/// In training: the mean square and `factor` times the bound, at steps 0, 1 and 1500 of 2000.
static void check_learned_variance(const char *more, double factor)
{
    char text[200];
    snprintf(text, sizeof text, ", \"learn_sigma\": true, \"diffusion_steps\": 2000, \"noise_schedule\": \"cosine\"%s", more);
    kd_model *m = model(text);
    const kd_config *c = m->config;
    static const int64_t steps[N] = { 0, 1, 1500 };
    const float sigma[N] = { c->steps->sigma[0], c->steps->sigma[1], c->steps->sigma[1500] };
    kd_backend *be;
    kd_denoiser *d;
    kd_loss_graph lg;
    kd_program *p;
    batch b;
    float in[N * SIZE], told[N], out[2 * N * SIZE], loss[N], plain[N];
    uint8_t pixels[N * SIZE];
    const int64_t index[N] = { 0, 1, 2 };
    const uint64_t rng[2] = { 0 };
    kd_err err = { 0 };
    fill_as_training(&b, pixels, sigma);
    must(kd_device_open(&be, "cpu", &err), &err);
    must(kd_denoiser_new(&d, m, be, &err), &err);
    for (int i = 0; i < N; i++) told[i] = (float)steps[i];
    for (int i = 0; i < N * SIZE; i++)
        in[i] = (float)((b.x0[i] + (double)sigma[i / SIZE] * b.noise[i]) / sqrt(1 + pow(sigma[i / SIZE], 2)));
    must(kd_network_call(d, N, in, told, NULL, out, NULL, &err), &err);
    must(kd_denoiser_loss(d, N, b.x0, b.noise, b.sigma, NULL, plain, NULL, &err), &err);

    must(kd_loss_graph_new(&lg, c, m->params, N, 0, true, false, KD_F32, &err), &err);
    for (int i = 0; i < m->params->n; i++) kd_bind(lg.net.leaf[i], m->w + m->params->p[i].offset);
    must(kd_program_new(&p, lg.g, be, &lg.loss, 1, &err), &err);
    must(kd_loss_graph_set_sigma(&lg, p, c, b.sigma, N, &err), &err);
    assert_true(!lg.pixels == (c->augment_prob > 0));
    must(kd_program_set(p, lg.pixels ? lg.pixels : lg.x0, lg.pixels ? (const void *)pixels : b.x0, &err), &err);
    must(kd_program_set(p, lg.index, index, &err), &err);
    must(kd_program_set(p, lg.rng, rng, &err), &err);
    must(kd_program_run(p, &err), &err);
    must(kd_program_get(p, lg.loss, loss, &err), &err);
    for (int i = 0; i < N; i++) {
        double square = 0;
        for (int j = 0; j < SIZE; j++) square += pow(out[i * 2 * SIZE + j / 3 * 6 + j % 3] - b.noise[i * SIZE + j], 2);
        close_to(plain[i], square / SIZE, 1e-5);
        close_to(loss[i], square / SIZE + factor * bound(c->steps, steps[i], &b, i, out + i * 2 * SIZE) / log(2), 1e-4);
    }
    kd_program_free(p);
    kd_loss_graph_free(&lg);
    kd_denoiser_free(d);
    kd_backend_close(be);
    kd_model_free(m);
}

static void test_learned_variance(void **state)
{
    (void)state;
    check_learned_variance("", 1);
    check_learned_variance(", \"rescale_learned_sigmas\": true, \"augment_prob\": 0", 2);
}

/// The network is told a step's number, or how far it is of 1000, also between steps.
static void test_rescaled_steps(void **state)
{
    (void)state;
    for (int on = 0; on < 2; on++) {
        char text[100];
        snprintf(text, sizeof text, ", \"diffusion_steps\": 400, \"rescale_timesteps\": %s", on ? "true" : "false");
        kd_model *m = model(text);
        const kd_steps *s = m->config->steps;
        for (int64_t i = 0; i < 400; i += 57)
            close_to(kd_precond_at(m->config, s->sigma[i]).c_noise, (double)i * (on ? 2.5 : 1), 1e-6);
        const double between = exp((log(s->sigma[200]) + log(s->sigma[201])) / 2);
        close_to(kd_precond_at(m->config, between).c_noise, m->config->quantize ? on ? 500 : 200 : on ? 501.25 : 200.5, 1e-4);
        kd_model_free(m);
    }
}

/// Each step as likely.
static void test_density(void **state)
{
    (void)state;
    kd_config *c = config("eps", false);
    assert_int_equal(c->density.type, KD_DENSITY_STEPS);
    assert_true(kd_density_sigma(&c->density, 0, 0) == c->steps->sigma[0]);
    assert_true(kd_density_sigma(&c->density, 0.5005, 0) == c->steps->sigma[500]);
    assert_true(kd_density_sigma(&c->density, 1 - 1e-17, 0) == c->steps->sigma[999]);
    kd_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables), cmocka_unit_test(test_scaled_linear), cmocka_unit_test(test_wrappers),
        cmocka_unit_test(test_v_losses), cmocka_unit_test(test_learned_variance), cmocka_unit_test(test_rescaled_steps),
        cmocka_unit_test(test_density) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
