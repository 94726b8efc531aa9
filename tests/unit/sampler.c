// Samplers against golden samplers (two analytic denoisers, recorded noise) and schedules; runs do not depend on what
// else is in the batch.
#include "device/device.h"
#include "diffusion/sampler.h"
#include "diffusion/sigmas.h"
#include "tests/support/golden.h"
#include "tests/support/sampling.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static kd_backend *be;

// The denoisers of samplers.safetensors --------------------------------------------------------------------------------
//
// gauss: data with mean mu in each pixel and deviation q = 1/2, so D = (mu s^2 + x q^2) / (s^2 + q^2).
// mix: in every pixel two Gaussians with weights w, means m, deviations q; with v_k = q_k^2 + s^2 and r_k proportional to
// w_k v_k^(-1/2) exp(-(x - m_k)^2 / (2 v_k)), D = sum r_k (m_k s^2 + x q_k^2) / v_k.

enum { PIXELS = 3 * 4 * 4, IMAGES = 2 };
typedef struct denoiser {
    const double *mu;                  // gauss's mean a pixel
    bool mix;
    int64_t calls;
    float at[IMAGES * PIXELS];         // where it was asked last, if for all images
    const double *path; int64_t steps; // NULL, or where it must be asked first in each step, [steps,IMAGES,PIXELS]
    double worst;
} denoiser;

static double gauss(const double mu, double x, double s) { return (mu * s * s + x * 0.25) / (s * s + 0.25); }

static double mix(double x, double s)
{
    static const double w[] = { 0.3, 0.7 }, m[] = { -1, 0.75 }, q[] = { 0.25, 0.5 };
    double r[2], v[2], sum = 0, d = 0;
    for (int k = 0; k < 2; k++) v[k] = q[k] * q[k] + s * s;
    const double e[] = { -(x - m[0]) * (x - m[0]) / (2 * v[0]), -(x - m[1]) * (x - m[1]) / (2 * v[1]) };
    for (int k = 0; k < 2; k++) sum += r[k] = w[k] / sqrt(v[k]) * exp(e[k] - fmax(e[0], e[1]));
    for (int k = 0; k < 2; k++) d += r[k] / sum * (m[k] * s * s + x * q[k] * q[k]) / v[k];
    return d;
}

static void denoise_here(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out)
{
    (void)image;
    denoiser *d = arg;
    d->calls++;
    if (n == IMAGES) memcpy(d->at, x, sizeof d->at);
    for (int64_t i = 0; i < n * PIXELS; i++) {
        const double s = sigma[i / PIXELS];
        out[i] = (float)(d->mix ? mix(x[i], s) : gauss(d->mu[i % PIXELS], x[i], s));
    }
}

static int denoise(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err)
{
    return denoise_on_host(be, denoise_here, arg, n, PIXELS, image, sigma, x, out, err);
}

// A step begins: the run is where the peer's is.
static int watch(void *arg, int64_t image, int64_t step, const float *denoised, kd_err *err)
{
    denoiser *d = arg;
    (void)denoised, (void)err;
    if (!d->path || image > 0) return 0;
    assert_true(step < d->steps);
    d->worst = fmax(d->worst, golden_error(d->at, d->path + step * IMAGES * PIXELS, IMAGES * PIXELS));
    return 0;
}

// The golden noise, and the levels between which the peer asks for it (NULL: not recorded).
typedef struct source { float *noise; double *levels; int64_t n; double within; } source;

static source source_of(const kd_frame *f, const char *run)
{
    char key[80];
    snprintf(key, sizeof key, "%s.noise_args", run);
    // Of dpm_adaptive the levels depend on the rounding of its errors.
    source s = { .noise = golden_f32(f, "noise_bank", NULL), .within = strstr(run, "adaptive") ? 1e-2 : 1e-6 };
    if (kd_frame_get(f, key)) s.levels = golden_f64(f, key, &s.n);
    return s;
}

static int bank(void *arg, kd_vec *vec, int64_t request, double from, double to, int64_t first, int64_t n, int64_t size, float *z,
                kd_err *err)
{
    const source *s = arg;
    if (s->levels) {
        assert_true(request < s->n / 2);
        assert_true(fabs(from / s->levels[2 * request] - 1) < s->within && fabs(to / s->levels[2 * request + 1] - 1) < s->within);
    }
    return vec->be->upload(vec->be, z, s->noise + (request * IMAGES + first) * size, (size_t)(n * size) * sizeof *z, err);
}

