// k-diffusion's networks against the peer in float64: output, denoised images, variance, vector-Jacobian product, loss and
// every gradient; computed by the library, and by kd-denoise.
// The error that is allowed is three times that of float32 PyTorch, or 1e-6. Each case prints what it measured.
#include "device/device.h"
#include "diffusion/denoiser.h"
#include "formats/denoised.h"
#include "formats/safetensors.h"
#include "tests/support/golden.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

typedef struct golden {
    kd_model *m;
    kd_backend *be;
    kd_denoiser *d;
    kd_frame *io;
    kd_call_inputs in;
    kd_call_shape shape;
} golden;

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

static golden open_case(const char *name)
{
    golden g = { 0 };
    char path[256];
    kd_err err = { 0 };
    snprintf(path, sizeof path, "tests/golden/%s.weights.safetensors", name);
    must(kd_model_load(&g.m, path, false, &err), &err);
    must(kd_device_open(&g.be, "cpu", &err), &err);
    must(kd_denoiser_new(&g.d, g.m, g.be, &err), &err);
    snprintf(path, sizeof path, "%s.io", name);
    g.io = golden_load(path);
    const kd_config *c = g.m->config;
    g.shape = (kd_call_shape){ c->size[0], c->size[1], c->channels, c->mapping_cond_dim, c->unet_cond_dim, c->cross_cond_dim, c->channels };
    must(kd_call_inputs_read(&g.in, g.io, name, g.shape, &err), &err);
    return g;
}

static void close_case(golden *g)
{
    kd_call_inputs_free(&g->in);
    kd_frame_free(g->io);
    kd_denoiser_free(g->d);
    kd_backend_close(g->be);
    kd_model_free(g->m);
}

// Gradients that the peer has not are of parameters that it does not use: they are zeros.
static int unused_gradients(const kd_frame *got, const kd_frame *io)
{
    json_t *unused = golden_json(io, "unused_params"), *param;
    size_t i;
    json_array_foreach(unused, i, param) {
        char name[256];
        snprintf(name, sizeof name, "grad.%s", json_string_value(param));
        const kd_tensor *t = kd_frame_get(got, name);
        assert_non_null(t);
        for (int64_t k = 0; k < kd_tensor_count(t); k++) assert_true(((const float *)t->data)[k] == 0);
    }
    const int n = (int)json_array_size(unused);
    json_decref(unused);
    return n;
}

// got: a frame as formats/denoised.md describes, with all results
static void compare_all(const kd_frame *got, const kd_frame *io, const char *name)
{
    const bool variance = kd_frame_get(io, "logvar");
    int n, bad = golden_compare(got, io, name, "inner_out", "inner_out");
    bad += golden_compare(got, io, name, "denoised", "denoised");
    bad += golden_compare(got, io, name, "vjp_x", "vjp_x");
    bad += golden_compare(got, io, name, "loss", "loss");
    if (variance) bad += golden_compare(got, io, name, "logvar", "logvar");
    bad += golden_compare_gradients(got, name, &n);
    assert_int_equal(got->n, n + unused_gradients(got, io) + 4 + variance);
    assert_int_equal(bad, 0);
}

static kd_cond cond_of(const golden *g)
{
    const kd_call_inputs *in = &g->in;
    return (kd_cond){ .class_cond = in->class_cond, .aug_cond = in->aug_cond, .mapping_cond = in->mapping_cond, .unet_cond = in->unet_cond,
                      .cross_len = in->cross_len, .cross_cond = in->cross_cond, .cross_padding = in->cross_padding };
}

static void add_gradients(kd_frame *f, const kd_params *ps, const float *grad)
{
    kd_err err = { 0 };
    for (int i = 0; i < ps->n; i++) {
        const kd_param_info *p = &ps->p[i];
        kd_tensor *t;
        char name[256];
        snprintf(name, sizeof name, "grad.%s", p->name);
        if (p->tags & KD_TAG_BUFFER) continue;
        must(kd_frame_add(f, name, KD_F32, p->shape, NULL, &t, &err), &err);
        memcpy(t->data, grad + p->offset, (size_t)p->count * sizeof *grad);
    }
}

