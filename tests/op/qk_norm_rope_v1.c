#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][5] = { /* N, H, W, heads, d */
    { 1, 1, 1, 1, 8 }, { 2, 3, 5, 3, 8 }, { 1, 4, 4, 2, 32 }, { 2, 7, 11, 1, 64 }, { 3, 2, 3, 3, 12 } };

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *qkv = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2], 3 * c[3] * c[4]), NORMAL(.2, 1));
    kd_val *scale = t_input(b, T_SHARED, KD_SHAPE(c[3]), NORMAL(2, .5));
    kd_val *h = t_input(b, T_SHARED, KD_SHAPE(c[3], c[4] / 4), NORMAL(1.5, .5));
    kd_val *w = t_input(b, T_SHARED, KD_SHAPE(c[3], c[4] / 4), NORMAL(1.5, .5));
    kd_val *pos = t_input(b, T_DATA, KD_SHAPE(c[1] * c[2], 2), NORMAL(0, .6));
    return kd_qk_norm_rope_v1(b->g, qkv, scale, kd_rope_table_v1(b->g, h, w, pos));
}

static void head(const t_ref *r, double *y, const double *x, int64_t head, int64_t token)
{
    const int64_t d = r->c[4];
    double sum = 0;
    for (int64_t i = 0; i < d; i++) sum += x[i] * x[i];
    const double k = exp(r->in[1][head] / 2 - log((double)d) / 4) / sqrt(sum / (double)d + 1e-6);
    for (int64_t i = 0; i < d / 2; i++) {
        const int across = i >= d / 4;
        const double angle = r->in[4][2 * token + across] * exp(r->in[2 + across][head * (d / 4) + i % (d / 4)]);
        const double a = k * x[2 * i], b = k * x[2 * i + 1];
        y[2 * i] = a * cos(angle) - b * sin(angle);
        y[2 * i + 1] = b * cos(angle) + a * sin(angle);
    }
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c, tokens = c[1] * c[2], heads = c[3], d = c[4];
    for (int64_t row = 0; row < c[0] * tokens; row++) {
        const int64_t at = row * 3 * heads * d;
        memcpy(r->y + at, r->in[0] + at, (size_t)(3 * heads * d) * sizeof(double));
        for (int64_t h = 0; h < 2 * heads; h++) head(r, r->y + at + h * d, r->in[0] + at + h * d, h % heads, row % tokens);
    }
}

KD_TEST_OP(qk_norm_rope_v1, cases, .build = build, .ref = ref)
