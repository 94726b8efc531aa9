// Batches of training data: a function of seed, step and position; noise levels in their strata; classes dropped at the
// config's rate. The noise is drawn by the training graph (tests/op/random.c).
#include "base/random.h"
#include "device/device.h"
#include "diffusion/denoiser.h"
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

// Memory for everything that a batch of n images can hold, filled with a byte that no test expects.
static kd_batch batch_new(int64_t n)
{
    kd_batch b = { .n = n, .h = H, .w = W, .c = C };
    const struct { void **to; size_t bytes; } arrays[] = {
        { (void **)&b.pixels, SIZE }, { (void **)&b.x0, SIZE * sizeof *b.x0 }, { (void **)&b.sigma, sizeof *b.sigma },
        { (void **)&b.aug_cond, 9 * sizeof *b.aug_cond }, { (void **)&b.class_cond, sizeof *b.class_cond },
        { (void **)&b.index, sizeof *b.index } };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        *arrays[i].to = malloc((size_t)n * arrays[i].bytes);
        memset(*arrays[i].to, 0xa5, (size_t)n * arrays[i].bytes);
    }
    return b;
}

static void batch_free(kd_batch *b)
{
    free(b->pixels), free(b->x0), free(b->sigma), free(b->aug_cond), free(b->class_cond), free(b->index);
}

// One batch of 12 holds what three of 4 hold, but for the noise levels, whose strata depend on the batch.
static void cut_in_parts(void **state)
{
    (void)state;
    const kd_config c = config();
    kd_batch whole = batch_new(12), part = batch_new(4);
    kd_batch_fill(&whole, &c, &data, 9, 3, 120, 0, 1);
    for (int64_t k = 0; k < 3; k++) {
        kd_batch_fill(&part, &c, &data, 9, 3, 120 + 4 * k, k, 3);
        assert_memory_equal(part.x0, whole.x0 + 4 * k * SIZE, 4 * SIZE * sizeof(float));
        assert_memory_equal(part.pixels, whole.pixels + 4 * k * SIZE, 4 * SIZE);
        assert_memory_equal(part.aug_cond, whole.aug_cond + 4 * k * 9, 4 * 9 * sizeof(float));
        assert_memory_equal(part.class_cond, whole.class_cond + 4 * k, 4 * sizeof(int64_t));
        for (int i = 0; i < 4; i++) assert_int_equal(part.index[i], 120 + 4 * k + i);
    }
    kd_batch other = batch_new(12);
    kd_batch_fill(&other, &c, &data, 9, 4, 120, 0, 1);             // another step: the same images, other draws
    assert_memory_equal(other.pixels, whole.pixels, 12 * SIZE);
    assert_memory_equal(other.index, whole.index, 12 * sizeof *other.index);
    assert_memory_not_equal(other.x0, whole.x0, 12 * SIZE * sizeof *other.x0);
    assert_memory_not_equal(other.sigma, whole.sigma, 12 * sizeof *other.sigma);
    assert_memory_not_equal(other.aug_cond, whole.aug_cond, 12 * 9 * sizeof *other.aug_cond);
    kd_batch_fill(&other, &c, &data, 8, 3, 120, 0, 1);             // another seed: another order of the images too
    assert_memory_not_equal(other.pixels, whole.pixels, 12 * SIZE);
    assert_memory_not_equal(other.sigma, whole.sigma, 12 * sizeof *other.sigma);
    batch_free(&whole);
    batch_free(&part);
    batch_free(&other);
}

// An array that is NULL is not written. The others hold what they hold in a complete batch.
static void some_arrays(void **state)
{
    (void)state;
    enum { N = 6 };
    const kd_config c = config();
    kd_batch whole = batch_new(N);
    kd_batch_fill(&whole, &c, &data, 9, 3, 40, 0, 1);
    kd_batch only = { .n = N, .h = H, .w = W, .c = C };
    const struct { const void *complete; void **to; size_t bytes; } arrays[] = {
        { whole.pixels, (void **)&only.pixels, N * SIZE }, { whole.x0, (void **)&only.x0, N * SIZE * sizeof(float) },
        { whole.sigma, (void **)&only.sigma, N * sizeof(float) }, { whole.aug_cond, (void **)&only.aug_cond, N * 9 * sizeof(float) },
        { whole.class_cond, (void **)&only.class_cond, N * sizeof(int64_t) }, { whole.index, (void **)&only.index, N * sizeof(int64_t) } };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        void *const alone = *arrays[i].to = malloc(arrays[i].bytes);
        memset(alone, 0xa5, arrays[i].bytes);
        kd_batch_fill(&only, &c, &data, 9, 3, 40, 0, 1);
        assert_memory_equal(alone, arrays[i].complete, arrays[i].bytes);
        free(alone);
        *arrays[i].to = NULL;
    }
    batch_free(&whole);
}