// Golden runs ------------------------------------------------------------------------------------------------------

// name: "gauss.k10_80.euler.churn": denoiser, schedule, run. Adds 1 to *paths if its way is known too.
static void golden_run(const kd_frame *f, const char *name, json_t *run, const kd_sampler *s, int *paths)
{
    char who[8], schedule[8], key[32];
    int at = 0;
    assert_int_equal(sscanf(name, "%7[a-z].%7[a-z0-9_].%n", who, schedule, &at), 2);
    int64_t levels, calls[IMAGES];
    snprintf(key, sizeof key, "sigmas.%s", schedule);
    float *sigmas = golden_f32(f, key, &levels);
    snprintf(key, sizeof key, "x.%s", schedule);
    float *x = golden_f32(f, key, NULL);
    double *mu = golden_f64(f, "mu", NULL), *want = golden_f64(f, name, NULL), *path = NULL;
    denoiser d = { .mu = mu, .mix = !strcmp(who, "mix"), .steps = levels - 1 };
    char traj[80];
    snprintf(traj, sizeof traj, "%s.traj", name);
    if (kd_frame_get(f, traj)) d.path = path = golden_f64(f, traj, NULL);
    const kd_sampler_opts o = golden_sampler_opts(json_object_get(run, "kwargs"));
    source golden = source_of(f, name);
    const kd_noise from = { bank, &golden };
    const kd_sampling g = { .be = be, .sampler = s, .o = &o, .sigmas = sigmas, .steps = levels - 1, .call = denoise, .watch = watch,
                            .arg = &d };
    kd_err err = { 0 };
    assert_int_equal(kd_sample_with(&g, IMAGES, PIXELS, &from, x, calls, &err), 0);
    assert_int_equal(calls[0], json_integer_value(json_object_get(run, "model_calls")));
    assert_int_equal(calls[1], calls[0]);
    assert_int_equal(calls[0], kd_sampler_calls(s, levels - 1));
    assert_int_equal(calls[0], d.calls);
    const double error = golden_error(x, want, IMAGES * PIXELS), allowed = fmax(1e-5, 3 * golden_tolerance("samplers", name + at));
    if (!(error <= allowed)) fail_msg("%s: error %.2g, allowed %.2g", name, error, allowed);
    if (!(d.worst <= allowed)) fail_msg("%s: error %.2g on the way, allowed %.2g", name, d.worst, allowed);
    *paths += path != NULL;
    free(sigmas), free(x), free(golden.noise), free(golden.levels), free(mu), free(want), free(path);
}

static void test_golden(void **state)
{
    (void)state;
    kd_frame *f = golden_load("samplers");
    json_t *runs = golden_json(f, "runs"), *run;
    const char *name;
    int done = 0, paths = 0;
    json_object_foreach(runs, name, run) {
        const char *function = json_string_value(json_object_get(run, "function")) + strlen("sample_");
        const kd_sampler *s = kd_sampler_find(function);
        assert_non_null(s);
        golden_run(f, name, run, s, &paths);
        done++;
    }
    assert_int_equal(done, 8 * 36);                    // 2 denoisers, 4 schedules
    assert_int_equal(paths, 36);                       // of one denoiser and schedule
    json_decref(runs);
    kd_frame_free(f);
}

// name: "gauss.max80.0.adaptive.3", "mix.max14.6.fast.n10.eta0.5". The adaptive runs of the peer have one error for the batch.
static void dpm_run(const kd_frame *f, const char *name, json_t *run)
{
    const bool adaptive = strstr(name, "adaptive");
    const double smin = json_number_value(json_object_get(run, "sigma_min")), smax = json_number_value(json_object_get(run, "sigma_max"));
    json_t *kwargs = json_object_get(run, "kwargs");
    const int64_t steps = adaptive ? 1 : json_integer_value(json_object_get(kwargs, "n"));
    float sigmas[32];
    char key[32];
    int64_t calls[IMAGES];
    for (int64_t i = 0; i <= steps; i++) sigmas[i] = (float)(i < steps ? smax : smin);
    snprintf(key, sizeof key, "x.%.1f", smax);
    float *x = golden_f32(f, key, NULL);
    double *mu = golden_f64(f, "mu", NULL), *want = golden_f64(f, name, NULL);
    source golden = source_of(f, name);
    denoiser d = { .mu = mu, .mix = !strncmp(name, "mix", 3) };
    kd_sampler_opts o = golden_sampler_opts(kwargs);
    if (!json_object_get(kwargs, "eta")) o.eta = 0;
    o.batch_norm = true;
    const kd_noise from = { bank, &golden };
    const kd_sampling g = { .be = be, .sampler = kd_sampler_find(adaptive ? "dpm_adaptive" : "dpm_fast"), .o = &o, .sigmas = sigmas,
                            .steps = steps, .call = denoise, .arg = &d };
    kd_err err = { 0 };
    assert_int_equal(kd_sample_with(&g, IMAGES, PIXELS, &from, x, calls, &err), 0);
    const char *variant = strstr(name, adaptive ? "adaptive" : "fast");
    const double error = golden_error(x, want, IMAGES * PIXELS), allowed = fmax(1e-5, 3 * golden_tolerance("samplers_dpm", variant));
    if (!(error <= allowed)) fail_msg("%s: error %.2g, allowed %.2g", name, error, allowed);
    assert_int_equal(calls[0], json_integer_value(json_object_get(run, "model_calls")));
    assert_int_equal(calls[1], calls[0]);
    free(x), free(golden.noise), free(golden.levels), free(mu), free(want);
}

