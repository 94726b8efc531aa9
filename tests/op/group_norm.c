#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][8] = { /* N, H, W, C, groups, affine, adaptive, act */
    { 1, 2, 3, 1, 1, 0, 0, KD_ACT_NONE }, { 2, 5, 3, 6, 3, 1, 0, KD_ACT_NONE }, { 3, 4, 7, 32, 32, 1, 0, KD_ACT_SILU },
    { 2, 9, 9, 64, 2, 0, 1, KD_ACT_GELU }, { 2, 5, 7, 96, 32, 1, 1, KD_ACT_SILU }, { 3, 2, 3, 10, 1, 0, 1, KD_ACT_NONE },
    { 2, 3, 5, 130, 10, 1, 1, KD_ACT_GELU },
    { 1, 46, 45, 32, 1, 1, 0, KD_ACT_SILU } };         // more than the gradient keeps between its passes

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *x = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2], c[3]), NORMAL(3, 2));      // the mean: one pass would lose digits
    kd_val *w = c[5] ? t_input(b, T_SHARED, KD_SHAPE(c[3]), NORMAL(1, .3)) : NULL;
    kd_val *bias = c[5] ? t_input(b, T_SHARED, KD_SHAPE(c[3]), NORMAL(0, .5)) : NULL;
    kd_val *ada = c[6] ? t_input(b, T_IMAGES, KD_SHAPE(c[0], 2 * c[3]), NORMAL(0, .5)) : NULL;
    return kd_group_norm(b->g, x, w, bias, ada, c[4], 1e-5, (kd_act)c[7]);
}

static double act(double x, int64_t kind)
{
    return kind == KD_ACT_SILU ? x / (1 + exp(-x)) : kind == KD_ACT_GELU ? x * erfc(-x / sqrt(2)) / 2 : x;
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c, rows = c[1] * c[2], size = c[3] / c[4];
    const double *ada = c[6] ? r->in[1 + 2 * c[5]] : NULL;
    for (int64_t n = 0; n < c[0]; n++)
        for (int64_t g = 0; g < c[4]; g++) {
            const int64_t at = n * rows * c[3] + g * size;
            double mean = 0, var = 0;
            for (int64_t i = 0; i < rows * size; i++) mean += r->in[0][at + i / size * c[3] + i % size];
            mean /= (double)(rows * size);
            for (int64_t i = 0; i < rows * size; i++) var += pow(r->in[0][at + i / size * c[3] + i % size] - mean, 2);
            var /= (double)(rows * size);
            for (int64_t i = 0; i < rows * size; i++) {
                const int64_t k = g * size + i % size, e = at + i / size * c[3] + i % size;
                double z = (r->in[0][e] - mean) / sqrt(var + 1e-5);
                if (c[5]) z = z * r->in[1][k] + r->in[2][k];
                if (ada) z = z * (1 + ada[n * 2 * c[3] + k]) + ada[n * 2 * c[3] + c[3] + k];
                r->y[e] = act(z, c[7]);
            }
        }
}

KD_TEST_OP(group_norm, cases, .build = build, .ref = ref, .grad_tol = 1e-5)

/// x has a second use, so the norm's gradient continues a sum.
static kd_val *build_residual(t_build *b)
{
    kd_val *y = build(b);
    return kd_add(b->g, y, b->val[0]);
}

static void ref_residual(const t_ref *r)
{
    ref(r);
    for (int64_t i = 0; i < r->c[0] * r->c[1] * r->c[2] * r->c[3]; i++) r->y[i] += r->in[0][i];
}

static const int64_t few[][8] = { { 2, 5, 3, 6, 3, 1, 0, KD_ACT_NONE }, { 2, 9, 9, 64, 2, 0, 1, KD_ACT_GELU } };
KD_TEST_OP(group_norm_residual, few, .build = build_residual, .ref = ref_residual, .grad_tol = 1e-5)
