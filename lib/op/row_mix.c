// A sum of images with a factor for each image: preconditioning. Node: in a, sa, b, sb (b and sb NULL if absent); out y.
#include "op/op.h"

static bool factor_fits(const kd_val *x, const kd_val *s)
{
    return x->shape.n >= 1 && s->shape.n == 1 && s->shape.d[0] == x->shape.d[0];
}

kd_val *kd_row_mix(kd_graph *g, kd_val *a, kd_val *sa, kd_val *b, kd_val *sb)
{
    if (!a || !sa) return NULL;
    kd_val *in[] = { a, sa, b, sb };
    const bool alone = !b && !sb;
    if (!kd_want(g, factor_fits(a, sa) && (alone || (b && sb && factor_fits(b, sb) && kd_shape_same(&a->shape, &b->shape))),
                 KD_OP_row_mix, "a [N,..], sa [N], and b like a with sb [N] or neither", alone ? 2 : 4, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_row_mix, 4, in);
    return n ? kd_node_out(g, n, 0, a->shape) : NULL;
}

static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    for (int i = 0; i < 4; i += 2)
        if (n->in[i] && kd_wants(n, i)) dx[i] = kd_sum(g, dx[i], kd_row_mix(g, dy[0], n->in[i + 1], NULL, NULL));
}

const kd_op kd_op_row_mix = { .grad = grad, .in_place = 1 << 0 | 1 << 2 };
