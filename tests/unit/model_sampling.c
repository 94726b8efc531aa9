// Whole sampling runs of golden models against the peer in float64, with its noise levels and start.
#include "device/device.h"
#include "diffusion/denoiser.h"
#include "diffusion/sampler.h"
#include "tests/support/golden.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct guided {
    kd_denoiser *d;
    const int64_t *class_cond;                            // NULL: no guidance
    double scale;
    kd_vec vec;
    float *other;                                         // [n,size], on the backend
} guided;

// D = D_none + scale (D_class - D_none), or D
static int denoise(void *arg, int64_t n, const int64_t *image, const float *s, const float *x, float *out, kd_err *err)
{
    guided *g = arg;
    int64_t none[8];
    (void)image;
    const kd_config *c = kd_denoiser_model(g->d)->config;
    for (int64_t i = 0; i < n; i++) none[i] = c->classes;
    kd_cond cond = { .class_cond = g->class_cond };
    KD_TRY(kd_denoise_on(g->d, n, x, s, &cond, out, err));
    if (!g->class_cond) return 0;
    cond.class_cond = none;
    KD_TRY(kd_denoise_on(g->d, n, x, s, &cond, g->other, err));
    return kd_vec_extrapolate(&g->vec, n * c->size[0] * c->size[1] * c->channels, out, g->other, g->scale, out, err);
}

typedef struct run { const char *model, *result, *sampler, *solver; double scale; const char *key; } run;
static run runs[] = {
    { "v2_global", "v2_global.dpmpp_2m_sde_heun_eta0", "dpmpp_2m_sde", "heun", 0, "v2_global.dpmpp_2m_sde_heun_eta0" },
    { "v2_global", "v2_global.heun", "heun", "midpoint", 0, "v2_global.heun" },
    { "v2_global", "v2_global.lms", "lms", "midpoint", 0, "v2_global.lms" },
    { "v2_neighborhood_k7", "v2_neighborhood_k7.cfg2.5.dpmpp_2m_sde_heun_eta0", "dpmpp_2m_sde", "heun", 2.5,
      "v2_neighborhood_k7.cfg2.5" } };

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

// Peers' NCHW values at (i, y, x, k) of NHWC images.
static int64_t nchw(const kd_config *c, int64_t at)
{
    const int64_t pixels = c->size[0] * c->size[1], k = at % c->channels, p = at / c->channels % pixels, i = at / c->channels / pixels;
    return (i * c->channels + k) * pixels + p;
}

static void test_run(void **state)
{
    const run *r = *state;
    kd_frame *f = golden_load("model_sampling");
    char path[256];
    kd_err err = { 0 };
    kd_model *m;
    kd_backend *be;
    guided g = { .scale = r->scale };
    snprintf(path, sizeof path, "tests/golden/%s.weights.safetensors", r->model);
    must(kd_model_load(&m, path, false, &err), &err);
    must(kd_device_open(&be, "cpu", &err), &err);
    must(kd_denoiser_new(&g.d, m, be, &err), &err);
    g.vec.be = be;

    int64_t levels, count;
    snprintf(path, sizeof path, "%s.unit", r->model);
    float *sigmas = golden_f32(f, "sigmas", &levels), *unit = golden_f32(f, path, &count);
    double *want_nchw = golden_f64(f, r->result, NULL), *want = malloc((size_t)count * sizeof *want);
    float *x = malloc((size_t)count * sizeof *x);
    must(be->alloc(be, (void **)&g.other, (size_t)count * sizeof *x, &err), &err);
    for (int64_t i = 0; i < count; i++) {
        x[i] = unit[nchw(m->config, i)] * sigmas[0];
        want[i] = want_nchw[nchw(m->config, i)];
    }
    snprintf(path, sizeof path, "%s.class_cond", r->model);
    if (r->scale) g.class_cond = kd_frame_get(f, path)->data;

    kd_sampler_opts o = kd_sampler_defaults();
    o.eta = 0, o.solver = r->solver;
    const kd_draw draw[2] = { { 0, 0 }, { 0, 1 } };
    const kd_sampling s = { .be = be, .sampler = kd_sampler_find(r->sampler), .o = &o, .sigmas = sigmas, .steps = levels - 1,
                            .call = denoise, .arg = &g };
    must(kd_sample(&s, 2, count / 2, draw, x, NULL, &err), &err);
    const double error = golden_error(x, want, count), allowed = fmax(1e-6, 3 * golden_tolerance("model_sampling", r->key));
    printf("# %-50s %.2g of %.2g allowed\n", r->result, error, allowed);
    assert_true(error <= allowed);

    free(sigmas), free(unit), free(want_nchw), free(want), free(x), be->free(be, g.other), kd_vec_free(&g.vec);
    kd_denoiser_free(g.d), kd_backend_close(be), kd_model_free(m), kd_frame_free(f);
}

int main(void)
{
    enum { RUNS = sizeof runs / sizeof *runs };
    struct CMUnitTest tests[RUNS];
    for (int k = 0; k < RUNS; k++) tests[k] = (struct CMUnitTest){ runs[k].result, test_run, NULL, NULL, &runs[k] };
    return cmocka_run_group_tests_name("model_sampling", tests, NULL, NULL);
}
