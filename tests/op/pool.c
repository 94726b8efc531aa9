#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][8] = { /* N, H, W, C, largest, size, stride, pad */
    { 1, 1, 1, 1, 1, 1, 1, 0 }, { 2, 7, 8, 5, 1, 3, 2, 0 }, { 2, 5, 4, 33, 1, 3, 1, 1 }, { 2, 5, 4, 33, 0, 3, 1, 1 },
    { 3, 6, 7, 2, 0, 2, 2, 1 } };

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *x = t_input(b, T_IMAGES | T_DATA, KD_SHAPE(c[0], c[1], c[2], c[3]), NORMAL(-5, 1));     // below the padding's 0
    return kd_pool(b->g, x, (kd_pooling){ c[4], c[5], c[6], c[7] });
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c, H = (c[1] + 2 * c[7] - c[5]) / c[6] + 1, W = (c[2] + 2 * c[7] - c[5]) / c[6] + 1;
    for (int64_t i = 0; i < c[0] * H * W * c[3]; i++) {
        const int64_t k = i % c[3], top = i / c[3] / W % H * c[6] - c[7], left = i / c[3] % W * c[6] - c[7], n = i / c[3] / W / H;
        double sum = 0, most = -INFINITY;
        int seen = 0;
        for (int64_t y = top; y < top + c[5]; y++)
            for (int64_t x = left; x < left + c[5]; x++) {
                if (y < 0 || y >= c[1] || x < 0 || x >= c[2]) continue;
                const double value = r->in[0][((n * c[1] + y) * c[2] + x) * c[3] + k];
                sum += value, most = fmax(most, value), seen++;
            }
        r->y[i] = c[4] ? most : sum / seen;
    }
}

KD_TEST_OP(pool, cases, .build = build, .ref = ref)
