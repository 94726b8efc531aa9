// Sum of two values. Node: in a, b; out y.
#include "op/op.h"

kd_val *kd_add(kd_graph *g, kd_val *a, kd_val *b)
{
    if (!a || !b) return NULL;
    kd_val *in[] = { a, b };
    const bool ok = kd_shape_same(&a->shape, &b->shape) && a->dtype == b->dtype;
    if (!kd_want(g, ok, KD_OP_add, "a and b of one shape and type", 2, in)) return NULL;
    kd_node *n = kd_node_new(g, KD_OP_add, 2, in);
    return n ? kd_node_out(g, n, 0, a->shape) : NULL;
}

static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    for (int i = 0; i < 2; i++)
        if (kd_wants(n, i)) dx[i] = kd_sum(g, dx[i], dy[0]);
}

const kd_op kd_op_add = { .grad = grad, .in_place = 1 << 0 | 1 << 1 };
