// guided-diffusion's network against the peer in float64: its output, the gradients of a mean squared error, and k-diffusion's
// wrapper around it with both schedules, quantised and not. The error that is allowed is three times that of float32 PyTorch,
// or 1e-6. The same network by kd-denoise.
#include "device/device.h"
#include "diffusion/denoiser.h"
#include "formats/denoised.h"
#include "formats/safetensors.h"
#include "model/import.h"
#include "tests/support/golden.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

typedef struct guided {
    kd_model *m;
    kd_backend *be;
    kd_denoiser *d;
    kd_frame *io;
    kd_call_inputs in;
    kd_call_shape shape;
} guided;

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

// The constructor's arguments of a case as a config, for images of the io file's size. more: further keys, or NULL.
static char *config_of(const kd_frame *io, json_t *more)
{
    json_t *args = golden_json(io, "model_args");
    const kd_tensor *x = kd_frame_get(io, "x");
    json_object_set_new(args, "type", json_string("guided_diffusion"));
    json_object_set_new(args, "input_size", json_pack("[I, I]", (json_int_t)x->shape.d[2], (json_int_t)x->shape.d[3]));
    if (more) json_object_update(args, more);
    json_decref(more);
    json_t *top = json_pack("{s:o}", "model", args);
    char *text = json_dumps(top, 0);
    json_decref(top);
    return text;
}

static guided open_case(const char *name, json_t *more)
{
    guided g = { 0 };
    kd_config *c;
    kd_import *file;
    char path[256];
    kd_err err = { 0 };
    snprintf(path, sizeof path, "%s.io", name);
    g.io = golden_load(path);
    char *text = config_of(g.io, more);
    must(kd_config_parse(&c, text, name, false, NULL, &err), &err);
    free(text);
    snprintf(path, sizeof path, "tests/golden/%s.%s", name, strcmp(name, "guided_tiny") ? "weights.safetensors" : "zip.pt");
    must(kd_import_open(&file, path, false, &err), &err);
    must(kd_import_model(&g.m, file, c, &err), &err);
    kd_import_close(file);
    must(kd_device_open(&g.be, "cpu", &err), &err);
    must(kd_denoiser_new(&g.d, g.m, g.be, &err), &err);
    g.shape = (kd_call_shape){ .h = c->size[0], .w = c->size[1], .c = c->channels, .out = kd_denoiser_channels(c) };
    must(kd_call_inputs_read(&g.in, g.io, name, g.shape, &err), &err);
    return g;
}

static void close_case(guided *g)
{
    kd_call_inputs_free(&g->in);
    kd_frame_free(g->io);
    kd_denoiser_free(g->d);
    kd_backend_close(g->be);
    kd_model_free(g->m);
}

static void compare_all(const kd_frame *got, const kd_frame *io, const char *name)
{
    int n, bad = golden_compare(got, io, name, "out", "out");
    bad += golden_compare(got, io, name, "loss", "loss");
    bad += golden_compare(got, io, name, "grad_x", "grad_x");
    if (strcmp(name, "guided_tiny")) {                    // which has no file of gradients
        bad += golden_compare_gradients(got, name, &n);
        assert_int_equal(got->n, n + 3);                  // every parameter is used
    }
    assert_int_equal(bad, 0);
}

static kd_frame *library(const guided *g)
{
    const int64_t n = g->in.n, pixels = n * g->shape.h * g->shape.w;
    float *out = malloc((size_t)(pixels * g->shape.out) * sizeof *out), *grad_x = malloc((size_t)(pixels * g->shape.c) * sizeof *grad_x);
    float *grad = malloc((size_t)g->m->params->total * sizeof *grad);
    float *alone = malloc((size_t)(pixels * g->shape.out) * sizeof *alone);
    const kd_cond cond = { .class_cond = g->in.class_cond };
    kd_raw_loss loss = { .target = g->in.target, .grad = grad, .grad_x = grad_x };
    kd_frame *f = kd_frame_new();
    kd_tensor *t;
    kd_err err = { 0 };
    must(kd_network_call(g->d, n, g->in.x, g->in.t, &cond, alone, NULL, &err), &err);
    must(kd_network_call(g->d, n, g->in.x, g->in.t, &cond, out, &loss, &err), &err);
    assert_memory_equal(out, alone, (size_t)(pixels * g->shape.out) * sizeof *out);
    must(kd_frame_add_nchw(f, "out", out, n, g->shape.out, g->shape, &err), &err);
    must(kd_frame_add_nchw(f, "grad_x", grad_x, n, g->shape.c, g->shape, &err), &err);
    must(kd_frame_add(f, "loss", KD_F32, (kd_shape){ 0 }, NULL, &t, &err), &err);
    *(float *)t->data = (float)loss.loss;
    for (int i = 0; i < g->m->params->n; i++) {
        const kd_param_info *p = &g->m->params->p[i];
        char name[256];
        snprintf(name, sizeof name, "grad.%s", p->name);
        must(kd_frame_add(f, name, KD_F32, p->shape, NULL, &t, &err), &err);
        memcpy(t->data, grad + p->offset, (size_t)p->count * sizeof *grad);
    }
    free(out), free(grad_x), free(grad), free(alone);
    return f;
}

static void test_library(void **state)
{
    guided g = open_case(*state, NULL);
    kd_frame *f = library(&g);
    compare_all(f, g.io, *state);
    kd_frame_free(f);
    close_case(&g);
}

