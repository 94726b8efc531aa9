// Joining and cutting along the last axis. Nodes: concat in a, b; slice in x; slice_grad in dy; both have a.slice.
#include "op/unet.h"

static kd_shape with_last(kd_shape s, int64_t last)
{
    s.d[s.n - 1] = last;
    return s;
}

static kd_val *node(kd_graph *g, kd_op_id op, kd_val *x, int64_t first, int64_t last)
{
    kd_node *n = kd_node_new(g, op, 1, &x);
    if (!n) return NULL;
    n->a.slice.first = first;
    return kd_node_out(g, n, 0, with_last(x->shape, last));
}

kd_val *kd_concat(kd_graph *g, kd_val *a, kd_val *b)
{
    if (!a || !b) return NULL;
    kd_val *in[] = { a, b };
    const kd_shape like = a->shape.n ? with_last(b->shape, kd_last(a)) : b->shape;
    if (!kd_want(g, a->shape.n >= 1 && b->shape.n >= 1 && kd_shape_same(&like, &a->shape) && a->dtype == b->dtype, KD_OP_concat,
                 "a [..,A] and b [..,B] alike but for the last axis", 2, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_concat, 2, in);
    return n ? kd_node_out(g, n, 0, with_last(a->shape, kd_last(a) + kd_last(b))) : NULL;
}

kd_val *kd_slice(kd_graph *g, kd_val *x, int64_t first, int64_t count)
{
    if (!x || !kd_want(g, x->shape.n >= 1 && first >= 0 && count >= 1 && first + count <= kd_last(x), KD_OP_slice,
                       "x [..,C] with the part within C", 1, &x))
        return NULL;
    return node(g, KD_OP_slice, x, first, count);
}

static void concat_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    const int64_t a = kd_last(n->in[0]), b = kd_last(n->in[1]);
    if (kd_wants(n, 0)) dx[0] = kd_sum(g, dx[0], kd_slice(g, dy[0], 0, a));
    if (kd_wants(n, 1)) dx[1] = kd_sum(g, dx[1], kd_slice(g, dy[0], a, b));
}

static void slice_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    dx[0] = kd_sum(g, dx[0], node(g, KD_OP_slice_grad, dy[0], n->a.slice.first, kd_last(n->in[0])));
}

const kd_op kd_op_concat = { .grad = concat_grad };
const kd_op kd_op_slice = { .grad = slice_grad };
const kd_op kd_op_slice_grad = { .grad = NULL };