static void test_golden_dpm(void **state)
{
    (void)state;
    kd_frame *f = golden_load("samplers_dpm");
    json_t *runs = golden_json(f, "runs"), *run;
    const char *name;
    json_object_foreach(runs, name, run) dpm_run(f, name, run);
    assert_true(json_object_size(runs) >= 80);
    json_decref(runs);
    kd_frame_free(f);
}

static double parameter(const json_t *p, const char *key) { return json_number_value(json_object_get(p, key)); }

static int schedule(const char *name, const json_t *p, int64_t n, float *out, kd_err *err)
{
    const double low = parameter(p, "sigma_min"), high = parameter(p, "sigma_max"), rho = parameter(p, "rho");
    if (!strncmp(name, "karras.", 7)) return kd_sigmas_karras(out, n, low, high, rho, err);
    if (!strncmp(name, "exponential.", 12)) return kd_sigmas_exponential(out, n, low, high, err);
    if (!strncmp(name, "polyexponential.", 16)) return kd_sigmas_polyexponential(out, n, low, high, rho, err);
    assert_memory_equal(name, "vp.", 3);
    return kd_sigmas_vp(out, n, parameter(p, "beta_d"), parameter(p, "beta_min"), parameter(p, "eps_s"), err);
}

static void test_schedules(void **state)
{
    (void)state;
    kd_frame *f = golden_load("schedules");
    json_t *params = golden_json(f, "params"), *p;
    const char *name;
    int done = 0;
    json_object_foreach(params, name, p) {
        const int64_t n = json_integer_value(json_object_get(p, "n"));
        float got[64];
        kd_err err = { 0 };
        double *want = golden_f64(f, name, NULL);
        assert_int_equal(schedule(name, p, n, got, &err), 0);
        for (int64_t i = 0; i < n; i++) assert_true(fabs(got[i] - want[i]) <= 1e-7 * want[i]);
        assert_true(got[n] == 0);
        free(want);
        done++;
    }
    assert_int_equal(done, 65);
    json_decref(params);
    kd_frame_free(f);
}

// A discrete model's own levels.
static void test_steps(void **state)
{
    (void)state;
    static const char *const types[] = { "linear", "cosine" };
    kd_frame *f = golden_load("discrete_denoisers");
    for (int k = 0; k < 2; k++) {
        kd_steps *s;
        kd_err err = { 0 };
        assert_int_equal(kd_steps_new(&s, k ? KD_STEPS_COSINE : KD_STEPS_LINEAR, 1000, 0, 0, &err), 0);
        const int64_t counts[] = { 1, 2, 10, 1000 };
        for (int i = 0; i < 4; i++) {
            float got[1001];
            char key[40];
            int64_t n;
            snprintf(key, sizeof key, i < 3 ? "%s.get_sigmas_%lld" : "%s.get_sigmas_all", types[k], (long long)counts[i]);
            double *want = golden_f64(f, key, &n);
            assert_int_equal(n, counts[i] + 1);
            assert_int_equal(kd_sigmas_steps(got, counts[i], s, &err), 0);
            for (int64_t j = 0; j <= counts[i]; j++) assert_true(fabs(got[j] - want[j]) <= 3e-7 * want[j]);
            free(want);
        }
        assert_int_equal(kd_sigmas_steps((float[1]){ 0 }, 1001, s, &err), KD_EUSAGE);
        kd_steps_free(s);
    }
    kd_frame_free(f);
}

