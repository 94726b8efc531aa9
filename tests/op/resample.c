#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][5] = { /* N, H, W, C, how */
    { 1, 2, 2, 1, KD_FIR_DOWN }, { 2, 5, 3, 4, KD_FIR_DOWN }, { 2, 6, 8, 17, KD_FIR_DOWN }, { 1, 2, 2, 1, KD_FIR_UP },
    { 2, 3, 5, 4, KD_FIR_UP }, { 2, 4, 7, 17, KD_FIR_UP }, { 2, 2, 2, 3, KD_MEAN_DOWN }, { 2, 5, 7, 20, KD_MEAN_DOWN },
    { 2, 1, 1, 3, KD_NEAREST_UP }, { 2, 3, 4, 19, KD_NEAREST_UP } };

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    return kd_resample(b->g, t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2], c[3]), NORMAL(0, 1)), (kd_resampling)c[4]);
}

static int64_t reflect(int64_t i, int64_t n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

/// As the peers write it: correlation of the padded image with a 4x4 kernel, or a transposed convolution that is cropped.
static double down(const double *x, const int64_t *c, int64_t y0, int64_t x0, int64_t k)
{
    static const double f[4] = { 1, 3, 3, 1 };
    double sum = 0;
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            sum += f[a] * f[b] / 64 * x[(reflect(2 * y0 + a - 1, c[1]) * c[2] + reflect(2 * x0 + b - 1, c[2])) * c[3] + k];
    return sum;
}

static void up(double *y, const double *x, const int64_t *c)
{
    static const double f[4] = { 1, 3, 3, 1 };
    const int64_t H = 2 * c[1], W = 2 * c[2];
    memset(y, 0, (size_t)(H * W * c[3]) * sizeof *y);
    for (int64_t i = -1; i <= c[1]; i++)
        for (int64_t j = -1; j <= c[2]; j++)
            for (int a = 0; a < 4; a++)
                for (int b = 0; b < 4; b++) {
                    const int64_t oy = 2 * (i + 1) + a - 3, ox = 2 * (j + 1) + b - 3;
                    if (oy < 0 || oy >= H || ox < 0 || ox >= W) continue;
                    for (int64_t k = 0; k < c[3]; k++)
                        y[(oy * W + ox) * c[3] + k] += f[a] * f[b] / 16 * x[(reflect(i, c[1]) * c[2] + reflect(j, c[2])) * c[3] + k];
                }
}

static double mean(const double *x, const int64_t *c, int64_t y0, int64_t x0, int64_t k)
{
    const double *p = x + (2 * y0 * c[2] + 2 * x0) * c[3] + k;
    return (p[0] + p[c[3]] + p[c[2] * c[3]] + p[(c[2] + 1) * c[3]]) / 4;
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c, bigger = c[4] == KD_FIR_UP || c[4] == KD_NEAREST_UP;
    const int64_t H = bigger ? 2 * c[1] : c[1] / 2, W = bigger ? 2 * c[2] : c[2] / 2;
    for (int64_t n = 0; n < c[0]; n++) {
        const double *x = r->in[0] + n * c[1] * c[2] * c[3];
        double *y = r->y + n * H * W * c[3];
        if (c[4] == KD_FIR_UP) up(y, x, c);
        for (int64_t i = 0; i < H * W * c[3] && c[4] != KD_FIR_UP; i++) {
            const int64_t k = i % c[3], x0 = i / c[3] % W, y0 = i / c[3] / W;
            y[i] = c[4] == KD_FIR_DOWN ? down(x, c, y0, x0, k) : c[4] == KD_MEAN_DOWN ? mean(x, c, y0, x0, k)
                                                               : x[(y0 / 2 * c[2] + x0 / 2) * c[3] + k];
        }
    }
}

KD_TEST_OP(resample, cases, .build = build, .ref = ref)
