#include "tests/op/test.h"

static const int64_t cases[][3] = { /* N, elements, b too */ { 1, 1, 0 }, { 3, 17, 1 }, { 2, 5001, 1 }, { 2, 5001, 0 } };

static kd_val *build(t_build *b)
{
    const kd_shape s = KD_SHAPE(b->c[0], b->c[1]), one = KD_SHAPE(b->c[0]);
    kd_val *x = t_input(b, T_IMAGES, s, NORMAL(0, 1)), *sx = t_input(b, T_IMAGES | T_DATA, one, NORMAL(1, 1));
    if (!b->c[2]) return kd_row_mix(b->g, x, sx, NULL, NULL);
    kd_val *y = t_input(b, T_IMAGES, s, NORMAL(0, 1)), *sy = t_input(b, T_IMAGES | T_DATA, one, NORMAL(1, 1));
    return kd_row_mix(b->g, x, sx, y, sy);
}

static void ref(const t_ref *r)
{
    const int64_t k = r->c[1];
    for (int64_t i = 0; i < r->c[0] * k; i++) r->y[i] = r->in[1][i / k] * r->in[0][i] + (r->c[2] ? r->in[3][i / k] * r->in[2][i] : 0);
}

KD_TEST_OP(row_mix, cases, .build = build, .ref = ref)
