// k-diffusion's training checkpoints of each kind of network: all that is in them, and the next step that PyTorch's optimizer takes from
// there (tests/golden/checkpoints/README.md).
#include "base/memory.h"
#include "device/device.h"
#include "formats/safetensors.h"
#include "model/import.h"
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

#define AT "tests/golden/checkpoints/kdiff_"
// Of the largest element, beside float64; a step moves a weight by a thousandth.
#define WRONG 1e-6

typedef struct fixture {
    kd_torch *torch;                   // the file as it is
    kd_frame *run, *next;              // as a checkpoint; the peer's step
    kd_config *c; kd_params *ps;
    json_t *names, *lr;                // in the optimizer's order; of its groups
    kd_backend *be;
    kd_opt_state s, host;              // the optimizer's arrays; while they are mapped, where the host sees them
} fixture;

static void good(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

static void setup(fixture *x, const char *name)
{
    static const kd_import_run run = { .seed = 7, .batch = 4 };
    char path[120], *said, *warning = NULL;
    kd_err err = {0};
    kd_import *i;
    *x = (fixture){0};
    snprintf(path, sizeof path, AT "%s.pth", name);
    good(kd_torch_load(&x->torch, path, &err), &err);
    good(kd_import_open(&i, path, false, &err), &err);
    good(kd_import_checkpoint(&x->run, i, NULL, &run, &said, &err), &err);
    kd_import_close(i);
    free(said);
    good(kd_config_parse(&x->c, kd_frame_meta(x->run, "config"), path, true, &warning, &err), &err);
    good(kd_params_of(&x->ps, x->c, &err), &err);
    snprintf(path, sizeof path, AT "%s.next.safetensors", name);
    good(kd_safetensors_load(path, &x->next, &err), &err);
    x->names = json_loads(kd_frame_meta(x->next, "names"), 0, NULL);
    x->lr = json_loads(kd_frame_meta(x->next, "lr"), 0, NULL);
    good(kd_device_open(&x->be, "cpu", &err), &err);
    good(kd_opt_state_new(&x->s, x->be, x->ps, x->c, &err), &err);
    free(warning);
}

static void teardown(fixture *x)
{
    kd_opt_state_free(&x->s, x->be);
    kd_backend_close(x->be);
    json_decref(x->names);
    json_decref(x->lr);
    kd_params_free(x->ps);
    kd_config_free(x->c);
    kd_frame_free(x->next);
    kd_frame_free(x->run);
    kd_torch_free(x->torch);
}

static void map(fixture *x, int mode)
{
    float *const from[] = { x->s.w, x->s.ema, x->s.m, x->s.v }, **const to[] = { &x->host.w, &x->host.ema, &x->host.m, &x->host.v };
    kd_err err = {0};
    for (int k = 0; k < 4; k++) {
        const int64_t n = k < 2 ? x->ps->total : x->ps->trained;
        if (from[k])
            good(x->be->map(x->be, from[k], (size_t)n * sizeof(float), mode, (void **)to[k], &err), &err);
    }
}

static void unmap(fixture *x)
{
    float *const host[] = { x->host.w, x->host.ema, x->host.m, x->host.v };
    kd_err err = {0};
    for (int k = 0; k < 4; k++)
        if (host[k])
            good(x->be->unmap(x->be, host[k], &err), &err);
    x->host = (kd_opt_state){0};
}

// Import ---------------------------------------------------------------------------------------------------------

// `to` gets it too, where the optimizer will look for it.
static void same(const fixture *x, const char *prefix, const kd_param_info *p, const char *path, float *to)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s", prefix, p->name);
    const kd_tensor *g = kd_frame_get(x->run, name), *w = kd_frame_get(x->torch->tensors, path);
    if (!g)
        fail_msg("no %s", name);
    assert_true(g->dtype == KD_F32 && kd_shape_same(&g->shape, &p->shape));
    memcpy(to + p->offset, g->data, kd_tensor_bytes(g));
    if (w && (!kd_shape_same(&w->shape, &p->shape) || memcmp(g->data, w->data, kd_tensor_bytes(g))))
        fail_msg("%s is not %s", name, path);
    for (int64_t k = 0; !w && k < p->count; k++)
        assert_true(((const float *)g->data)[k] == 0);
}

