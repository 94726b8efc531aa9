#include "tests/op/test.h"

static const int64_t cases[][3] = { /* N, k, h */ { 1, 1, 1 }, { 3, 1, 33 }, { 2, 9, 64 } };

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *x = t_input(b, T_IMAGES | T_DATA, KD_SHAPE(c[0], c[1]), NORMAL(0, 20));      // large angles too
    return kd_fourier(b->g, x, t_input(b, T_DATA, KD_SHAPE(c[2], c[1]), NORMAL(0, 1)));
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c;
    for (int64_t n = 0; n < c[0]; n++)
        for (int64_t i = 0; i < c[2]; i++) {
            double angle = 0;
            for (int64_t k = 0; k < c[1]; k++) angle += 2 * M_PI * r->in[0][n * c[1] + k] * r->in[1][i * c[1] + k];
            r->y[n * 2 * c[2] + i] = cos(angle), r->y[n * 2 * c[2] + c[2] + i] = sin(angle);
        }
}

KD_TEST_OP(fourier, cases, .build = build, .ref = ref, .tol = 2e-7)
