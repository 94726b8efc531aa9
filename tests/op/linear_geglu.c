#include "tests/op/test.h"

static const int64_t cases[][4] = { /* N, rows an image, K, F */
    { 1, 1, 1, 1 }, { 3, 1, 10, 7 }, { 2, 13, 33, 17 }, { 2, 101, 24, 48 }, { 1, 97, 64, 9 } };

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *x = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2]), NORMAL(0, 1));
    return kd_linear_geglu(b->g, x, t_input(b, T_SHARED, KD_SHAPE(2 * c[3], c[2]), NORMAL(0, .5)));
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c, k = c[2], f = c[3];
    for (int64_t i = 0; i < c[0] * c[1]; i++)
        for (int64_t j = 0; j < f; j++) {
            double a = 0, g = 0;
            for (int64_t l = 0; l < k; l++) {
                a += r->in[0][i * k + l] * r->in[1][j * k + l];
                g += r->in[0][i * k + l] * r->in[1][(f + j) * k + l];
            }
            r->y[i * f + j] = a * g * .5 * erfc(-g / sqrt(2));
        }
}

KD_TEST_OP(linear_geglu, cases, .build = build, .ref = ref)
