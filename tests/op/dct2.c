#include "tests/op/test.h"

static const int64_t cases[][5] = { /* N, H, W, C, inverse */
    { 1, 1, 1, 1, 0 }, { 2, 3, 5, 2, 0 }, { 1, 8, 12, 3, 1 }, { 2, 17, 1, 1, 1 }, { 1, 11, 23, 3, 0 } };

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    return kd_dct2(b->g, t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2], c[3]), NORMAL(0, 1)), c[4]);
}

enum { MOST = 64 };

/// m[k][x] for size n.
static void basis(double m[MOST][MOST], int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t x = 0; x < n; x++)
            m[k][x] = sqrt((k ? 2. : 1.) / (double)n) * cos(M_PI * (double)((2 * x + 1) * k) / (double)(2 * n));
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c, h = c[1], w = c[2], k = c[3];
    double a[MOST][MOST], b[MOST][MOST];
    basis(a, h), basis(b, w);
    for (int64_t i = 0; i < c[0] * h * w * k; i++) {
        const int64_t n = i / (h * w * k), y = i / (w * k) % h, x = i / k % w, ch = i % k;
        double sum = 0;
        for (int64_t v = 0; v < h; v++)
            for (int64_t u = 0; u < w; u++)
                sum += (c[4] ? a[v][y] * b[u][x] : a[y][v] * b[x][u]) * r->in[0][((n * h + v) * w + u) * k + ch];
        r->y[i] = sum;
    }
}

KD_TEST_OP(dct2, cases, .build = build, .ref = ref)
