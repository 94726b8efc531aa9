// Parameters that the loss does not depend on: training leaves them and their moments alone, as PyTorch does where a
// parameter's grad is None. They are those for which k-diffusion's golden case has no gradient: the skipped stage's.
#include "device/device.h"
#include "tests/support/golden.h"
#include "train/schedule.h"
#include "train/trainer_state.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { IMAGES = 4, SIZE = 16 * 16 * 3 };
static uint8_t pixels[IMAGES * SIZE];
static const kd_dataset data = { .n = IMAGES, .h = 16, .w = 16, .c = 3, .image = pixels };

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

/// unet_skip_stage with another optimizer, whose decay would show.
static kd_trainer *trainer(kd_backend *be, const char *optimizer, int64_t accum)
{
    kd_config *c, *wanted;
    kd_trainer *t;
    kd_err err = {0};
    must(kd_config_load(&c, "tests/golden/unet_skip_stage.config.json", &err), &err);
    json_t *json = json_loads(c->json, 0, NULL);
    json_object_set_new(json, "optimizer", json_loads(optimizer, 0, NULL));
    char *text = json_dumps(json, 0);
    must(kd_config_parse(&wanted, text, "cfg", false, NULL, &err), &err);
    const kd_train_opts o = { .batch = 2, .accum = accum, .clip = 1 };
    must(kd_trainer_new(&t, wanted, &o, NULL, be, &err), &err);
    free(text);
    json_decref(json);
    kd_config_free(c);
    return t;
}

static float *read(const kd_trainer *t, const float *array)
{
    const size_t bytes = (size_t)t->ps->trained * sizeof *array;
    float *copy = malloc(bytes);
    kd_err err = {0};
    must(t->be->download(t->be, copy, array, bytes, &err), &err);
    return copy;
}

static bool same(const kd_param_info *p, const float *a, const float *b)
{
    return !memcmp(a + p->offset, b + p->offset, (size_t)p->count * sizeof *a);
}

/// No array of the state is zero, so that its decay would show; the average is not the weights.
static void fill_state(kd_trainer *t)
{
    float *array[] = { t->s.w, t->s.ema, t->s.m, t->s.v };
    kd_err err = {0};
    for (int k = 0; k < 4; k++) {
        if (!array[k]) continue;
        float *x = read(t, array[k]);
        for (int64_t i = 0; i < t->ps->trained; i++) x[i] = (float)(0.02 + 0.01 * sin((double)i + k));
        must(t->be->upload(t->be, array[k], x, (size_t)t->ps->trained * sizeof *x, &err), &err);
        free(x);
    }
}

/// Outside of the parameters that have a gradient, the flat gradient is 0: nothing is left of the activations that used
/// its memory before.
static void check_gaps(const kd_trainer *t)
{
    float *grad = malloc((size_t)t->ps->trained * sizeof *grad);
    int64_t gaps = 0;
    kd_err err = {0};
    must(kd_program_get(t->p, t->flat, grad, &err), &err);
    for (int i = 0, k = 0; k < t->ps->trained; k++) {
        while (i < t->ps->n && t->ps->p[i].offset + t->ps->p[i].count <= k) i++;
        const kd_param_info *p = i < t->ps->n && t->ps->p[i].group >= 0 ? &t->ps->p[i] : NULL;
        if (p && k >= p->offset && !p->idle) continue;
        gaps++;
        if (grad[k] != 0) fail_msg("element %d of the gradient, at no parameter's place, is %g", k, (double)grad[k]);
    }
    assert_true(gaps > 0);
    free(grad);
}

static void check(const char *optimizer, int64_t accum)
{
    kd_backend *be;
    kd_step_stats stats[KD_STEPS_QUEUED];
    int n;
    kd_err err = {0};
    must(kd_device_open(&be, "cpu", &err), &err);
    kd_trainer *t = trainer(be, optimizer, accum);
    fill_state(t);
    float *const array[] = { t->s.w, t->s.m, t->s.v }, *before[3], *after[3];
    float *average = read(t, t->s.ema), *averaged;
    kd_frame *golden = golden_load("unet_skip_stage.grads");
    int idle = 0;
    for (int k = 0; k < 3; k++) before[k] = array[k] ? read(t, array[k]) : NULL;
    t->ema_step = 1000;                                // its decay is not 0 then
    const double decay = kd_ema_decay_at(t->c, t->ema_step);
    must(kd_trainer_step(t, &data, &err), &err);
    must(kd_trainer_results(t, true, stats, &n, &err), &err);
    assert_int_equal(n, 1);
    check_gaps(t);
    for (int k = 0; k < 3; k++) after[k] = array[k] ? read(t, array[k]) : NULL;
    averaged = read(t, t->s.ema);
    for (int i = 0; i < t->ps->n; i++) {
        const kd_param_info *p = &t->ps->p[i];
        char name[160];
        if (p->group < 0) continue;
        snprintf(name, sizeof name, "grad.%s", p->name);
        const bool reached = kd_frame_get(golden, name);
        idle += !reached;
        for (int k = 0; k < 3; k++)
            if (array[k] && same(p, before[k], after[k]) == reached)
                fail_msg("%s: %s of %s %s", optimizer, k ? "a moment" : "the weights", p->name, reached ? "did not move" : "moved");
        if (reached) continue;
        for (int64_t k = p->offset; k < p->offset + p->count; k++)     // the average goes on, towards what stands still
            assert_true(fabs(averaged[k] - (before[0][k] + decay * (average[k] - before[0][k]))) < 1e-8);
    }
    assert_int_equal(idle, 17);
    for (int k = 0; k < 3; k++) free(before[k]), free(after[k]);
    free(average), free(averaged);
    kd_frame_free(golden);
    kd_trainer_free(t);
    kd_backend_close(be);
}

static void adamw(void **state) { (void)state; check("{\"type\": \"adamw\", \"lr\": 1e-3, \"weight_decay\": 0.1}", 1); }
static void accumulated(void **state) { (void)state; check("{\"type\": \"adamw\", \"lr\": 1e-3, \"weight_decay\": 0.1}", 2); }
static void sgd(void **state) { (void)state; check("{\"type\": \"sgd\", \"lr\": 1e-3, \"weight_decay\": 0.1}", 1); }
static void momentum(void **state)
{
    (void)state;
    check("{\"type\": \"sgd\", \"lr\": 1e-3, \"weight_decay\": 0.1, \"momentum\": 0.9, \"nesterov\": true}", 1);
}

int main(void)
{
    for (int i = 0; i < IMAGES * SIZE; i++) pixels[i] = (uint8_t)(i * 37 + i / 7);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw), cmocka_unit_test(accumulated), cmocka_unit_test(sgd), cmocka_unit_test(momentum) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
