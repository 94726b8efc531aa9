// Transformer v1's queries and keys: RMS norm with one scale a head, then all features turned in neighbouring pairs by the
// token's position, at frequencies that are learnt. Peers: image_transformer_v1.py QKNorm, axial_rope.py.
//   u = k r x, k = exp(scale / 2 - ln(d) / 4), r = 1/sqrt(mean(x^2) + eps); x' = R u: (a cos - b sin, b cos + a sin)
#include "op/unet.h"

kd_val *kd_rope_table_v1(kd_graph *g, kd_val *freqs_h, kd_val *freqs_w, kd_val *pos)
{
    if (!freqs_h || !freqs_w || !pos) return NULL;
    kd_val *in[] = { freqs_h, freqs_w, pos };
    if (!kd_want(g, freqs_h->shape.n == 2 && kd_shape_same(&freqs_h->shape, &freqs_w->shape) && pos->shape.n == 2 && pos->shape.d[1] == 2,
                 KD_OP_rope_table_v1, "freqs_h and freqs_w [heads,d/4] and pos [T,2]", 3, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_rope_table_v1, 3, in);
    return n ? kd_node_out(g, n, 0, KD_SHAPE(pos->shape.d[0], freqs_h->shape.d[0], 2 * freqs_h->shape.d[1], 2)) : NULL;
}

/// An angle is position times exp(frequency): its derivative for the frequency is the angle itself.
/// Node: in freqs_h, freqs_w, pos, drope; out dfreqs_h, dfreqs_w.
static void table_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->in[0], n->in[1], n->in[2], dy[0] };
    kd_node *d = kd_node_new(g, KD_OP_rope_table_v1_grad, 4, in);
    for (int k = 0; d && k < 2; k++) {
        kd_val *to = kd_node_out(g, d, k, n->in[k]->shape);
        if (kd_wants(n, k)) dx[k] = kd_sum(g, dx[k], to);
    }
}

/// rope [T,heads,d/2,2] and scale [heads] fit qkv [N,H,W,3*heads*d].
static bool fits(const kd_val *qkv, const kd_val *scale, const kd_val *rope)
{
    if (qkv->shape.n != 4 || scale->shape.n != 1 || rope->shape.n != 4) return false;
    const int64_t *r = rope->shape.d, heads = scale->shape.d[0];
    return r[0] == qkv->shape.d[1] * qkv->shape.d[2] && r[1] == heads && r[3] == 2 && qkv->shape.d[3] == 3 * heads * r[2] * 2;
}

/// Node: in qkv, scale, rope; out qkv', r [N,T,2,heads]; a.qk_norm_rope.
kd_val *kd_qk_norm_rope_v1(kd_graph *g, kd_val *qkv, kd_val *scale, kd_val *rope)
{
    if (!qkv || !scale || !rope) return NULL;
    kd_val *in[] = { qkv, scale, rope };
    if (!kd_want(g, fits(qkv, scale, rope), KD_OP_qk_norm_rope_v1,
                 "qkv [N,H,W,3*heads*d], scale [heads] and rope [H*W,heads,d/2,2]", 3, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_qk_norm_rope_v1, 3, in);
    if (!n) return NULL;
    n->a.qk_norm_rope.eps = 1e-6;
    kd_val *y = kd_node_out(g, n, 0, qkv->shape);
    kd_node_out(g, n, 1, KD_SHAPE(qkv->shape.d[0], rope->shape.d[0], 2, scale->shape.d[0]));
    return y;
}

/// The result and r are enough, so the forward pass may overwrite its input. With c = x'.dx' (turning keeps products):
///   dx = R^T (k r dx' - r c / (k d) x')     dscale = sum of c / 2     dcos = a da' + b db', dsin = a db' - b da', (a, b) = R^T x'
/// Node: in qkv', r, scale, rope, dqkv'; out dqkv, dscale, drope.
static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->out[0], n->out[1], n->in[1], n->in[2], dy[0] };
    kd_node *d = kd_node_new(g, KD_OP_qk_norm_rope_v1_grad, 5, in);
    for (int k = 0; d && k < 3; k++) {
        kd_val *to = kd_node_out(g, d, k, n->in[k]->shape);
        if (kd_wants(n, k)) dx[k] = kd_sum(g, dx[k], to);
    }
}

const kd_op kd_op_rope_table_v1 = { .grad = table_grad };
const kd_op kd_op_rope_table_v1_grad = { .grad = NULL };
const kd_op kd_op_qk_norm_rope_v1 = { .grad = grad, .in_place = 1 << 0 };
const kd_op kd_op_qk_norm_rope_v1_grad = { .grad = NULL };
