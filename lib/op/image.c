// One vector an image, [N,C], beside the image's positions [N,..,C]: summed from them, spread over them, added to them.
// Nodes: image_sum in x, a.image; image_spread in b, a.image; add_image in x, b.
#include "op/unet.h"

static kd_val *node(kd_graph *g, kd_op_id op, kd_val *x, double f, kd_shape shape)
{
    kd_node *n = kd_node_new(g, op, 1, &x);
    if (!n) return NULL;
    n->a.image.factor = f;
    return kd_node_out(g, n, 0, shape);
}

static kd_val *sum(kd_graph *g, kd_val *x, double f)
{
    return node(g, KD_OP_image_sum, x, f, KD_SHAPE(x->shape.d[0], kd_last(x)));
}

kd_val *kd_image_mean(kd_graph *g, kd_val *x)
{
    if (!x || !kd_want(g, x->shape.n >= 2 && kd_count(x) > 0, KD_OP_image_sum, "x [N,..,C]", 1, &x)) return NULL;
    return sum(g, x, (double)x->shape.d[0] / (double)kd_rows(x));
}

kd_val *kd_add_image(kd_graph *g, kd_val *x, kd_val *b)
{
    if (!x || !b) return NULL;
    kd_val *in[] = { x, b };
    const kd_shape *s = &x->shape, *t = &b->shape;
    if (!kd_want(g, s->n >= 2 && t->n == 2 && t->d[0] == s->d[0] && kd_last(b) == kd_last(x), KD_OP_add_image,
                 "x [N,..,C] and b [N,C]", 2, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_add_image, 2, in);
    return n ? kd_node_out(g, n, 0, x->shape) : NULL;
}

static void sum_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *spread = node(g, KD_OP_image_spread, dy[0], n->a.image.factor, n->in[0]->shape);
    dx[0] = kd_sum(g, dx[0], kd_cast(g, spread, n->in[0]->dtype));
}

static void add_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    if (kd_wants(n, 0)) dx[0] = kd_sum(g, dx[0], dy[0]);
    if (kd_wants(n, 1)) dx[1] = kd_sum(g, dx[1], sum(g, dy[0], 1));
}

const kd_op kd_op_image_sum = { .grad = sum_grad };
const kd_op kd_op_image_spread = { .grad = NULL };
const kd_op kd_op_add_image = { .grad = add_grad, .in_place = 1 << 0 };
