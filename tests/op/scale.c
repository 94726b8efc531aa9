#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][2] = { { 1, 1 }, { 3, 37 }, { 2, 5000 } };                // N, elements an image

static kd_val *build(t_build *b)
{
    return kd_scale(b->g, t_input(b, T_IMAGES, KD_SHAPE(b->c[0], b->c[1]), NORMAL(0, 1)), -.75);
}

static void ref(const t_ref *r)
{
    for (int64_t i = 0; i < r->c[0] * r->c[1]; i++) r->y[i] = -.75 * r->in[0][i];
}

KD_TEST_OP(scale, cases, .build = build, .ref = ref)

/// The gradient passes where the value is cut too.
static void clamp(t_run *t)
{
    static const float x[5] = { -3, 0, 1.25f, 2, 1e9f }, dy[5] = { 1, 2, 3, 4, 5 };
    static const double want[5] = { -3, 0, 1.25, 1.25, 1.25 }, slope[5] = { 1, 2, 3, 4, 5 };
    kd_graph *g = kd_graph_new();
    kd_val *in[2] = { kd_input(g, "x", KD_F32, KD_SHAPE(5)), kd_input(g, "dy", KD_F32, KD_SHAPE(5)) }, *out[2];
    const void *data[2] = { x, dy };
    float y[5], dx[5], *to[2] = { y, dx };
    out[0] = kd_clamp(g, in[0], -INFINITY, 1.25);
    kd_grad(g, out[0], in[1], in, 1, out + 1);
    if (t_run_graph(t, g, in, data, 2, out, to, 2)) return;
    t_close(t, "clamp", y, want, 5, 0);
    t_close(t, "gradient", dx, slope, 5, 0);
}

KD_TEST_FN(clamp, clamp)
