// Down and up by two. Each is y = A x B^T with one sparse matrix an axis, so the gradient is the same op with both
// transposed. Node: in x; out y; a.resample.
#include "op/unet.h"

static kd_val *node(kd_graph *g, kd_val *x, kd_resampling how, bool transposed, kd_shape shape)
{
    kd_node *n = kd_node_new(g, KD_OP_resample, 1, &x);
    if (!n) return NULL;
    n->a.resample.how = how, n->a.resample.transposed = transposed;
    return kd_node_out(g, n, 0, shape);
}

kd_val *kd_resample(kd_graph *g, kd_val *x, kd_resampling how)
{
    if (!x || !kd_want(g, x->shape.n == 4, KD_OP_resample, "x [N,H,W,C]", 1, &x)) return NULL;
    const int64_t *d = x->shape.d, least = how == KD_NEAREST_UP ? 1 : 2;
    if (!kd_want(g, d[1] >= least && d[2] >= least, KD_OP_resample, "x [N,H,W,C] of at least 2x2", 1, &x)) return NULL;
    const bool up = how == KD_FIR_UP || how == KD_NEAREST_UP;
    return node(g, x, how, false, up ? KD_SHAPE(d[0], 2 * d[1], 2 * d[2], d[3]) : KD_SHAPE(d[0], d[1] / 2, d[2] / 2, d[3]));
}

static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    dx[0] = kd_sum(g, dx[0], node(g, dy[0], n->a.resample.how, !n->a.resample.transposed, n->in[0]->shape));
}

const kd_op kd_op_resample = { .grad = grad };