static kd_frame *library(golden *g)
{
    const int64_t n = g->in.n, channels = g->shape.c, count = n * g->shape.h * g->shape.w * channels;
    const kd_cond cond = cond_of(g);
    float *image[4], again[16];
    for (int k = 0; k < 4; k++) image[k] = malloc((size_t)count * sizeof **image);
    float *grad = malloc((size_t)g->m->params->total * sizeof *grad);
    kd_frame *f = kd_frame_new();
    kd_tensor *loss, *logvar = NULL;
    kd_err err = { 0 };
    assert_true(n <= 16);
    if (g->m->config->has_variance) must(kd_frame_add(f, "logvar", KD_F32, KD_SHAPE(n), NULL, &logvar, &err), &err);
    must(kd_denoise_variance(g->d, n, g->in.x, g->in.sigma, &cond, image[0], image[1], logvar ? logvar->data : NULL, &err), &err);
    must(kd_denoise_vjp(g->d, n, g->in.x, g->in.sigma, &cond, g->in.v, image[2], image[3], &err), &err);
    assert_memory_equal(image[1], image[2], (size_t)count * sizeof **image);
    must(kd_frame_add_nchw(f, "inner_out", image[0], n, channels, g->shape, &err), &err);
    must(kd_frame_add_nchw(f, "denoised", image[1], n, channels, g->shape, &err), &err);
    must(kd_frame_add_nchw(f, "vjp_x", image[3], n, channels, g->shape, &err), &err);
    must(kd_frame_add(f, "loss", KD_F32, KD_SHAPE(n), NULL, &loss, &err), &err);
    must(kd_denoiser_loss(g->d, n, g->in.x0, g->in.noise, g->in.sigma, &cond, again, NULL, &err), &err);
    must(kd_denoiser_loss(g->d, n, g->in.x0, g->in.noise, g->in.sigma, &cond, loss->data, grad, &err), &err);
    assert_memory_equal(loss->data, again, (size_t)n * sizeof *again);
    add_gradients(f, g->m->params, grad);
    for (int k = 0; k < 4; k++) free(image[k]);
    free(grad);
    return f;
}

static void test_library(void **state)
{
    golden g = open_case(*state);
    kd_frame *f = library(&g);
    compare_all(f, g.io, *state);
    kd_frame_free(f);
    close_case(&g);
}

static const char *build_folder;                          // of this program: the tool lies there too

// With calls of `batch` images: the gradient of the whole mean is put together of theirs.
static void run_tool(const char *name, int batch)
{
    char file[64] = "/tmp/kd-golden_models-XXXXXX", command[1024];
    const int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof command, "'%s/kd-denoise' --batch %d --loss --grad --vjp -o %s tests/golden/%s.weights.safetensors - "
             "<tests/golden/%s.io.safetensors", build_folder, batch, file, name, name);
    kd_err err = { 0 };
    kd_frame *f, *io;
    const int status = system(command), code = kd_safetensors_load(file, &f, &err);
    unlink(file);
    assert_int_equal(status, 0);
    must(code, &err);
    assert_string_equal(kd_frame_kind(f), "denoised/1");
    char path[64];
    snprintf(path, sizeof path, "%s.io", name);
    compare_all(f, io = golden_load(path), name);
    kd_frame_free(f);
    kd_frame_free(io);
}

static void test_tool(void **state)
{
    run_tool(*state, 64);
    run_tool(*state, 1);
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
    const kd_cond all = { .class_cond = g.in.class_cond, .aug_cond = zeros };
    must(kd_denoise(g.d, n, g.in.x, g.in.sigma, &all, NULL, together, &err), &err);
    for (int64_t i = 0; i < n; i++) {
        const kd_cond one = { .class_cond = g.in.class_cond + i };
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
    const kd_cond bad[] = { { 0 }, { .class_cond = wrong, .mapping_cond = g.in.mapping_cond }, { .class_cond = g.in.class_cond } };
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

int main(int argc, char **argv)
{
    (void)argc;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", argv[0]);
    for (int up = 0; up < 2; up++)
        if (strrchr(folder, '/')) *strrchr(folder, '/') = 0;      // build/test-unit/golden_models
    build_folder = folder;

    static char *const names[] = { "v2_global", "v2_neighborhood_k3", "v2_neighborhood_k7", "v2_shifted_window",
                                   "v2_shifted_window_mid", "v2_none_mapcond", "v2_loss_scales", "v2_simple_loss", "v1t_plain",
                                   "v1t_classes", "unet_full", "unet_patch2_var", "unet_skip_stage" };
    enum { CASES = sizeof names / sizeof *names };
    struct CMUnitTest tests[2 * CASES + 2];
    char tool[CASES][64];
    for (int k = 0; k < CASES; k++) {
        snprintf(tool[k], sizeof tool[k], "kd-denoise %s", names[k]);
        tests[k] = (struct CMUnitTest){ names[k], test_library, NULL, NULL, names[k] };
        tests[CASES + k] = (struct CMUnitTest){ tool[k], test_tool, NULL, NULL, names[k] };
    }
    tests[2 * CASES] = (struct CMUnitTest)cmocka_unit_test(test_alone);
    tests[2 * CASES + 1] = (struct CMUnitTest)cmocka_unit_test(test_conditions);
    return cmocka_run_group_tests_name("golden_models", tests, NULL, NULL);
}
