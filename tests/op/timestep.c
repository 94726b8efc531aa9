#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][3] = { { 1, 2, 10000 }, { 3, 17, 10000 }, { 5, 64, 1000 } };   // N, dim, max_period

static kd_val *build(t_build *b)
{
    return kd_timestep_embedding(b->g, t_input(b, T_IMAGES | T_DATA, KD_SHAPE(b->c[0]), NORMAL(500, 250)), b->c[1], (double)b->c[2]);
}

static void ref(const t_ref *r)
{
    const int64_t dim = r->c[1], half = dim / 2;
    for (int64_t n = 0; n < r->c[0]; n++)
        for (int64_t k = 0; k < dim; k++) {
            const double angle = r->in[0][n] * pow((double)r->c[2], -(double)(k % half) / (double)half);
            r->y[n * dim + k] = k < half ? cos(angle) : k < 2 * half ? sin(angle) : 0;
        }
}

KD_TEST_OP(timestep, cases, .build = build, .ref = ref)
