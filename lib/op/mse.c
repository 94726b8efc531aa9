// Mean squared error of each image, weighted by image and by position. Node: in a, b, w, f (NULL if none); out l [N].
#include "op/op.h"

kd_val *kd_mse(kd_graph *g, kd_val *a, kd_val *b, kd_val *w, kd_val *f)
{
    if (!a || !b || !w) return NULL;
    kd_val *in[] = { a, b, w, f };
    const kd_shape *s = &a->shape;
    bool ok = s->n >= 2 && kd_shape_same(s, &b->shape) && w->shape.n == 1 && w->shape.d[0] == s->d[0];
    if (f) ok = ok && s->n == 4 && f->shape.n == 2 && f->shape.d[0] == s->d[1] && f->shape.d[1] == s->d[2];
    if (!kd_want(g, ok, KD_OP_mse, "a and b [N,..], w [N], and f [H,W] for a [N,H,W,C]", f ? 4 : 3, in)) return NULL;
    kd_node *n = kd_node_new(g, KD_OP_mse, 4, in);
    return n ? kd_node_out(g, n, 0, KD_SHAPE(s->d[0])) : NULL;
}

/// da = dl[n] w[n] 2/count f (a - b). The target b is data.
/// Node: in a, b, w, f, dl; out da.
static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    if (!kd_wants(n, 0)) return;
    kd_val *in[] = { n->in[0], n->in[1], n->in[2], n->in[3], dy[0] };
    kd_node *d = kd_node_new(g, KD_OP_mse_grad, 5, in);
    if (!d) return;
    dx[0] = kd_sum(g, dx[0], kd_node_out(g, d, 0, n->in[0]->shape));
}

const kd_op kd_op_mse = { .grad = grad };
const kd_op kd_op_mse_grad = { .in_place = 1 << 0 | 1 << 1 };
