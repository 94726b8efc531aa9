#include "tests/op/test.h"
#include "base/random.h"
#include "op/unet.h"

static const int64_t cases[][3] = { /* N, elements, 1000 p */
    { 1, 1, 500 }, { 3, 17, 100 }, { 2, 5003, 250 }, { 2, 64, 999 }, { 2, 130, 1 } };

static kd_val *build(t_build *b)
{
    kd_val *x = t_input(b, T_IMAGES, KD_SHAPE(b->c[0], b->c[1]), NORMAL(0, 1));
    kd_val *index = t_input(b, T_IMAGES, KD_SHAPE(b->c[0]), INDEX(100000));
    return kd_dropout(b->g, x, index, t_rng(b), (double)b->c[2] / 1000);
}

static void ref(const t_ref *r)
{
    const int64_t k = r->c[1];
    const double p = (double)r->c[2] / 1000;
    for (int64_t n = 0; n < r->c[0]; n++) {
        const kd_rng rng = kd_rng_of(T_SEED, KD_RNG_DROPOUT, kd_rng_node("layer"), (uint64_t)r->in[1][n], T_STEP);
        for (int64_t i = 0; i < k; i++)
            r->y[n * k + i] = (double)kd_rng_uniform(&rng, (uint64_t)i) < p ? 0 : r->in[0][n * k + i] / (1 - p);
    }
}

KD_TEST_OP(dropout, cases, .build = build, .ref = ref)

/// By channel: the mask of a channel is that of element c.
static const int64_t images[][4] = { { 1, 1, 1, 500 }, { 3, 5, 17, 100 }, { 2, 37, 130, 250 } };       // N, rows, C, 1000 p

static kd_val *build_channels(t_build *b)
{
    kd_val *x = t_input(b, T_IMAGES, KD_SHAPE(b->c[0], b->c[1], b->c[2]), NORMAL(0, 1));
    kd_val *index = t_input(b, T_IMAGES, KD_SHAPE(b->c[0]), INDEX(100000));
    return kd_dropout_channels(b->g, x, index, t_rng(b), (double)b->c[3] / 1000);
}

static void ref_channels(const t_ref *r)
{
    const int64_t per = r->c[1] * r->c[2];
    const double p = (double)r->c[3] / 1000;
    for (int64_t i = 0; i < r->c[0] * per; i++) {
        const kd_rng rng = kd_rng_of(T_SEED, KD_RNG_DROPOUT, kd_rng_node("layer"), (uint64_t)r->in[1][i / per], T_STEP);
        r->y[i] = (double)kd_rng_uniform(&rng, (uint64_t)(i % r->c[2])) < p ? 0 : r->in[0][i] / (1 - p);
    }
}

KD_TEST_OP(dropout_channels, images, .build = build_channels, .ref = ref_channels)