static void test_schedule_errors(void **state)
{
    (void)state;
    static const struct { int64_t n; double smin, smax, rho; } bad[] = {
        { 0, 0.01, 80, 7 }, { 10, 0, 80, 7 }, { 10, -1, 80, 7 }, { 10, NAN, 80, 7 }, { 10, 2, 1, 7 }, { 10, 0.01, INFINITY, 7 },
        { 10, 0.01, 80, 0 }, { 10, 0.01, 80, NAN }, { 10, 1e-60, 80, 7 }, { 2, 80, 80, 7 }, { 10, 79.999999, 80, 7 },
        { 10, 0.01, 80, 1e-9 }, { 10, 0.01, 80, 1e15 }, { 10, 0.01, 3e38, 7 }, { 10, 1e-38, 80, 7 }, { 10, 0.01, 80, INFINITY } };
    float out[11];
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        kd_err err = { 0 }, poly = { 0 };
        assert_int_equal(kd_sigmas_karras(out, bad[k].n, bad[k].smin, bad[k].smax, bad[k].rho, &err), KD_EUSAGE);
        assert_int_equal(kd_sigmas_polyexponential(out, bad[k].n, bad[k].smin, bad[k].smax, bad[k].rho, &poly), KD_EUSAGE);
    }
    kd_err err = { 0 };
    assert_int_equal(kd_sigmas_karras(out, 1, 80, 80, 7, &err), 0);                // one level needs no room
    static const struct { double beta_d, beta_min, eps_s; } vp[] = {
        { -1, 0.1, 1e-3 }, { 100, 0.1, 1e-3 }, { NAN, 0.1, 1e-3 }, { 19.9, 0, 1e-3 }, { 19.9, 1e300, 1e-3 }, { 0, 1e-320, 1e-3 },
        { 99, 99, 1e-3 }, { 19.9, 0.1, 0 }, { 19.9, 0.1, 1 }, { 19.9, 0.1, 1 - 1e-12 }, { 19.9, 0.1, 1e-300 }, { 19.9, 0.1, NAN } };
    for (size_t k = 0; k < sizeof vp / sizeof *vp; k++) {
        err = (kd_err){ 0 };
        assert_int_equal(kd_sigmas_vp(out, 10, vp[k].beta_d, vp[k].beta_min, vp[k].eps_s, &err), KD_EUSAGE);
    }
    static const float levels[][3] = { { 3, 2, 2 }, { 2, 3, 0 }, { 3, 0, 0 }, { NAN, 2, 1 }, { 3, NAN, 0 }, { 3, 2, -1 },
                                       { INFINITY, 1, 0 }, { 3e38F, 1, 0 }, { 1, 1e-38F, 0 } };
    for (size_t k = 0; k < sizeof levels / sizeof *levels; k++) {
        err = (kd_err){ 0 };
        assert_int_equal(kd_sigmas_check(levels[k], 3, "levels", &err), KD_EUSAGE);
    }
    err = (kd_err){ 0 };
    assert_int_equal(kd_sigmas_check((float[]){ 3, 2, 1 }, 3, "levels", &err), 0);
}

// Samplers of the ODE go up as they go down: from 0.02 to 20 and back is where they began.
static void test_up_and_down(void **state)
{
    (void)state;
    enum { LEVELS = 200 };
    double mu[PIXELS];
    float first[PIXELS];
    for (int i = 0; i < PIXELS; i++) mu[i] = 0.25, first[i] = (float)i / PIXELS * 2 - 1;
    int n;
    const kd_sampler *s = kd_sampler_list(&n);
    for (int k = 0; k < n; k++) {
        if (!s[k].ode) continue;
        float down[LEVELS + 1], up[LEVELS], x[PIXELS];
        memcpy(x, first, sizeof x);
        kd_err err = { 0 };
        assert_int_equal(kd_sigmas_karras(down, LEVELS, 0.02, 20, 7, &err), 0);
        for (int i = 0; i < LEVELS; i++) up[i] = down[LEVELS - 1 - i];
        const kd_sampler_opts o = kd_sampler_defaults();
        denoiser d = { .mu = mu };
        kd_sampling g = { .be = be, .sampler = &s[k], .o = &o, .sigmas = up, .steps = LEVELS - 1, .call = denoise, .arg = &d };
        const kd_draw draw = { 0, 0 };
        assert_int_equal(kd_sample(&g, 1, PIXELS, &draw, x, NULL, &err), 0);
        if (!(fabsf(x[0]) > 5)) fail_msg("%s: no noise: %g", s[k].name, (double)x[0]);             // about 40 times as far from mu
        g.sigmas = down;
        assert_int_equal(kd_sample(&g, 1, PIXELS, &draw, x, NULL, &err), 0);
        for (int i = 0; i < PIXELS; i++)
            if (!(fabsf(x[i] - first[i]) < 0.04F)) fail_msg("%s: from %g back at %g", s[k].name, (double)first[i], (double)x[i]);
    }
}

