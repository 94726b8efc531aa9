// Values of one type as values of another. Node of both: in x, out y.
#include "op/op.h"

static bool is_float(kd_dtype t) { return t == KD_F32 || t == KD_BF16 || t == KD_F16; }

kd_val *kd_cast(kd_graph *g, kd_val *x, kd_dtype dtype)
{
    if (!x || x->dtype == dtype)
        return x;
    if (!kd_want(g, is_float(x->dtype) && is_float(dtype), KD_OP_cast, "F32, BF16 or F16", 1, &x))
        return NULL;
    return kd_node_out_as(g, kd_node_new(g, KD_OP_cast, 1, &x), 0, dtype, x->shape);
}

static void cast_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    dx[0] = kd_sum(g, dx[0], kd_cast(g, dy[0], n->in[0]->dtype));
}

kd_val *kd_pixels(kd_graph *g, kd_val *x)
{
    if (!x || !kd_want(g, x->dtype == KD_U8, KD_OP_pixels, "x of U8", 1, &x))
        return NULL;
    return kd_node_out_as(g, kd_node_new(g, KD_OP_pixels, 1, &x), 0, KD_F32, x->shape);
}

const kd_op kd_op_cast = { .grad = cast_grad };
const kd_op kd_op_pixels = { .grad = NULL };