static bool has(const fixture *x, const char *prefix, const char *name)
{
    char full[160];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return kd_frame_get(x->next, full);
}

// Every parameter and buffer; moments by the peer's own order. One without moments is one that the loss does not depend on.
static void check_tensors(fixture *x, const char *m, const char *v)
{
    char path[160];
    int index = 0;
    map(x, KD_MAP_READ | KD_MAP_WRITE);
    for (int k = 0; k < x->ps->n; k++) {
        kd_param_info *p = &x->ps->p[k];
        snprintf(path, sizeof path, "model.%s", p->name);
        assert_non_null(kd_frame_get(x->torch->tensors, path));
        same(x, "model.", p, path, x->host.w);
        snprintf(path, sizeof path, "model_ema.%s", p->name);
        assert_non_null(kd_frame_get(x->torch->tensors, path));
        same(x, "ema.", p, path, x->host.ema);
        if (p->group < 0)
            continue;
        assert_string_equal(p->name, json_string_value(json_array_get(x->names, (size_t)index)));
        snprintf(path, sizeof path, "opt.state.%d.%s", index, m);
        p->idle = !has(x, "opt.m.", p->name);
        assert_int_equal(p->idle, !kd_frame_get(x->torch->tensors, path));
        same(x, "opt.m.", p, path, x->host.m);
        snprintf(path, sizeof path, "opt.state.%d.%s", index++, v ? v : "none");
        if (v)
            same(x, "opt.v.", p, path, x->host.v);
    }
    unmap(x);
    assert_int_equal(index, json_array_size(x->names));
    assert_int_equal(x->run->n, 2 * x->ps->n + (v ? 2 : 1) * index);
}

static void check_counts(const fixture *x, const char *seen, const char *lr_step, const char *accum)
{
    const char *const want[][2] = { { "kd_step", "3" }, { "kd_opt_step", "3" }, { "kd_ema_step", "3" }, { "kd_seen", seen },
                                    { "kd_lr_step", lr_step }, { "kd_accum", accum }, { "kd_batch", "4" }, { "kd_seed", "7" } };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_string_equal(kd_frame_meta(x->run, want[i][0]), want[i][1]);
    assert_true(strtod(kd_frame_meta(x->run, "kd_lr"), NULL) == x->c->lr);
    assert_true(strtod(kd_frame_meta(x->run, "kd_loss"), NULL) == json_real_value(json_object_get(json_object_get(x->torch->rest,
                "ema_stats"), "loss")));
}

// Next step ------------------------------------------------------------------------------------------------------

// The gradient, in memory of the backend that the caller frees.
static float *gradient(const fixture *x)
{
    const size_t bytes = (size_t)x->ps->trained * sizeof(float);
    float *g = calloc(1, bytes), *there;
    int64_t index = 0;
    kd_err err = {0};
    for (int i = 0; i < x->ps->n; i++) {
        const kd_param_info *p = &x->ps->p[i];
        if (p->group < 0)
            continue;
        for (int64_t k = 0; k < p->count && !p->idle; k++)
            g[p->offset + k] = (float)((k * 7 + index * 5) % 13 - 6) / 64;
        index++;
    }
    good(x->be->alloc(x->be, (void **)&there, bytes, &err), &err);
    good(x->be->upload(x->be, there, g, bytes, &err), &err);
    free(g);
    return there;
}

