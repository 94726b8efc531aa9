// Products with a constant, and a limit from above. Node: in x; out y; f = the constant.
#include "op/unet.h"

static kd_val *node(kd_graph *g, kd_op_id op, kd_val *x, double f)
{
    if (!x) return NULL;
    kd_node *n = kd_node_new(g, op, 1, &x);
    if (!n) return NULL;
    n->f[0] = f;
    return kd_node_out(g, n, 0, KD_F32, x->shape);
}

kd_val *kd_scale(kd_graph *g, kd_val *x, double f) { return f == 1 ? x : node(g, KD_OP_scale, x, f); }
kd_val *kd_clamp_max(kd_graph *g, kd_val *x, double most) { return node(g, KD_OP_clamp_max, x, most); }

static void scale_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    dx[0] = kd_sum(g, dx[0], kd_scale(g, dy[0], n->f[0]));
}

/// Straight through: transformer v1 cuts the parameter itself, and takes the gradient there.
static void clamp_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    (void)n;
    dx[0] = kd_sum(g, dx[0], dy[0]);
}

const kd_op kd_op_scale = { .grad = scale_grad, .in_place = 1 << 0 };
const kd_op kd_op_clamp_max = { .grad = clamp_grad, .in_place = 1 << 0 };
