// Pointwise nonlinearities. Node: in x; out y; a.activate. Gradient's node: in x, dy; out dx; a.activate.
#include "op/unet.h"

kd_val *kd_activate(kd_graph *g, kd_val *x, kd_act kind)
{
    if (!x || kind == KD_ACT_NONE) return x;
    kd_node *n = kd_node_new(g, KD_OP_activate, 1, &x);
    if (!n) return NULL;
    n->a.activate.kind = kind;
    return kd_node_out(g, n, 0, x->shape);
}

static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->in[0], dy[0] };
    kd_node *d = kd_node_new(g, KD_OP_activate_grad, 2, in);
    if (!d) return;
    d->a = n->a;
    dx[0] = kd_sum(g, dx[0], kd_node_out(g, d, 0, n->in[0]->shape));
}

const kd_op kd_op_activate = { .grad = grad, .in_place = 1 << 0, .cheap = true };
const kd_op kd_op_activate_grad = { .in_place = 1 << 0 | 1 << 1 };
