// Numbers of a checkpoint: what a run may hold is read back, what would end it in an assertion or an overflow is refused.
#include "device/device.h"
#include "formats/safetensors.h"
#include "train/trainer_state.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { IMAGES = 4, SIZE = 16 * 16 * 3 };
static uint8_t pixels[IMAGES * SIZE];
static const kd_dataset data = { .n = IMAGES, .h = 16, .w = 16, .c = 3, .image = pixels };
static kd_backend *be;
static char path[] = "/tmp/kd-checkpoint-XXXXXX";

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

static int open_backend(void **state)
{
    (void)state;
    kd_err err = {0};
    const int fd = mkstemp(path);
    if (fd < 0) return -1;
    close(fd);
    return kd_device_open(&be, "cpu", &err);
}

static int close_backend(void **state)
{
    (void)state;
    kd_backend_close(be);
    return unlink(path);
}

static kd_trainer *trainer(bool gns)
{
    kd_config *c;
    kd_trainer *t;
    kd_err err = {0};
    const kd_train_opts o = { .batch = 2, .accum = 2, .clip = 1, .gns = gns };
    must(kd_config_load(&c, "tests/golden/unet_skip_stage.config.json", &err), &err);
    must(kd_trainer_new(&t, c, &o, NULL, be, &err), &err);
    return t;
}

// Saved, with one number changed (key NULL: none), into a fresh trainer.
static int again(const kd_trainer *from, kd_trainer *to, const char *key, const char *value, kd_train_opts *o, kd_err *err)
{
    kd_frame *f;
    kd_config *c;
    must(kd_trainer_save((kd_trainer *)from, path, &data, err), err);
    must(kd_checkpoint_read(&f, path, err), err);
    if (key) must(kd_frame_set_meta(f, key, value, err), err);
    must(kd_checkpoint_setup(f, path, &c, o, err), err);
    kd_config_free(c);
    kd_trainer_load(to, f, path, &data, err);
    kd_frame_free(f);
    return err->code;
}

static void either_sign_comes_back(void **state)
{
    (void)state;
    kd_trainer *a = trainer(true), *b = trainer(true);
    kd_train_opts o;
    kd_err err = {0};
    a->step = 3, a->seen = 12;
    a->ema_loss = -1.25, a->has_loss = true;
    a->gns.square = -1e-300, a->gns.variance = -3, a->gns.beta_product = 1e-320;
    must(again(a, b, NULL, NULL, &o, &err), &err);
    assert_true(b->has_loss && b->ema_loss == -1.25);
    assert_true(b->gns.square == -1e-300 && b->gns.variance == -3 && b->gns.beta_product == a->gns.beta_product);
    assert_true(o.gns && o.batch == 2 && o.accum == 2);
    kd_trainer_free(a), kd_trainer_free(b);
}

static void gns_is_a_setting(void **state)
{
    (void)state;
    kd_trainer *a = trainer(false), *b = trainer(false);
    kd_train_opts o;
    kd_err err = {0};
    must(again(a, b, NULL, NULL, &o, &err), &err);
    assert_false(o.gns);
    kd_trainer_free(a), kd_trainer_free(b);
}

static void numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "kd_loss", "nan" }, { "kd_loss", "-inf" }, { "kd_loss", "1e" }, { "kd_seen", "1099511627777" }, { "kd_seen", "-1" },
        { "kd_step", "16777216" }, { "kd_lr_step", "9223372036854775807" }, { "kd_ema_step", "9223372036854775807" },
        { "kd_opt_step", "9223372036854775807" } };
    kd_trainer *a = trainer(false);
    a->has_loss = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kd_trainer *b = trainer(false);
        kd_train_opts o;
        kd_err err = {0};
        assert_int_equal(again(a, b, cases[i][0], cases[i][1], &o, &err), KD_EFORMAT);
        assert_non_null(strstr(err.msg, cases[i][0]));
        kd_trainer_free(b);
    }
    kd_trainer_free(a);
}

static void images_end(void **state)
{
    (void)state;
    kd_trainer *a = trainer(false), *b = trainer(false);
    kd_train_opts o;
    kd_err err = {0};
    must(again(a, b, "kd_seen", "1099511627774", &o, &err), &err);       // two of a step's four are left
    assert_int_equal(kd_trainer_step(b, &data, &err), KD_EFAIL);
    assert_string_equal(err.msg, "step 1: the random streams end after 1099511627776 images");
    kd_trainer_free(a), kd_trainer_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(either_sign_comes_back), cmocka_unit_test(gns_is_a_setting),
        cmocka_unit_test(numbers_out_of_range_are_refused), cmocka_unit_test(images_end) };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