static void check_result(const fixture *x, const char *prefix, const float *got, double limit)
{
    for (int i = 0; i < x->ps->n; i++) {
        const kd_param_info *p = &x->ps->p[i];
        char name[160], at_name[160];
        double most = 0, worst = 0;
        snprintf(name, sizeof name, "%s%s", prefix, p->name);
        snprintf(at_name, sizeof at_name, "at.%s", p->name);
        const kd_tensor *at = kd_frame_get(x->next, at_name), *want = kd_frame_get(x->next, name);
        if (p->group < 0 || (p->idle && !strncmp(prefix, "opt.", 4)))
            continue;
        assert_true(at && want && want->dtype == KD_F64 && at->dtype == KD_I64 && kd_shape_same(&at->shape, &want->shape));
        for (int64_t k = 0; k < kd_tensor_count(want); k++) {
            const double w = ((const double *)want->data)[k];
            most = fmax(most, fabs(w));
            const double error = fabs(got[p->offset + ((const int64_t *)at->data)[k]] - w);
            worst = isnan(error) ? INFINITY : fmax(worst, error);
        }
        if (!(worst <= limit * most))
            fail_msg("%s: off by %g of %g", name, worst, most);
    }
}

static void take_step(fixture *x)
{
    double lr[4], clip[2];
    kd_err err = {0};
    const int64_t lr_step = strtoll(kd_frame_meta(x->run, "kd_lr_step"), NULL, 10);
    const int64_t accum = strtoll(kd_frame_meta(x->run, "kd_accum"), NULL, 10);
    const double decay = kd_ema_decay_at(x->c, strtoll(kd_frame_meta(x->run, "kd_ema_step"), NULL, 10));
    kd_group_rates(lr, kd_lr_at(x->c, strtod(kd_frame_meta(x->run, "kd_lr"), NULL), lr_step + accum - 1));
    for (size_t g = 0; g < json_array_size(x->lr); g++)
        assert_true(fabs(lr[g] - json_real_value(json_array_get(x->lr, g))) < 1e-12 * lr[g]);
    assert_true(fabs(decay - strtod(kd_frame_meta(x->next, "decay"), NULL)) < 1e-12);
    float *g = gradient(x);
    const double limit = strtod(kd_frame_meta(x->run, "kd_clip"), NULL);
    good(optimizer_step(x->be, x->ps, x->c, &x->s, g, limit, 4, lr, decay, clip, &err), &err);
    x->be->free(x->be, g);
    assert_true(fabs(clip[1] - strtod(kd_frame_meta(x->next, "norm"), NULL)) < 1e-6 * clip[1]);
    map(x, KD_MAP_READ);
    check_result(x, "model.", x->host.w, WRONG);
    check_result(x, "ema.", x->host.ema, WRONG);
    check_result(x, "opt.m.", x->host.m, WRONG);
    if (x->host.v)
        check_result(x, "opt.v.", x->host.v, WRONG);
    unmap(x);
}

static void unet_with_adamw(void **state)
{
    (void)state;
    fixture x;
    setup(&x, "unet_adamw");
    assert_int_equal(json_array_size(x.lr), 2);
    check_tensors(&x, "exp_avg", "exp_avg_sq");
    check_counts(&x, "12", "3", "1");
    take_step(&x);
    teardown(&x);
}

static void unet_that_skips_a_stage_with_sgd(void **state)
{
    (void)state;
    fixture x;
    setup(&x, "unet_sgd");
    assert_true(x.c->sgd && x.c->nesterov);
    check_tensors(&x, "momentum_buffer", NULL);
    check_counts(&x, "12", "3", "1");
    take_step(&x);
    teardown(&x);
}

static void transformer_v1_with_two_micro_batches(void **state)
{
    (void)state;
    fixture x;
    setup(&x, "v1_adamw");
    assert_int_equal(json_array_size(x.lr), 4);
    check_tensors(&x, "exp_avg", "exp_avg_sq");
    check_counts(&x, "24", "6", "2");
    take_step(&x);
    teardown(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(unet_with_adamw), cmocka_unit_test(unet_that_skips_a_stage_with_sgd),
                                        cmocka_unit_test(transformer_v1_with_two_micro_batches) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
