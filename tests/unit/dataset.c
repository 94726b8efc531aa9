// Data sets in memory: what is read is what was written, in memory and past the limit; the hash; the endless shuffled pass.
#include "base/io.h"
#include "data/dataset.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define OK(call) do { kd_err err_ = {0}; if (call) fail_msg("%s: %s", #call, err_.msg); } while (0)
#define E &err_

enum { N = 150, H = 5, W = 7, C = 3, SIZE = H * W * C };

static char folder[] = "/tmp/kd-dataset-XXXXXX", path[64];
static uint8_t pixels[N * SIZE];
static int64_t labels[N];

static int make_folder(void **state)
{
    (void)state;
    for (int i = 0; i < N * SIZE; i++) pixels[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int i = 0; i < N; i++) labels[i] = i % 10;
    if (!mkdtemp(folder)) return -1;
    setenv("TMPDIR", folder, 1);
    snprintf(path, sizeof path, "%s/x.st", folder);
    return 0;
}
static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);                                // fails if a test left a file in it
}

static void write_images(int64_t n, kd_dtype dtype, const void *images, const int64_t *label)
{
    kd_out *out;
    kd_images_writer *w;
    kd_frame *meta = kd_frame_new();
    const kd_images_info info = { .h = H, .w = W, .c = C, .dtype = dtype, .has_label = label, .meta = meta };
    OK(kd_frame_set_meta(meta, "class_names", "[\"a\"]", E));
    OK(kd_out_open(&out, path, true, E));
    OK(kd_images_create(&w, out, &info, NULL, E));
    for (int64_t i = 0; i < n; i++) {
        const kd_images one = { .n = 1, .image = (uint8_t *)images + i * SIZE * (int64_t)kd_dtype_size(dtype),
                                .label = label ? (int64_t *)label + i : NULL };
        OK(kd_images_put(w, &one, E));
    }
    OK(kd_images_finish(w, E));
    OK(kd_out_commit(out, E));
    kd_images_writer_free(w);
    kd_out_close(out);
    kd_frame_free(meta);
}

static void read_back(void **state)
{
    (void)state;
    // All in memory; the file from the first image on; from somewhere in the middle; exactly at the limit.
    static const int64_t limits[] = { 1 << 30, 0, 40 * SIZE, N * SIZE };
    uint64_t hash = 0;
    write_images(N, KD_U8, pixels, labels);
    for (int i = 0; i < 4; i++) {
        kd_dataset d;
        OK(kd_dataset_read(&d, path, limits[i], E));
        assert_true(d.n == N && d.h == H && d.w == W && d.c == C);
        assert_memory_equal(d.image, pixels, sizeof pixels);
        assert_memory_equal(d.label, labels, sizeof labels);
        assert_string_equal(kd_frame_meta(d.meta, "class_names"), "[\"a\"]");
        if (i) assert_true(d.hash == hash);
        hash = d.hash;
        kd_dataset_free(&d);
        assert_null(d.image);
    }
}

static uint64_t hash_of(int64_t n, const int64_t *label)
{
    kd_dataset d;
    write_images(n, KD_U8, pixels, label);
    OK(kd_dataset_read(&d, path, 1 << 30, E));
    assert_true((d.label != NULL) == (label != NULL));
    const uint64_t hash = d.hash;
    kd_dataset_free(&d);
    return hash;
}

// Other pixels, labels, or number of images: another hash.
static void hash_tells_data_apart(void **state)
{
    (void)state;
    const uint64_t all = hash_of(N, labels);
    assert_true(all == hash_of(N, labels));
    assert_true(all != hash_of(N, NULL));
    assert_true(all != hash_of(N - 1, labels));
    labels[70]++;
    assert_true(all != hash_of(N, labels));
    labels[70]--;
    pixels[SIZE * 60] ^= 1;
    assert_true(all != hash_of(N, labels));
    pixels[SIZE * 60] ^= 1;
}

static void floats_are_rounded(void **state)
{
    (void)state;
    static float f[2 * SIZE];
    for (int i = 0; i < 2 * SIZE; i++) f[i] = (float)i / SIZE * 2 - 2;       // -2 to 2: clamped at both ends
    uint8_t want[2 * SIZE];
    kd_images_quantize(want, f, 2 * SIZE, false);
    assert_true(want[0] == 0 && want[2 * SIZE - 1] == 255);
    write_images(2, KD_F32, f, NULL);
    kd_dataset d;
    OK(kd_dataset_read(&d, path, 1 << 30, E));
    assert_memory_equal(d.image, want, sizeof want);
    kd_dataset_free(&d);
}

// A pixel that is no number would become black; whichever image it is in is named, also past the first run.
static void no_number_is_refused(void **state)
{
    (void)state;
    static float f[N * SIZE];
    static const struct { float value; int64_t at; const char *want; } cases[] = {
        { NAN, 0, "x.st: image 0 has a pixel of nan" }, { INFINITY, 3 * SIZE - 1, "x.st: image 2 has a pixel of inf" },
        { -INFINITY, 149 * SIZE, "x.st: image 149 has a pixel of -inf" } };
    for (int i = 0; i < 3; i++) {
        kd_dataset d;
        kd_err err = {0};
        f[cases[i].at] = cases[i].value;
        write_images(N, KD_F32, f, NULL);
        f[cases[i].at] = 0;
        assert_int_equal(kd_dataset_read(&d, path, 1 << 30, &err), KD_EFORMAT);
        assert_non_null(strstr(err.msg, cases[i].want));
        assert_null(d.image);
    }
}

static void empty_is_refused(void **state)
{
    (void)state;
    kd_dataset d;
    kd_err err = {0};
    write_images(0, KD_U8, pixels, NULL);
    assert_int_equal(kd_dataset_read(&d, path, 1 << 30, &err), KD_EUSAGE);
    assert_non_null(strstr(err.msg, "x.st: no images"));
    assert_null(d.image);
}

// Each epoch shows each image once, in another order.
static void endless_pass(void **state)
{
    (void)state;
    const kd_dataset d = { .n = N };
    int same = 0;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        int seen[N] = {0};
        for (uint64_t i = 0; i < N; i++) {
            const int64_t at = kd_dataset_at(&d, 7, epoch * N + i);
            assert_in_range(at, 0, N - 1);
            seen[at]++;
            same += at == kd_dataset_at(&d, 7, (epoch + 1) * N + i);
        }
        for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
    }
    assert_true(same < 3 * N / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_back), cmocka_unit_test(hash_tells_data_apart), cmocka_unit_test(floats_are_rounded),
        cmocka_unit_test(no_number_is_refused), cmocka_unit_test(empty_is_refused),
        cmocka_unit_test(endless_pass) };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