// unet.cu's Python takes angles of another period.
static void test_period(void **state)
{
    const char *name = *state;
    guided g = open_case(name, json_pack("{s:i}", "max_period", 1000));
    kd_frame *f = library(&g);
    int64_t n;
    double *want = golden_f64(g.io, "out_max_period_1000", &n);
    const double error = golden_error(kd_frame_get(f, "out")->data, want, n);
    assert_int_equal(golden_judge(name, "out_max_period_1000", error, golden_tolerance(name, "out"), ""), 0);
    free(want);
    kd_frame_free(f);
    close_case(&g);
}

// k-diffusion's wrapper: denoised images, losses and steps of one schedule.
static void wrapper(const char *name, const char *schedule, bool quantize, int *bad)
{
    char key[64], what[80];
    snprintf(key, sizeof key, "openai_%s_%s", schedule, quantize ? "quant" : "cont");
    guided g = open_case(name, json_pack("{s:s, s:b}", "noise_schedule", schedule, "quantize", quantize));
    const int64_t n = g.in.n, pixels = g.shape.h * g.shape.w, size = n * pixels * g.shape.c;
    int64_t count;
    kd_err err = { 0 };
    kd_frame *f = kd_frame_new();
    kd_tensor *loss;
    float *sigma = golden_f32(g.io, "openai.sigma", NULL);
    float *D = malloc((size_t)size * sizeof *D), *noise = malloc((size_t)size * sizeof *noise);
    const kd_cond cond = { .class_cond = g.in.class_cond };
    for (int64_t i = 0; i < n * pixels; i++)
        for (int64_t k = 0; k < g.shape.c; k++) noise[i * g.shape.c + k] = g.in.target[i * g.shape.out + k];
    must(kd_denoise(g.d, n, g.in.x, sigma, &cond, NULL, D, &err), &err);
    snprintf(what, sizeof what, "%s.denoised", key);
    must(kd_frame_add_nchw(f, what, D, n, g.shape.c, g.shape, &err), &err);
    *bad += golden_compare(f, g.io, name, what, what);
    snprintf(what, sizeof what, "%s.loss", key);
    must(kd_frame_add(f, what, KD_F32, KD_SHAPE(n), NULL, &loss, &err), &err);
    must(kd_denoiser_loss(g.d, n, g.in.x, noise, sigma, &cond, loss->data, NULL, &err), &err);
    *bad += golden_compare(f, g.io, name, what, "loss");
    snprintf(what, sizeof what, "%s.t", key);
    double *t = golden_f64(g.io, what, &count);
    for (int64_t i = 0; i < count; i++) assert_true(fabs(kd_precond_at(g.m->config, sigma[i]).c_noise - t[i]) <= 1e-6 * t[i]);
    free(t), free(sigma), free(D), free(noise);
    kd_frame_free(f);
    close_case(&g);
}

static void test_wrappers(void **state)
{
    int bad = 0;
    for (int quantize = 0; quantize < 2; quantize++) {
        wrapper(*state, "linear", quantize, &bad);
        wrapper(*state, "cosine", quantize, &bad);
    }
    assert_int_equal(bad, 0);
}

static const char *build_folder;                          // of this program: the tools lie there too

static void test_tool(void **state)
{
    const char *name = *state;
    char folder[] = "/tmp/kd-golden_guided-XXXXXX", command[2048], path[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s.io", name);
    kd_frame *io = golden_load(path), *f;
    char *text = config_of(io, NULL);
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *config = fopen(path, "w");
    assert_non_null(config);
    fputs(text, config);
    fclose(config);
    free(text);
    snprintf(command, sizeof command, "'%s/kd-init' --from tests/golden/%s.%s --config %s/config.json | '%s/kd-denoise' --loss --grad "
             "-o %s/out - tests/golden/%s.io.safetensors", build_folder, name,
             strcmp(name, "guided_tiny") ? "weights.safetensors" : "zip.pt", folder, build_folder, folder, name);
    const int status = system(command);
    kd_err err = { 0 };
    snprintf(path, sizeof path, "%s/out", folder);
    const int code = kd_safetensors_load(path, &f, &err);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(status, 0);
    must(code, &err);
    compare_all(f, io, name);
    kd_frame_free(f);
    kd_frame_free(io);
}

int main(int argc, char **argv)
{
    (void)argc;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", argv[0]);
    for (int up = 0; up < 2; up++)
        if (strrchr(folder, '/')) *strrchr(folder, '/') = 0;      // build/test-unit/golden_guided
    build_folder = folder;

    static char *const names[] = { "guided_seed", "guided_tiny", "guided_class", "guided_conv" };
    struct CMUnitTest tests[16];
    char title[16][64];
    int n = 0;
    for (int k = 0; k < 4; k++) {
        const struct { const char *what; CMUnitTestFunction fn; } parts[] = {
            { "library", test_library }, { "wrappers", test_wrappers }, { "kd-denoise", test_tool } };
        for (int i = 0; i < 3; i++, n++) {
            snprintf(title[n], sizeof title[n], "%s %s", names[k], parts[i].what);
            tests[n] = (struct CMUnitTest){ title[n], parts[i].fn, NULL, NULL, names[k] };
        }
    }
    tests[n++] = (struct CMUnitTest){ "guided_seed period", test_period, NULL, NULL, names[0] };
    tests[n++] = (struct CMUnitTest){ "guided_tiny period", test_period, NULL, NULL, names[1] };
    return _cmocka_run_group_tests("golden_guided", tests, (size_t)n, NULL, NULL);
}
