// Transformers v2 against the peer in float64: output, denoised images, vector-Jacobian product, loss and every gradient.
// The error that is allowed is three times that of float32 PyTorch, or 1e-6. Each case prints what it measured.
#include "diffusion/denoiser.h"
#include "formats/denoised.h"
#include "tests/support/golden.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct golden {
    const char *name;
    kd_model *m;
    kd_backend *be;
    kd_denoiser *d;
    kd_frame *io, *grads;
    kd_call_inputs in;
    kd_call_shape shape;
    int bad;                                              // comparisons that failed
} golden;

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

static golden open_case(const char *name)
{
    golden g = { .name = name };
    char path[256];
    kd_err err = { 0 };
    snprintf(path, sizeof path, "tests/golden/%s.weights.safetensors", name);
    must(kd_model_load(&g.m, path, false, &err), &err);
    must(kd_backend_open(&g.be, "cpu", &err), &err);
    must(kd_denoiser_new(&g.d, g.m, g.be, &err), &err);
    snprintf(path, sizeof path, "%s.io", name);
    g.io = golden_load(path);
    snprintf(path, sizeof path, "%s.grads", name);
    g.grads = golden_load(path);
    const kd_config *c = g.m->config;
    g.shape = (kd_call_shape){ c->size[0], c->size[1], c->channels, c->mapping_cond_dim };
    must(kd_call_inputs_read(&g.in, g.io, name, g.shape, &err), &err);
    return g;
}

static void close_case(golden *g)
{
    kd_call_inputs_free(&g->in);
    kd_frame_free(g->io);
    kd_frame_free(g->grads);
    kd_denoiser_free(g->d);
    kd_backend_close(g->be);
    kd_model_free(g->m);
}

static void judge(golden *g, const char *what, double error, double peer, const char *which)
{
    const double allowed = fmax(1e-6, 3 * peer);
    const bool ok = error <= allowed;                     // false for NaN
    printf("# %-22s %-10s %.2g of %.2g allowed %s%s\n", g->name, what, error, allowed, which, ok ? "" : "  TOO LARGE");
    g->bad += !ok;
}

// images: NHWC
static void compare_images(golden *g, const char *name, const float *images)
{
    kd_frame *f = kd_frame_new();
    kd_err err = { 0 };
    int64_t n;
    must(kd_frame_add_nchw(f, name, images, g->in.n, g->shape, &err), &err);
    double *want = golden_f64(g->io, name, &n);
    judge(g, name, golden_error(kd_frame_get(f, name)->data, want, n), golden_tolerance(g->name, name), "");
    free(want), kd_frame_free(f);
}

static void compare_calls(golden *g, const kd_cond *cond)
{
    const size_t n = (size_t)(g->in.n * g->shape.h * g->shape.w * g->shape.c);
    float *inner = malloc(n * sizeof *inner), *denoised = malloc(n * sizeof *denoised), *vjp = malloc(n * sizeof *vjp);
    kd_err err = { 0 };
    must(kd_denoise(g->d, g->in.n, g->in.x, g->in.sigma, cond, inner, denoised, &err), &err);
    compare_images(g, "inner_out", inner);
    compare_images(g, "denoised", denoised);
    must(kd_denoise_vjp(g->d, g->in.n, g->in.x, g->in.sigma, cond, g->in.v, denoised, vjp, &err), &err);
    compare_images(g, "denoised", denoised);
    compare_images(g, "vjp_x", vjp);
    free(inner), free(denoised), free(vjp);
}

// The error of one tensor is relative to the larger of its own maximum and a thousandth of the model's largest gradient.
static void compare_gradients(golden *g, const float *grad)
{
    double largest = 0, worst = 0, square = 0, norm = 0;
    const char *worst_name = "";
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < g->m->params->n; i++) {
            const kd_param_info *p = &g->m->params->p[i];
            if (p->tags & KD_TAG_BUFFER) continue;
            char name[256];
            int64_t n;
            double most = 0, error = 0;
            snprintf(name, sizeof name, "grad.%s", p->name);
            double *want = golden_f64(g->grads, name, &n);
            assert_int_equal(n, p->count);
            for (int64_t k = 0; k < n; k++) {
                const double e = grad[p->offset + k] - want[k];
                most = fmax(most, fabs(want[k]));
                error = isnan(e) ? INFINITY : fmax(error, fabs(e));
                if (pass) square += e * e, norm += want[k] * want[k];
            }
            free(want);
            if (!pass) largest = fmax(largest, most);
            else if (error / fmax(most, largest / 1000) > worst) worst = error / fmax(most, largest / 1000), worst_name = p->name;
        }
    judge(g, "grad worst", worst, golden_tolerance(g->name, "grad_worst"), worst_name);
    judge(g, "grad l2", sqrt(square / norm), golden_tolerance(g->name, "grad_l2_all"), "");
}

