#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][4] = { { 1, 1, 1, 1 }, { 3, 5, 7, 2 }, { 2, 130, 16, 33 } };   // N, rows an image, A, B

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *x = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2]), NORMAL(0, 1));
    return kd_concat(b->g, x, t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[3]), NORMAL(0, 1)));
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c, all = c[2] + c[3];
    for (int64_t i = 0; i < c[0] * c[1] * all; i++)
        r->y[i] = i % all < c[2] ? r->in[0][i / all * c[2] + i % all] : r->in[1][i / all * c[3] + i % all - c[2]];
}

KD_TEST_OP(concat, cases, .build = build, .ref = ref)

static const int64_t parts[][5] = { /* N, rows an image, C, first, count */
    { 1, 1, 1, 0, 1 }, { 3, 5, 7, 0, 3 }, { 2, 130, 16, 3, 13 }, { 2, 3, 40, 8, 20 } };

static kd_val *build_slice(t_build *b)
{
    const int64_t *c = b->c;
    return kd_slice(b->g, t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2]), NORMAL(0, 1)), c[3], c[4]);
}

static void ref_slice(const t_ref *r)
{
    const int64_t *c = r->c;
    for (int64_t i = 0; i < c[0] * c[1] * c[4]; i++) r->y[i] = r->in[0][i / c[4] * c[2] + c[3] + i % c[4]];
}

KD_TEST_OP(slice, parts, .build = build_slice, .ref = ref_slice)
