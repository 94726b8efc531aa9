#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][4] = { { 1, 1, 1, 1 }, { 3, 2, 5, 7 }, { 2, 9, 11, 33 } };     // N, H, W, C

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *x = t_input(b, T_IMAGES | T_DATA, KD_SHAPE(c[0], c[1], c[2], c[3]), NORMAL(0, 1));
    kd_val *first = t_input(b, T_SHARED | T_DATA, KD_SHAPE(c[3]), NORMAL(2, 1));
    return kd_tokens(b->g, x, first, t_input(b, T_SHARED | T_DATA, KD_SHAPE(1, 1 + c[1] * c[2], c[3]), NORMAL(0, 1)));
}

static void ref(const t_ref *r)
{
    const int64_t c = r->c[3], tokens = 1 + r->c[1] * r->c[2];
    for (int64_t i = 0; i < r->c[0] * tokens * c; i++) {
        const int64_t t = i / c % tokens, n = i / c / tokens;
        r->y[i] = (t ? r->in[0][(n * (tokens - 1) + t - 1) * c + i % c] : r->in[1][i % c]) + r->in[2][t * c + i % c];
    }
}

KD_TEST_OP(tokens, cases, .build = build, .ref = ref)
