#include "tests/op/test.h"

static const int64_t cases[][4] = { /* N, rows an image, C, own scale an image */
    { 1, 1, 1, 0 }, { 2, 5, 12, 0 }, { 3, 1, 37, 1 }, { 2, 130, 17, 1 }, { 3, 67, 96, 0 }, { 2, 9, 768, 1 } };

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *x = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2]), NORMAL(1, 2));
    kd_val *s = t_input(b, c[3] ? T_IMAGES : T_SHARED, c[3] ? KD_SHAPE(c[0], c[2]) : KD_SHAPE(c[2]), NORMAL(1, .3));
    return kd_rms_norm(b->g, x, s, c[3] ? 1 : 0, 1e-6f);
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c;
    for (int64_t row = 0; row < c[0] * c[1]; row++) {
        const double *x = r->in[0] + row * c[2], *s = r->in[1] + (c[3] ? row / c[1] * c[2] : 0);
        double sum = 0;
        for (int64_t i = 0; i < c[2]; i++) sum += x[i] * x[i];
        for (int64_t i = 0; i < c[2]; i++) r->y[row * c[2] + i] = x[i] * (s[i] + (double)c[3]) / sqrt(sum / (double)c[2] + 1e-6);
    }
}

KD_TEST_OP(rms_norm, cases, .build = build, .ref = ref)

/// x has a second use, so the norm's gradient continues a sum.
static kd_val *build_residual(t_build *b)
{
    kd_val *y = build(b);
    return kd_add(b->g, y, b->val[0]);
}

static void ref_residual(const t_ref *r)
{
    ref(r);
    for (int64_t i = 0; i < r->c[0] * r->c[1] * r->c[2]; i++) r->y[i] += r->in[0][i];
}

KD_TEST_OP(rms_norm_residual, cases, .build = build_residual, .ref = ref_residual)
