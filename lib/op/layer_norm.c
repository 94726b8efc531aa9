// Layer norm over the last axis (Ba et al. 2016, arXiv:1607.06450). With xhat = (x - mean) rstd and g = dy w:
//   dx = rstd (g - mean(g) - xhat mean(g xhat))     dw = sum of dy xhat, db = sum of dy, over rows
// Nodes: layer_norm in x, w, b, out y, stats [rows,2] = mean, rstd, a.layer_norm; layer_norm_grad in x, w, stats, dy, out dx,
// dw, db.
#include "op/unet.h"

kd_val *kd_layer_norm(kd_graph *g, kd_val *x, kd_val *w, kd_val *b, double eps)
{
    if (!x || !w || !b)
        return NULL;
    kd_val *in[] = { x, w, b };
    if (!kd_want(g, x->shape.n >= 1 && w->shape.n == 1 && b->shape.n == 1 && kd_last(w) == kd_last(x) && kd_last(b) == kd_last(x),
                 KD_OP_layer_norm, "x [..,C], w and b [C]", 3, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_layer_norm, 3, in);
    if (!n)
        return NULL;
    n->a.layer_norm.eps = eps;
    kd_val *y = kd_node_out(g, n, 0, x->shape);
    kd_node_out(g, n, 1, KD_SHAPE(kd_rows(x), 2));
    return y;
}

static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->in[0], n->in[1], n->out[1], dy[0] };
    kd_node *d = kd_node_new(g, KD_OP_layer_norm_grad, 4, in);
    for (int k = 0; d && k < 3; k++) {
        kd_val *to = kd_node_out(g, d, k, n->in[k]->shape);
        if (kd_wants(n, k))
            dx[k] = kd_sum(g, dx[k], to);
    }
}

const kd_op kd_op_layer_norm = { .grad = grad, .in_place = 1 << 0, .cheap = true };
const kd_op kd_op_layer_norm_grad = { .in_place = 1 << 0 | 1 << 3 };
