#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][3] = { /* N, elements an image, kind */
    { 1, 1, KD_ACT_SILU }, { 2, 37, KD_ACT_SILU }, { 3, 5000, KD_ACT_SILU }, { 2, 5001, KD_ACT_GELU }, { 3, 33, KD_ACT_RELU },
    { 2, 70, KD_ACT_QUICK_GELU } };

static kd_val *build(t_build *b)
{
    return kd_activate(b->g, t_input(b, T_IMAGES, KD_SHAPE(b->c[0], b->c[1]), NORMAL(0, 3)), (kd_act)b->c[2]);
}

static double act(double x, int64_t kind)
{
    switch (kind) {
    case KD_ACT_SILU: return x / (1 + exp(-x));
    case KD_ACT_GELU: return x * erfc(-x / sqrt(2)) / 2;
    case KD_ACT_RELU: return fmax(x, 0);
    default: return x / (1 + exp(-1.702 * x));
    }
}

static void ref(const t_ref *r)
{
    for (int64_t i = 0; i < r->c[0] * r->c[1]; i++) r->y[i] = act(r->in[0][i], r->c[2]);
}

KD_TEST_OP(activate, cases, .build = build, .ref = ref)
