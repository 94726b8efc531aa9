#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][3] = { { 1, 1, 6 }, { 2, 5, 12 }, { 3, 1, 37 }, { 2, 130, 17 }, { 2, 67, 96 } };   // N, rows, C

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *x = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2]), NORMAL(3, 2));
    kd_val *w = t_input(b, T_SHARED, KD_SHAPE(c[2]), NORMAL(1, .3));
    return kd_layer_norm(b->g, x, w, t_input(b, T_SHARED, KD_SHAPE(c[2]), NORMAL(0, 1)), 1e-5);
}

static void ref(const t_ref *r)
{
    const int64_t c = r->c[2];
    for (int64_t row = 0; row < r->c[0] * r->c[1]; row++) {
        const double *x = r->in[0] + row * c;
        double mean = 0, var = 0;
        for (int64_t i = 0; i < c; i++) mean += x[i] / (double)c;
        for (int64_t i = 0; i < c; i++) var += pow(x[i] - mean, 2) / (double)c;
        for (int64_t i = 0; i < c; i++) r->y[row * c + i] = (x[i] - mean) / sqrt(var + 1e-5) * r->in[1][i] + r->in[2][i];
    }
}

KD_TEST_OP(layer_norm, cases, .build = build, .ref = ref, .grad_tol = 1e-5)
