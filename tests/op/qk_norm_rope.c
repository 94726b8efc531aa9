#include "tests/op/test.h"

static const int64_t cases[][5] = { /* N, H, W, heads, d */
    { 1, 1, 1, 1, 8 }, { 2, 3, 5, 3, 8 }, { 1, 4, 4, 2, 32 }, { 2, 7, 11, 1, 64 }, { 3, 2, 3, 3, 24 } };

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *qkv = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2], 3 * c[3] * c[4]), NORMAL(.2, 1));
    kd_val *scale = t_input(b, T_SHARED, KD_SHAPE(c[3]), NORMAL(10, 1));
    kd_val *freqs = t_input(b, T_DATA, KD_SHAPE(c[3], c[4] / 8), NORMAL(10, 4));
    kd_val *pos = t_input(b, T_DATA, KD_SHAPE(c[1] * c[2], 2), NORMAL(0, .6));
    return kd_qk_norm_rope(b->g, qkv, scale, kd_rope_table(b->g, freqs, pos));
}

static void head(double *y, const double *x, double scale, const double *freqs, const double *pos, int64_t d)
{
    double sum = 0;
    for (int64_t i = 0; i < d; i++) sum += x[i] * x[i];
    const double k = sqrt(scale) / sqrt(sum + 1e-6);
    for (int64_t i = 0; i < d; i++) y[i] = x[i] * k;
    for (int64_t i = 0; i < d / 4; i++) {
        const double angle = i < d / 8 ? pos[0] * freqs[i] : pos[1] * freqs[i - d / 8], a = y[i], b = y[i + d / 4];
        y[i] = a * cos(angle) - b * sin(angle);
        y[i + d / 4] = b * cos(angle) + a * sin(angle);
    }
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c, tokens = c[1] * c[2], heads = c[3], d = c[4];
    for (int64_t n = 0; n < c[0]; n++)
        for (int64_t t = 0; t < tokens; t++) {
            const int64_t at = (n * tokens + t) * 3 * heads * d;
            memcpy(r->y + at, r->in[0] + at, (size_t)(3 * heads * d) * sizeof(double));
            for (int64_t h = 0; h < 2 * heads; h++)
                head(r->y + at + h * d, r->in[0] + at + h * d, r->in[1][h % heads], r->in[2] + h % heads * (d / 8), r->in[3] + 2 * t, d);
        }
}

KD_TEST_OP(qk_norm_rope, cases, .build = build, .ref = ref)
