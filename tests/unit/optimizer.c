// Five steps of the golden model against optimizer_*.safetensors: losses, gradient norms, weights and their average.
#include "base/memory.h"
#include "device/device.h"
#include "diffusion/denoiser.h"
#include "formats/safetensors.h"
#include "op/program.h"
#include "tests/support/optimizer.h"
#include "train/schedule.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// PyTorch's own float32 errors (tolerances.json); three times that, or 1e-6 if larger, is allowed.
static const struct golden_case { const char *name; double losses, weights; } cases[] = {
    { "adamw_noclip", 1.631e-07, 8.357e-07 }, { "adamw_clip1", 1.786e-07, 8.264e-07 }, { "sgd_momentum", 1.228e-07, 1.493e-07 },
    { "sgd_nesterov", 1.721e-07, 1.839e-07 }, { "adamw_accum2", 2.833e-07, 1.504e-05 },
};
static double allowed(double float32_error) { return fmax(3 * float32_error, 1e-6); }

enum { BATCH = 4, STEPS = 5 };
typedef struct fixture {
    kd_backend *be; kd_model *m; kd_opt_state s;
    kd_frame *data, *run;
    int64_t accum; double clip;
    float *sum;                        // on the backend: the gradient of a step
    float *grad;                       // on the host: of a micro-batch
    float loss[BATCH];
} fixture;