static void compare_loss(golden *g, const kd_cond *cond)
{
    float loss[16], again[16], *grad = malloc((size_t)g->m->params->total * sizeof *grad);
    kd_err err = { 0 };
    int64_t n;
    double *want = golden_f64(g->io, "loss", &n);
    assert_true(n == g->in.n && n <= 16);
    must(kd_denoiser_loss(g->d, n, g->in.x0, g->in.noise, g->in.sigma, cond, loss, NULL, &err), &err);
    must(kd_denoiser_loss(g->d, n, g->in.x0, g->in.noise, g->in.sigma, cond, again, grad, &err), &err);
    assert_memory_equal(loss, again, (size_t)n * sizeof *loss);
    judge(g, "loss", golden_error(loss, want, n), golden_tolerance(g->name, "loss"), "");
    compare_gradients(g, grad);
    free(want), free(grad);
}

static void test_case(void **state)
{
    golden g = open_case(*state);
    const kd_cond cond = { g.in.class_cond, g.in.aug_cond, g.in.mapping_cond };
    compare_calls(&g, &cond);
    compare_loss(&g, &cond);
    const int bad = g.bad;
    close_case(&g);
    assert_int_equal(bad, 0);
}

// Images one at a time give the bytes of all at once, with all kept programs in turn; an absent aug_cond is zeros.
static void test_alone(void **state)
{
    (void)state;
    golden g = open_case("v2_neighborhood_k7");
    const int64_t n = g.in.n, size = g.shape.h * g.shape.w * g.shape.c;
    float *together = malloc((size_t)(n * size) * sizeof *together), *alone = malloc((size_t)size * sizeof *alone);
    float *zeros = calloc((size_t)(9 * n), sizeof *zeros);
    kd_err err = { 0 };
    const kd_cond all = { g.in.class_cond, zeros, NULL };
    must(kd_denoise(g.d, n, g.in.x, g.in.sigma, &all, NULL, together, &err), &err);
    for (int64_t i = 0; i < n; i++) {
        const kd_cond one = { g.in.class_cond + i, NULL, NULL };
        must(kd_denoise(g.d, 1, g.in.x + i * size, g.in.sigma + i, &one, NULL, alone, &err), &err);
        assert_memory_equal(alone, together + i * size, (size_t)size * sizeof *alone);
    }
    free(together), free(alone), free(zeros);
    close_case(&g);
}

static void test_conditions(void **state)
{
    (void)state;
    golden g = open_case("v2_none_mapcond");              // 3 classes, a mapping_cond of 5
    float *out = malloc((size_t)(g.in.n * g.shape.h * g.shape.w * g.shape.c) * sizeof *out);
    const int64_t wrong[] = { 1, 4 };
    const kd_cond bad[] = { { 0 }, { wrong, NULL, g.in.mapping_cond }, { g.in.class_cond, NULL, NULL } };
    const char *const says[] = { "the model has 3 classes: class_cond is missing",
                                 "class_cond: image 1: expected a class 0 to 2, or 3 for none, got 4",
                                 "the model has a condition of 5 numbers: mapping_cond is missing" };
    for (int k = 0; k < 3; k++) {
        kd_err err = { 0 };
        assert_int_equal(kd_denoise(g.d, g.in.n, g.in.x, g.in.sigma, &bad[k], NULL, out, &err), KD_EUSAGE);
        assert_string_equal(err.msg, says[k]);
    }
    free(out);
    close_case(&g);
}

int main(void)
{
    static char *const names[] = { "v2_global", "v2_neighborhood_k3", "v2_neighborhood_k7", "v2_shifted_window",
                                   "v2_shifted_window_mid", "v2_none_mapcond", "v2_loss_scales", "v2_simple_loss" };
    enum { CASES = sizeof names / sizeof *names };
    struct CMUnitTest tests[CASES + 2];
    for (int k = 0; k < CASES; k++) tests[k] = (struct CMUnitTest){ names[k], test_case, NULL, NULL, names[k] };
    tests[CASES] = (struct CMUnitTest)cmocka_unit_test(test_alone);
    tests[CASES + 1] = (struct CMUnitTest)cmocka_unit_test(test_conditions);
    return cmocka_run_group_tests_name("golden_v2", tests, NULL, NULL);
}