// Over the micro-batches of a step each stratum of [0, 1) has one noise level.
static void strata(void **state)
{
    (void)state;
    enum { N = 8, PARTS = 3 };
    const kd_config c = config();
    int hits[N * PARTS] = {0};
    kd_batch b = batch_new(N);
    for (int k = 0; k < PARTS; k++) {
        kd_batch_fill(&b, &c, &data, 1, 0, k * N, k, PARTS);
        for (int i = 0; i < N; i++) {
            const double u = log(b.sigma[i] / 0.01) / log(100 / 0.01);
            hits[(int)(u * N * PARTS)]++;
        }
    }
    for (int i = 0; i < N * PARTS; i++) assert_int_equal(hits[i], 1);
    batch_free(&b);
}

static void dropped_classes(void **state)
{
    (void)state;
    enum { N = 5000 };
    const kd_config c = config();
    kd_batch b = batch_new(N);
    int dropped = 0;
    kd_batch_fill(&b, &c, &data, 2, 0, 0, 0, 1);
    for (int i = 0; i < N; i++) {
        const int64_t at = kd_dataset_at(&data, 2, (uint64_t)i);
        if (b.class_cond[i] == c.classes) dropped++;
        else assert_int_equal(b.class_cond[i], labels[at]);
    }
    assert_in_range(dropped, N / 5 - 120, N / 5 + 120);          // four standard deviations
    batch_free(&b);
}

// Without augmentation the images are the data, each once an epoch; no condition is set.
static void plain_images(void **state)
{
    (void)state;
    kd_config c = config();
    int seen[IMAGES] = {0};
    kd_batch b = batch_new(IMAGES);
    c.augment_prob = 0;
    kd_batch_fill(&b, &c, &data, 4, 7, 3 * IMAGES, 0, 1);
    for (int i = 0; i < IMAGES; i++) {
        const int64_t at = kd_dataset_at(&data, 4, (uint64_t)(3 * IMAGES + i));
        seen[at]++;
        assert_memory_equal(b.pixels + i * SIZE, pixels + at * SIZE, SIZE);
        for (int k = 0; k < SIZE; k++) assert_true(b.x0[i * SIZE + k] == (float)pixels[at * SIZE + k] / 255 * 2 - 1);
        for (int k = 0; k < 9; k++) assert_true(b.aug_cond[i * 9 + k] == 0);
    }
    for (int i = 0; i < IMAGES; i++) assert_int_equal(seen[i], 1);
    batch_free(&b);
}

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

// The noise of n images as the training graph draws it. index [n], noise [n,16,16,3]
static void draw_noise(kd_backend *be, int64_t n, const int64_t *index, uint64_t seed, uint64_t step, float *noise)
{
    kd_config *c;
    kd_params *ps;
    kd_loss_graph lg;
    kd_program *p;
    kd_err err = {0};
    must(kd_config_load(&c, "tests/golden/unet_skip_stage.config.json", &err), &err);
    must(kd_params_of(&ps, c, &err), &err);
    must(kd_loss_graph_new(&lg, c, ps, n, 0, true, false, KD_F32, &err), &err);
    must(kd_program_new(&p, lg.g, be, &lg.noise, 1, &err), &err);
    must(kd_program_set(p, lg.index, index, &err), &err);
    must(kd_program_set(p, lg.rng, (const uint64_t[]){ seed, step }, &err), &err);
    must(kd_program_run(p, &err), &err);
    must(kd_program_get(p, lg.noise, noise, &err), &err);
    kd_program_free(p);
    kd_loss_graph_free(&lg);
    kd_params_free(ps);
    kd_config_free(c);
}

// The noise of an image is a function of seed, position and step, whichever batch the image is in.
static void noise_of_a_batch(void **state)
{
    (void)state;
    enum { N = 3, IMAGE = 16 * 16 * 3 };
    static const int64_t index[N] = { 120, 7, ((int64_t)1 << 40) - 1 };
    static const uint64_t runs[][2] = { { 9, 3 }, { 9, 4 }, { 8, 3 }, { ~(uint64_t)0, (1 << 24) - 1 } };        // seed, step
    static float together[N * IMAGE], alone[IMAGE], want[IMAGE];
    kd_backend *be;
    kd_err err = {0};
    must(kd_device_open(&be, "cpu", &err), &err);
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        draw_noise(be, N, index, runs[r][0], runs[r][1], together);
        for (int i = 0; i < N; i++) {
            const kd_rng rng = kd_rng_of(runs[r][0], KD_RNG_NOISE, 0, (uint64_t)index[i], (uint32_t)runs[r][1]);
            kd_rng_normal(&rng, want, 0, IMAGE);
            assert_memory_equal(together + i * IMAGE, want, sizeof want);
        }
        draw_noise(be, 1, index + 1, runs[r][0], runs[r][1], alone);
        assert_memory_equal(alone, together + IMAGE, sizeof alone);
    }
    kd_backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(cut_in_parts), cmocka_unit_test(some_arrays), cmocka_unit_test(strata),
                                        cmocka_unit_test(dropped_classes), cmocka_unit_test(plain_images),
                                        cmocka_unit_test(noise_of_a_batch) };
    return cmocka_run_group_tests(tests, fill_data, NULL);
}