// Promises ---------------------------------------------------------------------------------------------------------

enum { STEPS = 6 };

// Images first .. first+n-1 of a run.
static void sample(const kd_sampler *s, int64_t first, int64_t n, float *x)
{
    static const double mu[PIXELS] = { 0.5 };
    kd_sampler_opts o = kd_sampler_defaults();
    o.s_churn = 3;
    denoiser d = { .mu = mu, .mix = true };
    float sigmas[STEPS + 1];
    kd_draw draw[8];
    kd_err err = { 0 };
    assert_int_equal(kd_sigmas_karras(sigmas, STEPS, 0.02, 20, 7, &err), 0);
    for (int64_t k = 0; k < n; k++) {
        draw[k] = (kd_draw){ 11, (uint64_t)(first + k) };
        kd_sample_start(x + k * PIXELS, PIXELS, draw[k], sigmas[0]);
    }
    const kd_sampling g = { .be = be, .sampler = s, .o = &o, .sigmas = sigmas, .steps = STEPS, .call = denoise, .arg = &d };
    assert_int_equal(kd_sample(&g, n, PIXELS, draw, x, NULL, &err), 0);
}

static void test_image_depends_on_its_draw_only(void **state)
{
    (void)state;
    int samplers;
    const kd_sampler *s = kd_sampler_list(&samplers);
    for (int k = 0; k < samplers; k++) {
        float together[5 * PIXELS], alone[PIXELS];
        sample(&s[k], 0, 5, together);
        for (int64_t i = 0; i < 5; i++) {
            sample(&s[k], i, 1, alone);
            assert_memory_equal(alone, together + i * PIXELS, sizeof alone);
        }
        assert_memory_not_equal(together, together + PIXELS, PIXELS * sizeof *together);
    }
}

// One step from any start ends at the denoiser's answer there.
static void test_one_step(void **state)
{
    (void)state;
    int samplers;
    const kd_sampler *s = kd_sampler_list(&samplers);
    const float sigmas[] = { 3, 0 };
    const kd_draw draw = { 1, 2 };
    const kd_sampler_opts o = kd_sampler_defaults();
    for (int k = 0; k < samplers; k++) {
        denoiser d = { .mix = true };
        kd_err err = { 0 };
        float x[PIXELS], want[PIXELS];
        int64_t calls;
        kd_sample_start(x, PIXELS, draw, sigmas[0]);
        denoise_here(&d, 1, NULL, sigmas, x, want);
        const kd_sampling g = { .be = be, .sampler = &s[k], .o = &o, .sigmas = sigmas, .steps = 1,
                            .call = denoise, .arg = &d };
        if (kd_sampler_ends_above_zero(&s[k])) continue;
        assert_int_equal(kd_sample(&g, 1, PIXELS, &draw, x, &calls, &err), 0);
        assert_int_equal(calls, 1);
        for (int i = 0; i < PIXELS; i++) assert_true(fabsf(x[i] - want[i]) < 1e-5F);
    }
}

// Not finite in one number, of the last image, at levels below 1.5.
static void broken_here(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out)
{
    for (int64_t i = 0; i < n * PIXELS; i++) {
        const bool bad = sigma[i / PIXELS] < 1.5F && image[i / PIXELS] == IMAGES - 1 && i % PIXELS == PIXELS - 1;
        out[i] = bad ? *(const float *)arg : x[i] / 2;
    }
}

static int broken(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err)
{
    return denoise_on_host(be, broken_here, arg, n, PIXELS, image, sigma, x, out, err);
}

