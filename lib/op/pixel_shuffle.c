// Patches of p x q pixels joined into one, channel slowest, and back; each is the other's gradient. (patch.c has channels
// fastest.) Node: in x; out y; a.patch.
#include "op/unet.h"

static kd_val *node(kd_graph *g, kd_op_id op, kd_val *x, int64_t p, int64_t q, kd_shape shape)
{
    kd_node *n = kd_node_new(g, op, 1, &x);
    if (!n) return NULL;
    n->a.patch.p = p, n->a.patch.q = q;
    return kd_node_out(g, n, 0, shape);
}

kd_val *kd_pixel_unshuffle(kd_graph *g, kd_val *x, int64_t p, int64_t q)
{
    if (!x) return NULL;
    const int64_t *d = x->shape.d;
    if (!kd_want(g, x->shape.n == 4 && p > 0 && q > 0 && d[1] % p == 0 && d[2] % q == 0, KD_OP_pixel_unshuffle,
                 "x [N,H,W,C] with H and W multiples of the patch", 1, &x))
        return NULL;
    return node(g, KD_OP_pixel_unshuffle, x, p, q, KD_SHAPE(d[0], d[1] / p, d[2] / q, d[3] * p * q));
}

kd_val *kd_pixel_shuffle(kd_graph *g, kd_val *x, int64_t p, int64_t q)
{
    if (!x) return NULL;
    const int64_t *d = x->shape.d;
    if (!kd_want(g, x->shape.n == 4 && p > 0 && q > 0 && d[3] % (p * q) == 0, KD_OP_pixel_shuffle, "x [N,H,W,C*p*q]", 1, &x))
        return NULL;
    return node(g, KD_OP_pixel_shuffle, x, p, q, KD_SHAPE(d[0], d[1] * p, d[2] * q, d[3] / (p * q)));
}

static void unshuffle_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    dx[0] = kd_sum(g, dx[0], kd_pixel_shuffle(g, dy[0], n->a.patch.p, n->a.patch.q));
}

static void shuffle_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    dx[0] = kd_sum(g, dx[0], kd_pixel_unshuffle(g, dy[0], n->a.patch.p, n->a.patch.q));
}

const kd_op kd_op_pixel_unshuffle = { .grad = unshuffle_grad };
const kd_op kd_op_pixel_shuffle = { .grad = shuffle_grad };
