// Linear interpolation by a learned factor. Node: in a, b, f; out y.
#include "op/op.h"

kd_val *kd_lerp(kd_graph *g, kd_val *a, kd_val *b, kd_val *f)
{
    if (!a || !b || !f) return NULL;
    kd_val *in[] = { a, b, f };
    if (!kd_want(g, kd_shape_same(&a->shape, &b->shape) && kd_count(f) == 1, KD_OP_lerp,
                 "a and b of one shape, f [1]", 3, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_lerp, 3, in);
    return n ? kd_node_out(g, n, 0, a->shape) : NULL;
}

/// da = (1 - f) dy      db = f dy      df = sum of dy (b - a), in double
/// Node: in a, b, f, dy; out da, db, df.
static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->in[0], n->in[1], n->in[2], dy[0] };
    kd_node *d = kd_node_new(g, KD_OP_lerp_grad, 4, in);
    if (!d) return;
    for (int i = 0; i < 3; i++) {
        kd_val *part = kd_node_out(g, d, i, n->in[i]->shape);
        if (kd_wants(n, i)) dx[i] = kd_sum(g, dx[i], part);
    }
}

const kd_op kd_op_lerp = { .grad = grad, .in_place = 1 << 0 | 1 << 1 };
const kd_op kd_op_lerp_grad = { .in_place = 1 << 0 | 1 << 1 | 1 << 3 };
