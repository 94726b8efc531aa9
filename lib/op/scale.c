// Products with a constant, and limits. Nodes: in x; out y.
#include "op/unet.h"

kd_val *kd_scale(kd_graph *g, kd_val *x, double f)
{
    if (!x || f == 1) return x;
    kd_node *n = kd_node_new(g, KD_OP_scale, 1, &x);
    if (n) n->a.scale.factor = f;
    return kd_node_out(g, n, 0, x->shape);
}

kd_val *kd_clamp(kd_graph *g, kd_val *x, double low, double high)
{
    if (!x) return NULL;
    kd_node *n = kd_node_new(g, KD_OP_clamp, 1, &x);
    if (n) n->a.clamp.low = low, n->a.clamp.high = high;
    return kd_node_out(g, n, 0, x->shape);
}

static void scale_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    dx[0] = kd_sum(g, dx[0], kd_scale(g, dy[0], n->a.scale.factor));
}

/// Straight through: transformer v1 cuts the parameter itself, and takes the gradient there.
static void clamp_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    (void)n;
    dx[0] = kd_sum(g, dx[0], dy[0]);
}

const kd_op kd_op_scale = { .grad = scale_grad, .in_place = 1 << 0 };
const kd_op kd_op_clamp = { .grad = clamp_grad, .in_place = 1 << 0 };
