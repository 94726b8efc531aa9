#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][6] = { /* N, H/p, W/q, C, p, q */
    { 1, 1, 1, 1, 1, 1 }, { 2, 3, 4, 3, 2, 2 }, { 3, 2, 5, 1, 4, 2 }, { 2, 3, 1, 17, 1, 3 } };

/// Places of element i of the image [N,H,W,C], in both layouts.
static int64_t patch_place(const int64_t *c, int64_t i)
{
    const int64_t H = c[1] * c[4], W = c[2] * c[5], k = i % c[3], x = i / c[3] % W, y = i / c[3] / W % H, n = i / c[3] / W / H;
    const int64_t feature = (k * c[4] + y % c[4]) * c[5] + x % c[5];
    return ((n * c[1] + y / c[4]) * c[2] + x / c[5]) * c[3] * c[4] * c[5] + feature;
}

static int64_t count(const int64_t *c) { return c[0] * c[1] * c[2] * c[3] * c[4] * c[5]; }

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    return kd_pixel_unshuffle(b->g, t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1] * c[4], c[2] * c[5], c[3]), NORMAL(0, 1)), c[4], c[5]);
}

static void ref(const t_ref *r)
{
    for (int64_t i = 0; i < count(r->c); i++) r->y[patch_place(r->c, i)] = r->in[0][i];
}

KD_TEST_OP(pixel_unshuffle, cases, .build = build, .ref = ref)

static kd_val *build_back(t_build *b)
{
    const int64_t *c = b->c;
    return kd_pixel_shuffle(b->g, t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2], c[3] * c[4] * c[5]), NORMAL(0, 1)), c[4], c[5]);
}

static void ref_back(const t_ref *r)
{
    for (int64_t i = 0; i < count(r->c); i++) r->y[i] = r->in[0][patch_place(r->c, i)];
}

KD_TEST_OP(pixel_shuffle, cases, .build = build_back, .ref = ref_back)