static void good(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

static const double *doubles(const kd_frame *f, const char *name)
{
    const kd_tensor *t = kd_frame_get(f, name);
    if (!t || t->dtype != KD_F64) fail_msg("%s is missing or not F64", name);
    return t->data;
}

static void take_settings(fixture *x)
{
    kd_config *c = x->m->config;
    const char *clip = kd_frame_meta(x->run, "clip"), *accum = kd_frame_meta(x->run, "grad_accum_steps");
    json_t *o = json_loads(kd_frame_meta(x->run, "optimizer"), 0, NULL), *betas = json_object_get(o, "betas");
    c->sgd = !strcmp(json_string_value(json_object_get(o, "type")), "sgd");
    c->lr = json_number_value(json_object_get(o, "lr"));
    c->weight_decay = json_number_value(json_object_get(o, "weight_decay"));
    c->beta1 = json_number_value(json_array_get(betas, 0));
    c->beta2 = json_number_value(json_array_get(betas, 1));
    c->eps = json_number_value(json_object_get(o, "eps"));
    c->momentum = json_number_value(json_object_get(o, "momentum"));
    c->nesterov = json_is_true(json_object_get(o, "nesterov"));
    c->lr_type = KD_LR_CONSTANT;
    c->lr_warmup = 0.5;
    c->ema_power = 0.75;
    c->ema_max = 0.9999;
    json_decref(o);
    x->clip = strtod(clip, NULL);
    x->accum = strtoll(accum, NULL, 10);
}

static void setup(fixture *x, const char *name)
{
    char path[128];
    kd_err err = {0};
    *x = (fixture){0};
    snprintf(path, sizeof path, "tests/golden/optimizer_%s.safetensors", name);
    good(kd_device_open(&x->be, "cpu", &err), &err);
    good(kd_model_load(&x->m, "tests/golden/v2_global.weights.safetensors", false, &err), &err);
    good(kd_safetensors_load("tests/golden/optimizer_data.safetensors", &x->data, &err), &err);
    good(kd_safetensors_load(path, &x->run, &err), &err);
    take_settings(x);
    good(kd_opt_state_new(&x->s, x->be, x->m->params, x->m->config, &err), &err);
    const size_t bytes = (size_t)x->m->params->total * sizeof(float);
    good(x->be->alloc(x->be, (void **)&x->sum, bytes, &err), &err);
    good(x->be->upload(x->be, x->s.w, x->m->w, bytes, &err), &err);
    good(x->be->upload(x->be, x->s.ema, x->m->w, bytes, &err), &err);
    x->grad = kd_alloc(bytes);
    assert_non_null(x->grad);
}

static void teardown(fixture *x)
{
    x->be->free(x->be, x->sum);
    kd_opt_state_free(&x->s, x->be);
    kd_free(x->grad);
    kd_model_free(x->m);
    kd_frame_free(x->data);
    kd_frame_free(x->run);
    kd_backend_close(x->be);
}

static void to_nhwc(float *to, const float *from, const kd_config *c)
{
    const int64_t size = c->size[0] * c->size[1];
    for (int64_t n = 0; n < BATCH; n++)
        for (int64_t p = 0; p < size; p++)
            for (int64_t k = 0; k < c->channels; k++)
                to[(n * size + p) * c->channels + k] = from[(n * c->channels + k) * size + p];
}

// sum += grad, by the op that training sums its micro-batches with
static void accumulate(fixture *x)
{
    kd_graph *g = kd_graph_new();
    kd_program *p;
    kd_err err = {0};
    kd_val *sum = kd_param(g, "sum", KD_SHAPE(x->m->params->trained)), *part = kd_input(g, "part", KD_F32, sum->shape);
    kd_bind(sum, x->sum);
    kd_val *out = kd_accumulate(g, sum, part);
    good(kd_program_new(&p, g, x->be, &out, 1, &err), &err);
    good(kd_program_set(p, part, x->grad, &err), &err);
    good(kd_program_run(p, &err), &err);
    kd_program_free(p);
}

// Loss and gradient of golden micro-batch i at the present weights. The gradient is divided by accum and added to sum.
static void micro_step(fixture *x, int64_t i)
{
    const kd_config *c = x->m->config;
    const kd_params *ps = x->m->params;
    const int64_t image = c->size[0] * c->size[1] * c->channels;
    const float *x0 = kd_frame_get(x->data, "x0")->data, *noise = kd_frame_get(x->data, "noise")->data;
    const float *sigma = kd_frame_get(x->data, "sigma")->data, *aug = kd_frame_get(x->data, "aug_cond")->data;
    float *a = malloc((size_t)(BATCH * image) * sizeof *a), *b = malloc((size_t)(BATCH * image) * sizeof *b);
    const kd_cond cond = { .aug_cond = aug + i * BATCH * 9 };
    kd_denoiser *d;
    kd_err err = {0};

    to_nhwc(a, x0 + i * BATCH * image, c);
    to_nhwc(b, noise + i * BATCH * image, c);
    good(x->be->download(x->be, x->m->w, x->s.w, (size_t)ps->total * sizeof(float), &err), &err);
    good(kd_denoiser_new(&d, x->m, x->be, &err), &err);
    good(kd_denoiser_loss(d, BATCH, a, b, sigma + i * BATCH, &cond, x->loss, x->grad, &err), &err);
    for (int64_t k = 0; k < ps->trained; k++) x->grad[k] /= (float)x->accum;
    accumulate(x);
    kd_denoiser_free(d);
    free(a);
    free(b);
}

// Every tensor of "model." or "ema." against an array of the backend.
static void compare(fixture *x, const char *prefix, const float *on_backend, double limit)
{
    const kd_params *ps = x->m->params;
    float *w = x->grad;
    kd_err err = {0};
    good(x->be->download(x->be, w, on_backend, (size_t)ps->total * sizeof(float), &err), &err);
    for (int i = 0; i < ps->n; i++) {
        const kd_param_info *p = &ps->p[i];
        char name[160];
        if (p->group < 0) continue;
        snprintf(name, sizeof name, "%s%s", prefix, p->name);
        const double *want = doubles(x->run, name);
        double worst = 0, most = 0;
        for (int64_t k = 0; k < p->count; k++) {
            const double error = fabs(w[p->offset + k] - want[k]);
            worst = isnan(error) ? INFINITY : fmax(worst, error);
            most = fmax(most, fabs(want[k]));
        }
        if (!(worst <= limit * most)) fail_msg("%s: off by %g of %g, allowed %g", name, worst, most, limit * most);
    }
}

static void check_losses(const fixture *x, int64_t i, double limit)
{
    const double *want = doubles(x->run, "losses") + i * BATCH;
    for (int k = 0; k < BATCH; k++)
        if (!(fabs(x->loss[k] - want[k]) <= limit * want[k]))
            fail_msg("loss %d of micro-batch %d: %.9g, want %.9g", k, (int)i, x->loss[k], want[k]);
}

static void run_case(const struct golden_case *g)
{
    fixture x;
    kd_err err = {0};
    setup(&x, g->name);
    const kd_params *ps = x.m->params;
    const double *norms = doubles(x.run, "grad_norms"), *lrs = doubles(x.run, "lrs"), *decays = doubles(x.run, "ema_decay");

    for (int64_t step = 0; step < STEPS; step++) {
        double clip[2], lr[4];
        good(x.be->fill(x.be, x.sum, 0, (size_t)ps->trained * sizeof(float), &err), &err);
        for (int64_t k = 0; k < x.accum; k++) {
            micro_step(&x, step * x.accum + k);
            check_losses(&x, step * x.accum + k, allowed(g->losses));
        }
        const double decay = kd_ema_decay_at(x.m->config, step);
        assert_true(fabs(decay - decays[step]) < 1e-12);
        // The peer moves its schedule with every micro-batch, we with every step: there the stored rates are fed.
        kd_group_rates(lr, x.accum > 1 ? lrs[4 * step] : kd_lr_at(x.m->config, x.m->config->lr, step));
        for (int k = 0; k < 4; k++) assert_true(fabs(lr[k] - lrs[4 * step + k]) < 1e-12 * lr[k]);
        good(optimizer_step(x.be, ps, x.m->config, &x.s, x.sum, x.clip, step + 1, lr, decay, clip, &err), &err);
        if (!(fabs(clip[1] - norms[step]) <= 1e-5 * norms[step])) fail_msg("norm %.9g, want %.9g", clip[1], norms[step]);
        assert_true((clip[0] < 1) == (x.clip > 0 && norms[step] > x.clip));
        if (step == 0) {                              // decay 0: the average is the weights, bit for bit
            float *w = malloc((size_t)ps->trained * sizeof *w);
            good(x.be->download(x.be, w, x.s.w, (size_t)ps->trained * sizeof *w, &err), &err);
            good(x.be->download(x.be, x.grad, x.s.ema, (size_t)ps->trained * sizeof *w, &err), &err);
            assert_memory_equal(w, x.grad, (size_t)ps->trained * sizeof *w);
            free(w);
        }
    }
    compare(&x, "model.", x.s.w, allowed(g->weights));
    compare(&x, "ema.", x.s.ema, allowed(g->weights));
    teardown(&x);
}

static void adamw_noclip(void **state) { (void)state; run_case(&cases[0]); }
static void adamw_clip1(void **state) { (void)state; run_case(&cases[1]); }
static void sgd_momentum(void **state) { (void)state; run_case(&cases[2]); }
static void sgd_nesterov(void **state) { (void)state; run_case(&cases[3]); }
static void adamw_accum2(void **state) { (void)state; run_case(&cases[4]); }

// The groups of the peer's optimizer hold the parameters that ours do.
static void groups(void **state)
{
    (void)state;
    fixture x;
    setup(&x, "adamw_noclip");
    json_t *all = json_loads(kd_frame_meta(x.run, "groups"), 0, NULL), *group, *name;
    size_t g, i;
    int found = 0, trained = 0;
    json_array_foreach(all, g, group) json_array_foreach(group, i, name) {
        const kd_param_info *p = kd_params_find(x.m->params, json_string_value(name));
        if (!p || p->group != (int)g) fail_msg("%s is in group %d, not %d", json_string_value(name), p ? p->group : -9, (int)g);
        found++;
    }
    for (int k = 0; k < x.m->params->n; k++) trained += x.m->params->p[k].group >= 0;
    assert_int_equal(found, trained);
    json_decref(all);
    teardown(&x);
}

// Transformer v1's scales are cut at ln 100 after a step, and nothing else is.
static void bounded(void **state)
{
    (void)state;
    kd_model *m;
    kd_backend *be;
    kd_opt_state s;
    kd_err err = {0};
    good(kd_model_load(&m, "tests/golden/v1t_classes.weights.safetensors", false, &err), &err);
    good(kd_device_open(&be, "cpu", &err), &err);
    good(kd_opt_state_new(&s, be, m->params, m->config, &err), &err);
    const kd_param_info *scale = kd_params_find(m->params, "blocks.0.self_attn.qk_norm.scale");
    const size_t bytes = (size_t)m->params->total * sizeof(float);
    const double still[4] = {0};
    double clip[2];
    float *grad, *w = malloc(bytes), most = 0, all = 0;
    good(be->alloc(be, (void **)&grad, bytes, &err), &err);
    m->w[scale->offset] = 5;                                        // above ln 100 = 4.6
    m->w[kd_params_find(m->params, "out_norm.scale")->offset] = 9;
    good(be->upload(be, s.w, m->w, bytes, &err), &err);
    good(optimizer_step(be, m->params, m->config, &s, grad, 0, 1, still, 0, clip, &err), &err);
    assert_true(clip[0] == 1 && clip[1] == 0);
    good(be->download(be, w, s.w, bytes, &err), &err);
    for (int64_t k = 0; k < scale->count; k++) most = fmaxf(most, w[scale->offset + k]);
    for (int64_t k = 0; k < m->params->trained; k++) all = fmaxf(all, w[k]);
    assert_true(most == (float)log(100) && all == 9);
    free(w);
    be->free(be, grad);
    kd_opt_state_free(&s, be);
    kd_backend_close(be);
    kd_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups), cmocka_unit_test(adamw_noclip), cmocka_unit_test(adamw_clip1), cmocka_unit_test(sgd_momentum),
        cmocka_unit_test(sgd_nesterov), cmocka_unit_test(adamw_accum2), cmocka_unit_test(bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
