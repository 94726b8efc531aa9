// A step whose loss or gradient is not finite ends the run, and changes nothing: neither weights, average and moments nor the
// counts. A device that works late learns of it several steps later, and ends with the CPU's bytes.
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

static void get_all(const kd_trainer *t, float *copy[ARRAYS])
{
    float *const array[ARRAYS] = { t->s.w, t->s.ema, t->s.m, t->s.v };
    const size_t bytes = (size_t)t->ps->trained * sizeof(float);
    kd_err err = {0};
    for (int k = 0; k < ARRAYS; k++) {
        copy[k] = malloc(bytes);
        must(t->be->download(t->be, copy[k], array[k], bytes, &err), &err);
    }
}

// What a run on one device came to: its steps before the bad one, and the state that it left.
typedef struct outcome { kd_step_stats stats[KD_STEPS_QUEUED + 1]; int n; float *array[ARRAYS]; size_t bytes; } outcome;
enum { GOOD = 3, AFTER = 5 };             // steps before the bad one, and steps queued after it where steps are queued

static void set_bias(kd_trainer *t, float value)
{
    const kd_param_info *p = kd_params_find(t->ps, "inner_model.proj_out.bias");
    kd_err err = {0};
    assert_non_null(p);
    must(t->be->upload(t->be, t->s.w + p->offset, &value, sizeof value, &err), &err);
}

// Takes a step, and the results of those that were read.
static int step(kd_trainer *t, bool wait, outcome *o, kd_err *err)
{
    int n;
    must(kd_trainer_step(t, &data, err), err);
    kd_trainer_results(t, wait, o->stats + o->n, &n, err);
    o->n += n;
    return err->code;
}

// Three steps, then one weight is spoiled: the next step must fail with this sentence. Then the weight is mended.
static outcome run(const char *device, int64_t accum, float value, const char *sentence)
{
    kd_backend *be;
    outcome o = {0};
    float *before[ARRAYS] = {0};
    kd_err err = {0};
    must(kd_device_open(&be, device, &err), &err);
    kd_trainer *t = trainer(be, accum);
    for (int k = 0; k < GOOD; k++) must(step(t, false, &o, &err), &err);
    assert_int_equal(o.n, be->async ? 0 : GOOD);
    set_bias(t, value);
    if (!be->async) get_all(t, before);
    for (int k = AFTER; k >= 0 && !err.code; k--) step(t, k == 0, &o, &err);
    assert_int_equal(err.code, KD_EFAIL);
    assert_string_equal(err.msg, sentence);
    assert_int_equal(o.n, GOOD);
    assert_true(t->step == GOOD && t->seen == GOOD * 2 * accum && t->opt_step == GOOD && t->ema_step == GOOD && t->lr_step == GOOD);
    o.bytes = (size_t)t->ps->trained * sizeof(float);
    get_all(t, o.array);
    for (int k = 0; k < ARRAYS; k++) {
        if (before[k] && memcmp(before[k], o.array[k], o.bytes)) fail_msg("array %d was changed", k);
        free(before[k]);
    }
    set_bias(t, 0);
    err = (kd_err){0};
    must(step(t, true, &o, &err), &err);
    assert_int_equal(o.n, GOOD + 1);
    for (int k = 0; k < o.n; k++) assert_int_equal(o.stats[k].step, k + 1);
    kd_trainer_free(t);
    kd_backend_close(be);
    return o;
}

static void compare(int64_t accum, float value, const char *sentence)
{
    outcome cpu = run("cpu", accum, value, sentence), other = run(late(), accum, value, sentence);
    assert_memory_equal(cpu.stats, other.stats, (GOOD + 1) * sizeof *cpu.stats);
    for (int k = 0; k < ARRAYS; k++) {
        if (memcmp(cpu.array[k], other.array[k], cpu.bytes)) fail_msg("array %d is not the CPU's", k);
        free(cpu.array[k]), free(other.array[k]);
    }
}

static void nan_loss(void **state)
{
    (void)state;
    compare(1, NAN, "step 4: loss is NaN");
    compare(2, NAN, "step 4: loss is NaN");
}

static void infinite_loss(void **state)                          // and its gradient is finite
{
    (void)state;
    compare(1, 1e25f, "step 4: loss is infinite");
    compare(2, 1e25f, "step 4: loss is infinite");
}

int main(void)
{
    for (int i = 0; i < IMAGES * SIZE; i++) pixels[i] = (uint8_t)(i * 37 + i / 7);
    const struct CMUnitTest tests[] = { cmocka_unit_test(nan_loss), cmocka_unit_test(infinite_loss) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
