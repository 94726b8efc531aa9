#include "tests/op/test.h"

static const int64_t cases[][6] = { /* N, H, W (in patches), p, q, C */
    { 1, 1, 1, 1, 1, 1 }, { 2, 2, 3, 2, 2, 5 }, { 1, 3, 2, 2, 3, 1 }, { 3, 5, 1, 4, 1, 7 } };

static kd_val *build_merge(t_build *b)
{
    const int64_t *c = b->c;
    return kd_patch_merge(b->g, t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1] * c[3], c[2] * c[4], c[5]), NORMAL(0, 1)), c[3], c[4]);
}

static kd_val *build_split(t_build *b)
{
    const int64_t *c = b->c;
    return kd_patch_split(b->g, t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2], c[3] * c[4] * c[5]), NORMAL(0, 1)), c[3], c[4]);
}

/// For each element: its place in the image and its place among the tokens, feature order (row, column, channel).
static void each(const t_ref *r, bool split)
{
    const int64_t *c = r->c, h = c[1] * c[3], w = c[2] * c[4];
    for (int64_t n = 0; n < c[0]; n++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++)
                for (int64_t k = 0; k < c[5]; k++) {
                    const int64_t image = ((n * h + y) * w + x) * c[5] + k, patch = (n * c[1] + y / c[3]) * c[2] + x / c[4];
                    const int64_t token = ((patch * c[3] + y % c[3]) * c[4] + x % c[4]) * c[5] + k;
                    r->y[split ? image : token] = r->in[0][split ? token : image];
                }
}

static void ref_merge(const t_ref *r) { each(r, false); }
static void ref_split(const t_ref *r) { each(r, true); }

KD_TEST_OP(patch_merge, cases, .build = build_merge, .ref = ref_merge)
KD_TEST_OP(patch_split, cases, .build = build_split, .ref = ref_split)