// Every sampler stops and says where.
static void test_nan(void **state)
{
    (void)state;
    int samplers;
    const kd_sampler *s = kd_sampler_list(&samplers);
    const float sigmas[] = { 4, 2, 0.5F, 0.25F, 0 };
    const kd_draw draw[IMAGES] = { { 1, 2 }, { 1, 3 } };
    for (int k = 0; k < 2 * samplers; k++) {
        kd_sampler_opts o = kd_sampler_defaults();
        kd_err err = { 0 };
        double at = 0;
        int read = 0;
        float x[IMAGES * PIXELS] = { 0 }, value = k % 2 ? NAN : -INFINITY;
        const kd_sampling g = { .be = be, .sampler = &s[k / 2], .o = &o, .sigmas = sigmas, .steps = 4, .call = broken, .arg = &value };
        assert_int_equal(kd_sample(&g, IMAGES, PIXELS, draw, x, NULL, &err), KD_EFAIL);
        if (!strcmp(g.sampler->name, "dpmpp_2m")) assert_string_equal(err.msg, "denoiser gave NaN or infinity at sigma 0.5 (step 3 of 4)");
        assert_int_equal(sscanf(err.msg, "denoiser gave NaN or infinity at sigma %lf%n", &at, &read), 1);
        assert_true(at > 0 && at < 1.5);
        assert_true(!!strstr(err.msg + read, "(step") == !!strcmp(g.sampler->name, "dpm_adaptive"));
    }
}

static void constant_here(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out)
{
    (void)image, (void)sigma, (void)x;
    for (int64_t i = 0; i < n * PIXELS; i++) out[i] = *(const float *)arg;
}

static int constant(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err)
{
    return denoise_on_host(be, constant_here, arg, n, PIXELS, image, sigma, x, out, err);
}

static void test_constant(void **state)
{
    (void)state;
    int samplers;
    const kd_sampler *s = kd_sampler_list(&samplers);
    const kd_draw draw = { 1, 2 };
    const kd_sampler_opts o = kd_sampler_defaults();
    float c = 0.7F, sigmas[21];
    kd_err err = { 0 };
    assert_int_equal(kd_sigmas_karras(sigmas, 20, 0.01, 80, 7, &err), 0);
    for (int k = 0; k < samplers; k++) {
        float x[PIXELS];
        kd_sample_start(x, PIXELS, draw, sigmas[0]);
        const kd_sampling g = { .be = be, .sampler = &s[k], .o = &o, .sigmas = sigmas, .steps = 20, .call = constant, .arg = &c };
        assert_int_equal(kd_sample(&g, 1, PIXELS, &draw, x, NULL, &err), 0);
        const double allowed = kd_sampler_ends_above_zero(&s[k]) ? 0.07 : 1e-6;      // 7 deviations of sigma_min
        for (int i = 0; i < PIXELS; i++)
            if (!(fabsf(x[i] - c) <= allowed)) fail_msg("%s: %g", s[k].name, (double)x[i]);
    }
}

// No steps, no images; and one call serves all images that are still on their way.
static void test_calls(void **state)
{
    (void)state;
    int samplers;
    const kd_sampler *s = kd_sampler_list(&samplers);
    const float sigmas[] = { 20, 5, 1, 0.2F, 0 };
    const kd_draw draw[IMAGES] = { { 1, 2 }, { 1, 3 } };
    kd_sampler_opts o = kd_sampler_defaults();
    o.order = 2;
    for (int k = 0; k < samplers; k++) {
        denoiser d = { .mix = true };
        kd_err err = { 0 };
        float x[IMAGES * PIXELS];
        int64_t calls[IMAGES];
        kd_sampling g = { .be = be, .sampler = &s[k], .o = &o, .sigmas = sigmas, .steps = 4, .call = denoise, .arg = &d };
        for (int j = 0; j < IMAGES; j++) kd_sample_start(x + j * PIXELS, PIXELS, draw[j], j ? 0.5F : 20);
        assert_int_equal(kd_sample(&g, 0, PIXELS, draw, x, calls, &err), 0);
        assert_int_equal(d.calls, 0);
        assert_int_equal(kd_sample(&g, IMAGES, PIXELS, draw, x, calls, &err), 0);
        assert_int_equal(d.calls, calls[0] > calls[1] ? calls[0] : calls[1]);
        assert_true((calls[0] != calls[1]) == !strcmp(s[k].name, "dpm_adaptive"));
        for (int j = 0; j < IMAGES; j++) {
            int64_t alone;
            kd_sample_start(x, PIXELS, draw[j], j ? 0.5F : 20);
            assert_int_equal(kd_sample(&g, 1, PIXELS, draw + j, x, &alone, &err), 0);
            assert_int_equal(alone, calls[j]);
        }
        g.steps = 0;
        assert_int_equal(kd_sample(&g, 1, PIXELS, draw, x, calls, &err), KD_EUSAGE);
    }
}

