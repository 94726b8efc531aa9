// Steps on a device that works late: they are queued and their results read together, but whoever looks at the state finds all of
// them done. Files are the CPU's.
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

enum { IMAGES = 4, SIZE = 16 * 16 * 3, MOST = 64 };
static uint8_t pixels[IMAGES * SIZE];
static const kd_dataset data = { .n = IMAGES, .h = 16, .w = 16, .c = 3, .image = pixels };
static kd_err err;

static void must(int code) { if (code) fail_msg("%s", err.msg); }

// BUILD/late.so: this program is BUILD/test-unit/queued_steps.
static const char *late(void)
{
    static char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
    assert_true(n > 0);
    path[n] = 0;
    for (int up = 0; up < 2; up++) *strrchr(path, '/') = 0;
    return strcat(path, "/late.so");
}

typedef struct run { kd_backend *be; kd_trainer *t; kd_step_stats stats[MOST]; int n; } run;

static void open_run(run *r, const char *device, int64_t accum)
{
    kd_config *c;
    *r = (run){0};
    must(kd_device_open(&r->be, device, &err));
    must(kd_config_load(&c, "tests/golden/unet_skip_stage.config.json", &err));
    const kd_train_opts o = { .batch = 2, .accum = accum, .clip = 1, .gns = accum > 1 };
    must(kd_trainer_new(&r->t, c, &o, NULL, r->be, &err));
}

static void close_run(run *r)
{
    kd_trainer_free(r->t);
    kd_backend_close(r->be);
}

static void take(run *r, bool wait)
{
    int n;
    must(kd_trainer_results(r->t, wait, r->stats + r->n, &n, &err));
    r->n += n;
}

static void steps(run *r, int count)
{
    for (int k = 0; k < count; k++) {
        must(kd_trainer_step(r->t, &data, &err));
        take(r, false);
    }
}

static void save(run *r, char **bytes, size_t *size)
{
    char path[] = "/tmp/kd-test-queued-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    must(kd_trainer_save(r->t, path, &data, &err));
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = (size_t)ftell(f);
    rewind(f);
    *bytes = malloc(*size);
    assert_int_equal(fread(*bytes, 1, *size, f), *size);
    fclose(f);
    close(fd);
    unlink(path);
}

// The calls of `name` that the device counted until it was closed.
static long calls(const char *stats, const char *name)
{
    char line[64];
    long n = -1;
    FILE *f = fopen(stats, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ' ') n = strtol(line + strlen(name), NULL, 10);
    fclose(f);
    return n;
}

static void read_together(void **state)
{
    char stats[] = "/tmp/kd-test-stats-XXXXXX";
    const int fd = mkstemp(stats);
    (void)state;
    assert_true(fd >= 0);
    for (int64_t accum = 1; accum <= 2; accum++) {
        run r;
        open_run(&r, late(), accum);
        steps(&r, 20);
        assert_int_equal(r.n, KD_STEPS_QUEUED);
        assert_int_equal(kd_trainer_steps(r.t), KD_STEPS_QUEUED);
        take(&r, true);
        assert_int_equal(r.n, 20);
        take(&r, true);
        assert_int_equal(r.n, 20);
        setenv("KD_LATE_STATS", stats, 1);
        close_run(&r);
        unsetenv("KD_LATE_STATS");
        assert_int_equal(calls(stats, "download"), 2);
        assert_int_equal(calls(stats, "sync"), 0);
    }
    close(fd);
    unlink(stats);
}

// Saving, forgetting the average and mapping it, each with steps in the queue.
static void state_is_that_of_all_steps(void **state)
{
    (void)state;
    for (int64_t accum = 1; accum <= 2; accum++) {
        run r[2];
        char *bytes[2][3];
        size_t size[2][3];
        for (int k = 0; k < 2; k++) {
            kd_model *m;
            open_run(&r[k], k ? late() : "cpu", accum);
            steps(&r[k], 3);
            save(&r[k], &bytes[k][0], &size[k][0]);
            steps(&r[k], 2);
            must(kd_trainer_reset_ema(r[k].t, &err));
            save(&r[k], &bytes[k][1], &size[k][1]);
            steps(&r[k], 1);
            must(kd_trainer_map_ema(r[k].t, &m, &err));
            assert_int_equal(kd_trainer_steps(r[k].t), 6);
            must(kd_trainer_unmap_ema(r[k].t, m, &err));
            steps(&r[k], 4);
            save(&r[k], &bytes[k][2], &size[k][2]);
            take(&r[k], false);
        }
        for (int i = 0; i < 3; i++) {
            assert_int_equal(size[0][i], size[1][i]);
            if (memcmp(bytes[0][i], bytes[1][i], size[0][i])) fail_msg("accum %d: checkpoint %d is not the CPU's", (int)accum, i);
        }
        assert_int_equal(r[0].n, 10);
        assert_int_equal(r[1].n, 10);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(r[0].stats[i].step, i + 1);
            assert_memory_equal(&r[0].stats[i], &r[1].stats[i], sizeof r[0].stats[i]);
        }
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < 3; i++) free(bytes[k][i]);
            close_run(&r[k]);
        }
    }
}

// The steps before it are not lost, and what cannot be saved is not.
static void bad_step_is_found_by_saving(void **state)
{
    const float bad = NAN;
    run r;
    (void)state;
    open_run(&r, late(), 1);
    steps(&r, 2);
    must(r.be->upload(r.be, r.t->s.w + kd_params_find(r.t->ps, "inner_model.proj_out.bias")->offset, &bad, sizeof bad, &err));
    steps(&r, 2);
    kd_err failed = {0};
    assert_int_equal(kd_trainer_save(r.t, "/tmp/kd-test-queued-is-not-there", &data, &failed), KD_EFAIL);
    assert_string_equal(failed.msg, "step 3: loss is NaN");
    assert_int_not_equal(access("/tmp/kd-test-queued-is-not-there", F_OK), 0);
    take(&r, false);
    assert_int_equal(r.n, 2);
    close_run(&r);
}

// A step that cannot be queued leaves those before it.
static void images_end(void **state)
{
    (void)state;
    run r;
    open_run(&r, late(), 1);
    r.t->seen = KD_MAX_SEEN - 5;                      // two steps' images and one
    steps(&r, 2);
    kd_err failed = {0};
    assert_int_equal(kd_trainer_step(r.t, &data, &failed), KD_EFAIL);
    assert_string_equal(failed.msg, "step 3: the random streams end after 1099511627776 images");
    take(&r, true);
    assert_int_equal(r.n, 2);
    assert_int_equal(kd_trainer_seen(r.t), KD_MAX_SEEN - 1);
    close_run(&r);
}

int main(void)
{
    for (int i = 0; i < IMAGES * SIZE; i++) pixels[i] = (uint8_t)(i * 37 + i / 7);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_together), cmocka_unit_test(state_is_that_of_all_steps),
        cmocka_unit_test(bad_step_is_found_by_saving), cmocka_unit_test(images_end) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
