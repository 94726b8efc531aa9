#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][12] = { /* N, H, W, Ci, Co, kh, kw, stride, pad_h, pad_w, bias, residual */
    { 1, 1, 1, 1, 1, 3, 3, 1, 1, 1, 0, 0 }, { 2, 5, 7, 3, 4, 3, 3, 1, 1, 1, 1, 1 }, { 3, 4, 4, 17, 35, 3, 3, 1, 1, 1, 1, 0 },
    { 2, 9, 40, 2, 5, 3, 3, 1, 1, 1, 0, 1 }, { 2, 5, 6, 4, 5, 3, 3, 2, 1, 1, 1, 0 }, { 2, 7, 7, 3, 6, 3, 3, 2, 0, 0, 1, 1 },
    { 2, 5, 9, 3, 4, 1, 7, 1, 0, 3, 0, 0 }, { 2, 9, 5, 4, 3, 7, 1, 1, 3, 0, 1, 0 }, { 2, 6, 5, 3, 7, 1, 1, 2, 0, 0, 1, 0 },
    { 2, 11, 8, 2, 3, 5, 5, 3, 2, 1, 0, 1 }, { 2, 4, 3, 6, 20, 1, 1, 1, 0, 0, 1, 1 }, { 2, 8, 8, 3, 2, 2, 2, 3, 0, 0, 0, 0 },
    { 1, 3, 2, 300, 40, 3, 3, 1, 1, 1, 0, 0 }, { 2, 3, 130, 1, 2, 3, 3, 1, 1, 1, 0, 0 } };


static int64_t rows(const int64_t *c) { return (c[1] + 2 * c[8] - c[5]) / c[7] + 1; }
static int64_t cols(const int64_t *c) { return (c[2] + 2 * c[9] - c[6]) / c[7] + 1; }

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *x = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2], c[3]), NORMAL(0, 1));
    kd_val *w = t_input(b, T_SHARED, KD_SHAPE(c[4], c[3], c[5], c[6]), NORMAL(0, .3));
    kd_val *bias = c[10] ? t_input(b, T_SHARED, KD_SHAPE(c[4]), NORMAL(0, 1)) : NULL;
    kd_val *res = c[11] ? t_input(b, T_IMAGES, KD_SHAPE(c[0], rows(c), cols(c), c[4]), NORMAL(0, 1)) : NULL;
    return kd_conv2d(b->g, x, w, bias, res, (kd_conv){ c[7], c[8], c[9] });
}

static double pixel(const t_ref *r, int64_t n, int64_t y0, int64_t x0, int64_t o)
{
    const int64_t *c = r->c;
    double sum = 0;
    for (int64_t a = 0; a < c[5]; a++)
        for (int64_t b = 0; b < c[6]; b++) {
            const int64_t y = y0 * c[7] + a - c[8], x = x0 * c[7] + b - c[9];
            if (y < 0 || y >= c[1] || x < 0 || x >= c[2]) continue;
            for (int64_t k = 0; k < c[3]; k++)
                sum += r->in[0][((n * c[1] + y) * c[2] + x) * c[3] + k] * r->in[1][((o * c[3] + k) * c[5] + a) * c[6] + b];
        }
    return sum;
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c, h = rows(c), w = cols(c);
    for (int64_t i = 0; i < c[0] * h * w * c[4]; i++) {
        const int64_t o = i % c[4], x = i / c[4] % w, y = i / c[4] / w % h, n = i / c[4] / w / h;
        r->y[i] = pixel(r, n, y, x, o) + (c[10] ? r->in[2][o] : 0) + (c[11] ? r->in[2 + c[10]][i] : 0);
    }
}

KD_TEST_OP(conv2d, cases, .build = build, .ref = ref)

/// By minimal filtering, whose sums and differences of pixels and results cost a bit of precision.
static const int64_t filtered[][12] = {
    { 2, 5, 7, 32, 64, 3, 3, 1, 1, 1, 1, 1 }, { 5, 4, 4, 64, 32, 3, 3, 1, 1, 1, 0, 1 }, { 2, 3, 67, 32, 32, 3, 3, 1, 1, 1, 1, 0 },
    { 1, 6, 5, 32, 32, 3, 3, 1, 0, 2, 0, 0 }, { 1, 3, 4, 416, 32, 3, 3, 1, 1, 1, 0, 0 } };
KD_TEST_OP(conv2d_filtered, filtered, .build = build, .ref = ref, .tol = 2e-6)

/// Two layers on one input: the second's dx continues the first's sum.
static const int64_t pairs[][12] = { { 2, 5, 7, 3, 4, 3, 3, 1, 1, 1, 0, 0 }, { 2, 6, 5, 3, 2, 3, 3, 2, 1, 1, 0, 0 } };

static kd_val *build_pair(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *y = build(b);
    return kd_conv2d(b->g, b->val[0], b->val[1], NULL, y, (kd_conv){ c[7], c[8], c[9] });
}

static void ref_pair(const t_ref *r)
{
    ref(r);
    for (int64_t i = 0; i < r->c[0] * rows(r->c) * cols(r->c) * r->c[4]; i++) r->y[i] *= 2;
}

KD_TEST_OP(conv2d_pair, pairs, .build = build_pair, .ref = ref_pair)