// With a constant denoiser a run that ends above 0 is linear in the noise it adds, and s_noise is its factor.
static void test_s_noise(void **state)
{
    (void)state;
    int samplers;
    const kd_sampler *s = kd_sampler_list(&samplers);
    const float sigmas[] = { 10, 5, 2, 1.5F, 1 };
    const kd_draw draw = { 1, 2 };
    float c = 0.7F, x[3][PIXELS];
    for (int k = 0; k < samplers; k++) {
        double moved = 0;
        for (int noise = 0; noise < 3; noise++) {
            kd_sampler_opts o = kd_sampler_defaults();
            kd_err err = { 0 };
            o.s_churn = 1, o.eta = 1, o.s_noise = noise;
            kd_sample_start(x[noise], PIXELS, draw, sigmas[0]);
            const kd_sampling g = { .be = be, .sampler = &s[k], .o = &o, .sigmas = sigmas, .steps = 4, .call = constant, .arg = &c };
            assert_int_equal(kd_sample(&g, 1, PIXELS, &draw, x[noise], NULL, &err), 0);
        }
        for (int i = 0; i < PIXELS; i++) {
            const double one = (double)x[1][i] - x[0][i], two = (double)x[2][i] - x[0][i];
            if (!(fabs(two - 2 * one) < 1e-4)) fail_msg("%s: moved by %g and %g", s[k].name, one, two);
            moved = fmax(moved, fabs(one));
        }
        assert_true((moved > 0.1) == kd_sampler_uses(&s[k], "s_noise"));
    }
}

// More than all noise is no more than all: a step down to 0 and up again, not to the root of a negative number.
static void test_large_eta(void **state)
{
    (void)state;
    int samplers;
    const kd_sampler *s = kd_sampler_list(&samplers);
    const float sigmas[] = { 10, 9, 5, 1, 0 };
    const kd_draw draw = { 1, 2 };
    kd_sampler_opts o = kd_sampler_defaults();
    for (o.eta = 2; o.eta < 200; o.eta *= 10)
        for (int k = 0; k < samplers; k++) {
            denoiser d = { .mix = true };
            kd_err err = { 0 };
            float x[PIXELS];
            kd_sample_start(x, PIXELS, draw, sigmas[0]);
            const kd_sampling g = { .be = be, .sampler = &s[k], .o = &o, .sigmas = sigmas, .steps = 4, .call = denoise, .arg = &d };
            if (!strcmp(s[k].name, "dpm_adaptive")) continue;
            if (kd_sample(&g, 1, PIXELS, &draw, x, NULL, &err)) fail_msg("%s with eta %g: %s", s[k].name, o.eta, err.msg);
            for (int i = 0; i < PIXELS; i++) assert_true(isfinite(x[i]));
        }
}

static void test_options(void **state)
{
    (void)state;
    const kd_sampler *heun = kd_sampler_find("heun"), *adaptive = kd_sampler_find("dpm_adaptive");
    const kd_sampler_opts o = kd_sampler_defaults();
    char text[256];
    assert_true(kd_sampler_uses(heun, "s-churn") && kd_sampler_uses(heun, "s_noise") && kd_sampler_uses(adaptive, "rtol"));
    assert_false(kd_sampler_uses(heun, "eta") || kd_sampler_uses(heun, "s") || kd_sampler_uses(heun, "churn") ||
                 kd_sampler_uses(adaptive, "s_churn") || kd_sampler_uses(kd_sampler_find("ddim"), "eta"));
    assert_string_equal(kd_sampler_options(kd_sampler_find("dpmpp_sde"), &o, text, sizeof text), "eta=1 s_noise=1 r=0.5");
    assert_string_equal(kd_sampler_options(kd_sampler_find("dpm_fast"), &o, text, sizeof text), "eta=0 s_noise=1");
    assert_string_equal(kd_sampler_options(kd_sampler_find("dpmpp_2m"), &o, text, sizeof text), "");
}

