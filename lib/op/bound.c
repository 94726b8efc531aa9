// The variational bound's term that teaches a learned variance. Node: in range, eps, noise, x0, k; out l [N].
#include "op/unet.h"

kd_val *kd_bound(kd_graph *g, kd_val *range, kd_val *eps, kd_val *noise, kd_val *x0, kd_val *k)
{
    if (!range || !eps || !noise || !x0 || !k) return NULL;
    kd_val *in[] = { range, eps, noise, x0, k };
    const kd_shape *s = &range->shape;
    const bool same = kd_shape_same(s, &eps->shape) && kd_shape_same(s, &noise->shape) && kd_shape_same(s, &x0->shape);
    const bool ok = s->n >= 2 && same && k->shape.n == 2 && k->shape.d[0] == s->d[0] && k->shape.d[1] == KD_BOUND_FACTORS;
    if (!kd_want(g, ok, KD_OP_bound, "range, eps, noise and x0 [N,..], k [N,6]", 5, in)) return NULL;
    kd_node *n = kd_node_new(g, KD_OP_bound, 5, in);
    return n ? kd_node_out(g, n, 0, KD_SHAPE(s->d[0])) : NULL;
}

/// dl/dL of an element, times half and w / (ln 2 count):
///   (1 - exp(true - L) - m^2 (eps - noise)^2 exp(-L)) / 2
/// at the first step by the chain rule through the distribution function. Node: in range, eps, noise, x0, k, dl; out drange.
static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    if (!kd_wants(n, 0)) return;
    kd_val *in[] = { n->in[0], n->in[1], n->in[2], n->in[3], n->in[4], dy[0] };
    kd_node *d = kd_node_new(g, KD_OP_bound_grad, 6, in);
    if (d) dx[0] = kd_sum(g, dx[0], kd_node_out(g, d, 0, n->in[0]->shape));
}

const kd_op kd_op_bound = { .grad = grad };
const kd_op kd_op_bound_grad = { .in_place = 1 << 0 };
