// RMS norm. Zhang & Sennrich 2019, arXiv:1910.07467. Node: in x, s; out y, rstd [rows]; a.rms_norm.
// rstd is all that the gradient needs beside the inputs.
#include "op/op.h"

kd_val *kd_rms_norm(kd_graph *g, kd_val *x, kd_val *s, float offset, float eps)
{
    if (!x || !s) return NULL;
    kd_val *in[] = { x, s };
    const bool shared = s->shape.n == 1, own = s->shape.n == 2 && s->shape.d[0] == x->shape.d[0];
    if (!kd_want(g, x->shape.n >= 2 && (shared || own) && kd_last(s) == kd_last(x), KD_OP_rms_norm,
                 "x [N,..,C] and s [C] or [N,C]", 2, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_rms_norm, 2, in);
    if (!n) return NULL;
    n->a.rms_norm.offset = offset, n->a.rms_norm.eps = eps;
    kd_val *y = kd_node_out(g, n, 0, x->shape);
    kd_node_out(g, n, 1, KD_SHAPE(kd_rows(x)));
    return y;
}

/// With c = sum over the row of x dy (s + offset):
///   dx = rstd (s + offset) dy - x rstd^3 c / C         ds = sum over rows of dy x rstd
/// Node: in x, s, rstd, dy, acc (NULL if none); out dx + acc, ds; a.rms_norm.
static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->in[0], n->in[1], n->out[1], dy[0], kd_wants(n, 0) ? dx[0] : NULL };
    kd_node *d = kd_node_new(g, KD_OP_rms_norm_grad, 5, in);
    if (!d) return;
    d->a = n->a;
    kd_val *to_x = kd_node_out(g, d, 0, n->in[0]->shape), *to_s = kd_node_out(g, d, 1, n->in[1]->shape);
    if (kd_wants(n, 0)) dx[0] = to_x;
    if (kd_wants(n, 1)) dx[1] = kd_sum(g, dx[1], to_s);
}

const kd_op kd_op_rms_norm = { .grad = grad, .in_place = 1 << 0, .cheap = true };
const kd_op kd_op_rms_norm_grad = { .in_place = 1 << 0 | 1 << 3 | 1 << 4 };