// Zero tolerances can never be met.
static void test_max_calls(void **state)
{
    (void)state;
    const float sigmas[] = { 10, 0.1F };
    const kd_draw draw = { 1, 2 };
    kd_sampler_opts o = kd_sampler_defaults();
    o.rtol = o.atol = 0, o.max_calls = 100;
    denoiser d = { .mix = true };
    kd_err err = { 0 };
    float x[PIXELS];
    kd_sample_start(x, PIXELS, draw, sigmas[0]);
    const kd_sampling g = { .be = be, .sampler = kd_sampler_find("dpm_adaptive"), .o = &o, .sigmas = sigmas, .steps = 1,
                            .call = denoise, .arg = &d };
    assert_int_equal(kd_sample(&g, 1, PIXELS, &draw, x, NULL, &err), KD_EFAIL);
    assert_non_null(strstr(err.msg, "dpm_adaptive: 99 denoiser calls for an image, which is still at sigma"));
    assert_int_equal(d.calls, 99);
}

// With an error of its own, an image of dpm_adaptive ends within the tolerance of the ODE's exact solution.
static void test_adaptive_exact(void **state)
{
    (void)state;
    const float sigmas[] = { 80, 0.01F };
    const double mu[PIXELS] = { 0.5, -0.25 };
    const kd_draw draw[3] = { { 1, 2 }, { 1, 3 }, { 1, 4 } };
    kd_sampler_opts o = kd_sampler_defaults();
    o.eta = 0, o.rtol = 1e-4, o.atol = 1e-4;
    for (o.order = 2; o.order <= 3; o.order++) {
        denoiser d = { .mu = mu };
        kd_err err = { 0 };
        float x[3 * PIXELS], start[3 * PIXELS];
        int64_t calls[3];
        for (int i = 0; i < 3; i++) kd_sample_start(x + i * PIXELS, PIXELS, draw[i], 80.0F / (float)(1 << 3 * i));  // some of them easy
        memcpy(start, x, sizeof x);
        const kd_sampling g = { .be = be, .sampler = kd_sampler_find("dpm_adaptive"), .o = &o, .sigmas = sigmas, .steps = 1,
                            .call = denoise, .arg = &d };
        assert_int_equal(kd_sample(&g, 3, PIXELS, draw, x, calls, &err), 0);
        for (int i = 0; i < 3 * PIXELS; i++) {
            const double m = mu[i % PIXELS], want = m + (start[i] - m) * sqrt((1e-4 + 0.25) / (6400 + 0.25));
            if (!(fabs(x[i] - want) < 5e-3)) fail_msg("order %d: %g, exact %g", (int)o.order, (double)x[i], want);
        }
    }
}

static void test_bad_options(void **state)
{
    (void)state;
    enum { BAD = 11 };
    const float sigmas[] = { 4, 0 };
    const kd_draw draw = { 1, 2 };
    kd_sampler_opts bad[BAD];
    for (int k = 0; k < BAD; k++) bad[k] = kd_sampler_defaults();
    bad[0].eta = -1, bad[1].s_churn = -1, bad[2].s_noise = INFINITY, bad[3].order = 9, bad[4].solver = "rk4", bad[5].r = 0;
    bad[6].rtol = -1, bad[7].atol = NAN, bad[8].h_init = 0, bad[9].accept_safety = 0, bad[10].max_calls = 0;
    for (int k = 0; k < BAD; k++) {
        kd_err err = { 0 };
        float x[PIXELS] = { 0 };
        const kd_sampling g = { .be = be, .sampler = kd_sampler_find("euler"), .o = &bad[k], .sigmas = sigmas, .steps = 1,
                                .call = broken };
        assert_int_equal(kd_sample(&g, 1, PIXELS, &draw, x, NULL, &err), KD_EUSAGE);
    }
}

static int open_backend(void **state)
{
    (void)state;
    return kd_device_open(&be, "cpu", &(kd_err){ 0 });
}

static int close_backend(void **state)
{
    (void)state;
    const int64_t left = be->in_use(be);
    kd_backend_close(be);
    return left != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_golden_dpm), cmocka_unit_test(test_schedules), cmocka_unit_test(test_steps),
        cmocka_unit_test(test_schedule_errors), cmocka_unit_test(test_up_and_down),
        cmocka_unit_test(test_image_depends_on_its_draw_only), cmocka_unit_test(test_one_step), cmocka_unit_test(test_nan),
        cmocka_unit_test(test_constant), cmocka_unit_test(test_calls), cmocka_unit_test(test_s_noise),
        cmocka_unit_test(test_large_eta), cmocka_unit_test(test_options), cmocka_unit_test(test_max_calls),
        cmocka_unit_test(test_adaptive_exact),
        cmocka_unit_test(test_bad_options) };
    return cmocka_run_group_tests_name("sampler", tests, open_backend, close_backend);
}
