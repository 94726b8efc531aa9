// Batches of training data: a function of seed, step and position; noise levels in their strata; classes dropped at the
// config's rate.
#include "train/batch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { IMAGES = 50, H = 4, W = 6, C = 3, SIZE = H * W * C };
static uint8_t pixels[IMAGES * SIZE];
static int64_t labels[IMAGES];
static kd_dataset data = { .n = IMAGES, .h = H, .w = W, .c = C, .image = pixels, .label = labels };

static kd_config config(void)
{
    return (kd_config){ .channels = C, .size = { H, W }, .classes = 5, .cond_dropout = 0.2, .augment_prob = 0.5,
                        .density = { .type = KD_DENSITY_LOGUNIFORM, .min_value = 0.01, .max_value = 100 } };
}

static int fill_data(void **state)
{
    (void)state;
    for (int i = 0; i < IMAGES * SIZE; i++) pixels[i] = (uint8_t)(i * 37 + i / 7);
    for (int i = 0; i < IMAGES; i++) labels[i] = i % 5;
    return 0;
}

static void make(kd_batch *b, const kd_config *c, int64_t n)
{
    kd_err err = {0};
    assert_int_equal(kd_batch_new(b, c, n, &err), 0);
}

// One batch of 12 holds what three of 4 hold, but for the noise levels, whose strata depend on the batch.
static void cut_in_parts(void **state)
{
    (void)state;
    const kd_config c = config();
    kd_batch whole, part;
    make(&whole, &c, 12);
    make(&part, &c, 4);
    kd_batch_fill(&whole, &c, &data, 9, 3, 120, 0, 1);
    for (int64_t k = 0; k < 3; k++) {
        kd_batch_fill(&part, &c, &data, 9, 3, 120 + 4 * k, k, 3);
        assert_memory_equal(part.x0, whole.x0 + 4 * k * SIZE, 4 * SIZE * sizeof(float));
        assert_memory_equal(part.noise, whole.noise + 4 * k * SIZE, 4 * SIZE * sizeof(float));
        assert_memory_equal(part.aug_cond, whole.aug_cond + 4 * k * 9, 4 * 9 * sizeof(float));
        assert_memory_equal(part.class_cond, whole.class_cond + 4 * k, 4 * sizeof(int64_t));
        for (int i = 0; i < 4; i++) assert_int_equal(part.index[i], 120 + 4 * k + i);
    }
    float *before = malloc(12 * SIZE * sizeof *before);
    memcpy(before, whole.noise, 12 * SIZE * sizeof *before);
    kd_batch_fill(&whole, &c, &data, 9, 4, 120, 0, 1);
    assert_memory_not_equal(before, whole.noise, 12 * SIZE * sizeof *before);
    kd_batch_fill(&whole, &c, &data, 8, 3, 120, 0, 1);
    assert_memory_not_equal(before, whole.noise, 12 * SIZE * sizeof *before);
    free(before);
    kd_batch_free(&whole);
    kd_batch_free(&part);
}

// Over the micro-batches of a step each stratum of [0, 1) has one noise level.
static void strata(void **state)
{
    (void)state;
    enum { N = 8, PARTS = 3 };
    const kd_config c = config();
    int hits[N * PARTS] = {0};
    kd_batch b;
    make(&b, &c, N);
    for (int k = 0; k < PARTS; k++) {
        kd_batch_fill(&b, &c, &data, 1, 0, k * N, k, PARTS);
        for (int i = 0; i < N; i++) {
            const double u = log(b.sigma[i] / 0.01) / log(100 / 0.01);
            hits[(int)(u * N * PARTS)]++;
        }
    }
    for (int i = 0; i < N * PARTS; i++) assert_int_equal(hits[i], 1);
    kd_batch_free(&b);
}

static void dropped_classes(void **state)
{
    (void)state;
    enum { N = 5000 };
    const kd_config c = config();
    kd_batch b;
    int dropped = 0;
    make(&b, &c, N);
    kd_batch_fill(&b, &c, &data, 2, 0, 0, 0, 1);
    for (int i = 0; i < N; i++) {
        const int64_t at = kd_dataset_at(&data, 2, (uint64_t)i);
        if (b.class_cond[i] == c.classes) dropped++;
        else assert_int_equal(b.class_cond[i], labels[at]);
    }
    assert_in_range(dropped, N / 5 - 120, N / 5 + 120);          // four standard deviations
    kd_batch_free(&b);
}

// Without augmentation the images are the data, each once an epoch; no condition is set.
static void plain_images(void **state)
{
    (void)state;
    kd_config c = config();
    int seen[IMAGES] = {0};
    kd_batch b;
    c.augment_prob = 0;
    make(&b, &c, IMAGES);
    kd_batch_fill(&b, &c, &data, 4, 7, 3 * IMAGES, 0, 1);
    for (int i = 0; i < IMAGES; i++) {
        const int64_t at = kd_dataset_at(&data, 4, (uint64_t)(3 * IMAGES + i));
        seen[at]++;
        for (int k = 0; k < SIZE; k++) assert_true(b.x0[i * SIZE + k] == (float)pixels[at * SIZE + k] / 255 * 2 - 1);
        for (int k = 0; k < 9; k++) assert_true(b.aug_cond[i * 9 + k] == 0);
    }
    for (int i = 0; i < IMAGES; i++) assert_int_equal(seen[i], 1);
    kd_batch_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(cut_in_parts), cmocka_unit_test(strata), cmocka_unit_test(dropped_classes),
                                        cmocka_unit_test(plain_images) };
    return cmocka_run_group_tests(tests, fill_data, NULL);
}
