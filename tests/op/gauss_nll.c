#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][2] = { { 1, 1 }, { 3, 37 }, { 2, 5000 } };                // N, elements an image

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *x = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1]), NORMAL(0, 1));
    kd_val *to = t_input(b, T_IMAGES | T_DATA, KD_SHAPE(c[0], c[1]), NORMAL(0, 1));
    return kd_gauss_nll(b->g, x, to, t_input(b, T_IMAGES, KD_SHAPE(c[0], 1), NORMAL(.3, 1)));
}

static void ref(const t_ref *r)
{
    const int64_t m = r->c[1];
    for (int64_t n = 0; n < r->c[0]; n++) {
        double sum = 0;
        for (int64_t i = n * m; i < (n + 1) * m; i++)
            sum += (pow(r->in[0][i] - r->in[1][i], 2) / exp(r->in[2][n]) + r->in[2][n]) / 2;
        r->y[n] = sum / (double)m;
    }
}

KD_TEST_OP(gauss_nll, cases, .build = build, .ref = ref)
