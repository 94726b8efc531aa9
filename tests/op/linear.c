#include "tests/op/test.h"

static const int64_t cases[][6] = { /* N, rows an image, K, M, bias, residual */
    { 1, 1, 1, 1, 0, 0 }, { 3, 1, 5, 7, 1, 1 }, { 2, 13, 33, 17, 1, 0 }, { 2, 101, 48, 130, 0, 1 }, { 5, 1, 256, 40, 0, 0 },
    { 1, 200, 129, 31, 1, 1 } };

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *x = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2]), NORMAL(0, 1));
    kd_val *w = t_input(b, T_SHARED, KD_SHAPE(c[3], c[2]), NORMAL(0, .2));
    kd_val *bias = c[4] ? t_input(b, T_SHARED, KD_SHAPE(c[3]), NORMAL(0, 1)) : NULL;
    return kd_linear(b->g, x, w, bias, c[5] ? t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[3]), NORMAL(0, 1)) : NULL);
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c, k = c[2], m = c[3];
    for (int64_t i = 0; i < c[0] * c[1]; i++)
        for (int64_t j = 0; j < m; j++) {
            double sum = (c[4] ? r->in[2][j] : 0) + (c[5] ? r->in[2 + c[4]][i * m + j] : 0);
            for (int64_t l = 0; l < k; l++) sum += r->in[0][i * k + l] * r->in[1][j * k + l];
            r->y[i * m + j] = sum;
        }
}

KD_TEST_OP(linear, cases, .build = build, .ref = ref)

/// Two layers on one input: the second's dx continues the first's sum.
static kd_val *build_pair(t_build *b)
{
    kd_val *y = build(b);
    return kd_linear(b->g, b->val[0], b->val[1], NULL, y);
}

static void ref_pair(const t_ref *r)
{
    const int64_t *c = r->c, k = c[2], m = c[3];
    ref(r);
    for (int64_t i = 0; i < c[0] * c[1]; i++)
        for (int64_t j = 0; j < m; j++)
            for (int64_t l = 0; l < k; l++) r->y[i * m + j] += r->in[0][i * k + l] * r->in[1][j * k + l];
}

KD_TEST_OP(linear_pair, cases, .build = build_pair, .ref = ref_pair)
