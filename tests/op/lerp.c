#include "tests/op/test.h"

static const int64_t cases[][3] = { /* N, rows, C */ { 1, 1, 1 }, { 2, 3, 7 }, { 3, 100, 67 } };

static kd_val *build(t_build *b)
{
    const kd_shape s = KD_SHAPE(b->c[0], b->c[1], b->c[2]);
    kd_val *a = t_input(b, T_IMAGES, s, NORMAL(1, 1)), *c = t_input(b, T_IMAGES, s, NORMAL(-1, 1));
    return kd_lerp(b->g, a, c, t_input(b, T_SHARED, KD_SHAPE(1), NORMAL(.5, .2)));
}

static void ref(const t_ref *r)
{
    for (int64_t i = 0; i < r->c[0] * r->c[1] * r->c[2]; i++) r->y[i] = r->in[0][i] + r->in[2][0] * (r->in[1][i] - r->in[0][i]);
}

KD_TEST_OP(lerp, cases, .build = build, .ref = ref)
