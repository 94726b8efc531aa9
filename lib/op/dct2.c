// Orthonormal 2-D DCT-II over H and W of each channel, or its inverse, which is its transpose: the weighting of losses
// by scale. Node: in x; out y; a.dct2.
#include "op/op.h"

kd_val *kd_dct2(kd_graph *g, kd_val *x, bool inverse)
{
    if (!x) return NULL;
    if (!kd_want(g, x->shape.n == 4, KD_OP_dct2, "x [N,H,W,C]", 1, &x)) return NULL;
    kd_node *n = kd_node_new(g, KD_OP_dct2, 1, &x);
    if (!n) return NULL;
    n->a.dct2.inverse = inverse;
    return kd_node_out(g, n, 0, x->shape);
}

static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    if (kd_wants(n, 0)) dx[0] = kd_sum(g, dx[0], kd_dct2(g, dy[0], !n->a.dct2.inverse));
}

static double flops(const kd_node *n)
{
    const int64_t *d = n->in[0]->shape.d;
    return 2.0 * (double)kd_count(n->in[0]) * (double)(d[1] + d[2]);
}

const kd_op kd_op_dct2 = { .grad = grad, .flops = flops };
