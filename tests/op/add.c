#include "tests/op/test.h"

static const int64_t cases[][2] = { /* N, elements */ { 1, 1 }, { 3, 17 }, { 2, 5000 } };

static kd_val *build(t_build *b)
{
    const kd_shape s = KD_SHAPE(b->c[0], b->c[1]);
    kd_val *x = t_input(b, T_IMAGES, s, NORMAL(0, 1));
    return kd_add(b->g, x, t_input(b, T_IMAGES, s, NORMAL(0, 1)));
}

static void ref(const t_ref *r)
{
    for (int64_t i = 0; i < r->c[0] * r->c[1]; i++) r->y[i] = r->in[0][i] + r->in[1][i];
}

KD_TEST_OP(add, cases, .build = build, .ref = ref)

/// Both inputs are one value: the gradient counts twice.
static kd_val *build_twice(t_build *b)
{
    kd_val *x = t_input(b, T_IMAGES, KD_SHAPE(b->c[0], b->c[1]), NORMAL(0, 1));
    return kd_add(b->g, x, x);
}

static void ref_twice(const t_ref *r)
{
    for (int64_t i = 0; i < r->c[0] * r->c[1]; i++) r->y[i] = 2 * r->in[0][i];
}

KD_TEST_OP(add_twice, cases, .build = build_twice, .ref = ref_twice)
