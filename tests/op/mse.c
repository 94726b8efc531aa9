#include "tests/op/test.h"

static const int64_t cases[][5] = { /* N, H, W, C, weights by position */
    { 1, 1, 1, 1, 0 }, { 3, 3, 5, 2, 1 }, { 2, 40, 37, 3, 0 }, { 2, 37, 40, 3, 1 } };

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    const kd_shape s = KD_SHAPE(c[0], c[1], c[2], c[3]);
    kd_val *x = t_input(b, T_IMAGES, s, NORMAL(0, 1)), *y = t_input(b, T_IMAGES | T_DATA, s, NORMAL(.5, 1));
    kd_val *w = t_input(b, T_IMAGES | T_DATA, KD_SHAPE(c[0]), NORMAL(2, .5));
    return kd_mse(b->g, x, y, w, c[4] ? t_input(b, T_DATA, KD_SHAPE(c[1], c[2]), NORMAL(1, .5)) : NULL);
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c, count = c[1] * c[2] * c[3];
    for (int64_t n = 0; n < c[0]; n++) {
        double sum = 0;
        for (int64_t i = 0; i < count; i++) {
            const double e = r->in[0][n * count + i] - r->in[1][n * count + i];
            sum += e * e * (c[4] ? r->in[3][i / c[3]] : 1);
        }
        r->y[n] = r->in[2][n] * sum / (double)count;
    }
}

KD_TEST_OP(mse, cases, .build = build, .ref = ref, .tol = 2e-7)
