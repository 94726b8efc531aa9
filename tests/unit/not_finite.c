// A step whose loss or gradient is not finite ends the run, and changes nothing: neither weights, average and moments nor the
// counts. On the CPU and on a device that works late.
#include "device/device.h"
#include "train/trainer_state.h"
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { IMAGES = 4, SIZE = 16 * 16 * 3, ARRAYS = 4 };
static uint8_t pixels[IMAGES * SIZE];
static const kd_dataset data = { .n = IMAGES, .h = 16, .w = 16, .c = 3, .image = pixels };

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

// BUILD/late.so: this program is BUILD/test-unit/not_finite.
static const char *late(void)
{
    static char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
    assert_true(n > 0);
    path[n] = 0;
    for (int up = 0; up < 2; up++) *strrchr(path, '/') = 0;
    return strcat(path, "/late.so");
}

static kd_trainer *trainer(kd_backend *be, int64_t accum)
{
    kd_config *c;
    kd_trainer *t;
    kd_err err = {0};
    must(kd_config_load(&c, "tests/golden/unet_skip_stage.config.json", &err), &err);
    const kd_train_opts o = { .batch = 2, .accum = accum, .clip = 1 };
    must(kd_trainer_new(&t, c, &o, NULL, be, &err), &err);
    return t;
}

static float *get(const kd_trainer *t, const float *array)
{
    const size_t bytes = (size_t)t->ps->trained * sizeof *array;
    float *copy = malloc(bytes);
    kd_err err = {0};
    must(t->be->download(t->be, copy, array, bytes, &err), &err);
    return copy;
}

// One more step, with one weight spoiled, must fail with this sentence.
static void spoil(kd_trainer *t, const char *name, float value, const char *sentence)
{
    const kd_param_info *p = kd_params_find(t->ps, name);
    float *const array[ARRAYS] = { t->s.w, t->s.ema, t->s.m, t->s.v }, *before[ARRAYS], *after[ARRAYS];
    kd_step_stats stats;
    kd_err err = {0};
    assert_non_null(p);
    must(t->be->upload(t->be, t->s.w + p->offset, &value, sizeof value, &err), &err);
    for (int k = 0; k < ARRAYS; k++) before[k] = get(t, array[k]);
    const int64_t step = t->step, seen = t->seen;
    assert_int_equal(kd_trainer_step(t, &data, &stats, &err), KD_EFAIL);
    assert_string_equal(err.msg, sentence);
    assert_true(t->step == step && t->seen == seen && t->opt_step == step && t->ema_step == step);
    for (int k = 0; k < ARRAYS; k++) {
        after[k] = get(t, array[k]);
        if (memcmp(before[k], after[k], (size_t)t->ps->trained * sizeof(float))) fail_msg("array %d was changed", k);
        free(before[k]);
        free(after[k]);
    }
}

static void run(const char *device, int64_t accum, float value, const char *sentence)
{
    kd_backend *be;
    kd_step_stats stats;
    kd_err err = {0};
    must(kd_device_open(&be, device, &err), &err);
    kd_trainer *t = trainer(be, accum);
    must(kd_trainer_step(t, &data, &stats, &err), &err);
    spoil(t, "inner_model.proj_out.bias", value, sentence);
    kd_trainer_free(t);
    kd_backend_close(be);
}

static void cpu(void **state)
{
    (void)state;
    run("cpu", 1, NAN, "step 2: loss is NaN");
    run("cpu", 2, NAN, "step 2: loss is NaN");
    run("cpu", 1, 1e25f, "step 2: loss is infinite");        // and its gradient is finite
    run("cpu", 2, 1e25f, "step 2: loss is infinite");
}

static void on_late(void **state)
{
    (void)state;
    run(late(), 1, NAN, "step 2: loss is NaN");
    run(late(), 2, NAN, "step 2: loss is NaN");
    run(late(), 1, 1e25f, "step 2: loss is infinite");        // and its gradient is finite
    run(late(), 2, 1e25f, "step 2: loss is infinite");
}

int main(void)
{
    for (int i = 0; i < IMAGES * SIZE; i++) pixels[i] = (uint8_t)(i * 37 + i / 7);
    const struct CMUnitTest tests[] = { cmocka_unit_test(cpu), cmocka_unit_test(on_late) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
