// A vision transformer's tokens (Dosovitskiy et al. 2020, arXiv:2010.11929, eq. 1). Node: in x, first, pos; out y.
#include "op/unet.h"

static bool fits(const kd_val *x, const kd_val *first, const kd_val *pos)
{
    const int64_t c = kd_last(x);
    return x->shape.n == 4 && first->shape.n >= 1 && pos->shape.n >= 1 && kd_last(first) == c && kd_last(pos) == c &&
           kd_rows(first) == 1 && kd_rows(pos) == 1 + x->shape.d[1] * x->shape.d[2];
}

kd_val *kd_tokens(kd_graph *g, kd_val *x, kd_val *first, kd_val *pos)
{
    if (!x || !first || !pos) return NULL;
    kd_val *in[] = { x, first, pos };
    if (!kd_want(g, x->shape.n >= 1 && fits(x, first, pos), KD_OP_tokens, "x [N,H,W,C], first [C] and pos [1+HW,C]", 3, in)) return NULL;
    kd_node *n = kd_node_new(g, KD_OP_tokens, 3, in);
    return n ? kd_node_out(g, n, 0, KD_SHAPE(x->shape.d[0], 1, kd_rows(pos), kd_last(x))) : NULL;
}

const kd_op kd_op_tokens = { .grad = NULL };
