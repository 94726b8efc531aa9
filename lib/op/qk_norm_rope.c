// Cosine-similarity attention's queries and keys: each scaled to length sqrt(scale of its head), then the first half of
// its features rotated by the token's position (axial RoPE). op.h has the rule. Peers: k_diffusion/models/
// image_transformer_v2.py scale_for_cosine_sim, apply_rotary_emb_.
#include "op/op.h"

kd_val *kd_rope_table(kd_graph *g, kd_val *freqs, kd_val *pos)
{
    if (!freqs || !pos) return NULL;
    kd_val *in[] = { freqs, pos };
    if (!kd_want(g, freqs->shape.n == 2 && pos->shape.n == 2 && pos->shape.d[1] == 2, KD_OP_rope_table,
                 "freqs [heads,d/8] and pos [T,2]", 2, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_rope_table, 2, in);
    if (!n) return NULL;
    return kd_node_out(g, n, 0, KD_SHAPE(pos->shape.d[0], freqs->shape.d[0], 2 * freqs->shape.d[1], 2));
}

/// rope [T,heads,d/4,2] and scale [heads] fit qkv [N,H,W,3*heads*d].
static bool fits(const kd_val *qkv, const kd_val *scale, const kd_val *rope)
{
    if (qkv->shape.n != 4 || scale->shape.n != 1 || rope->shape.n != 4) return false;
    const int64_t *r = rope->shape.d, heads = scale->shape.d[0];
    return r[0] == qkv->shape.d[1] * qkv->shape.d[2] && r[1] == heads && r[3] == 2 &&
           qkv->shape.d[3] == 3 * heads * r[2] * 4;
}

/// Node: in qkv, scale, rope; out qkv', r [N,T,2,heads] with r = 1/sqrt(sum q^2 + eps); a.qk_norm_rope.
kd_val *kd_qk_norm_rope(kd_graph *g, kd_val *qkv, kd_val *scale, kd_val *rope)
{
    if (!qkv || !scale || !rope) return NULL;
    kd_val *in[] = { qkv, scale, rope };
    if (!kd_want(g, fits(qkv, scale, rope), KD_OP_qk_norm_rope,
                 "qkv [N,H,W,3*heads*d], scale [heads] and rope [H*W,heads,d/4,2]", 3, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_qk_norm_rope, 3, in);
    if (!n) return NULL;
    n->a.qk_norm_rope.eps = 1e-6;
    kd_val *y = kd_node_out(g, n, 0, qkv->shape);
    kd_node_out(g, n, 1, KD_SHAPE(qkv->shape.d[0], rope->shape.d[0], 2, scale->shape.d[0]));
    return y;
}

/// The result and r are enough, so the forward pass may overwrite its input. With q' = sqrt(s) R q r, R a rotation:
///   c = q'.dq'      dq = r R^T (sqrt(s) dq' - q' c / sqrt(s))      ds = sum over tokens, q and k of c / (2 s)
/// Node: in qkv', r, scale, rope, dqkv'; out dqkv, dscale.
static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->out[0], n->out[1], n->in[1], n->in[2], dy[0] };
    kd_node *d = kd_node_new(g, KD_OP_qk_norm_rope_grad, 5, in);
    if (!d) return;
    kd_val *to_qkv = kd_node_out(g, d, 0, n->in[0]->shape);
    kd_val *to_scale = kd_node_out(g, d, 1, n->in[1]->shape);
    if (kd_wants(n, 0)) dx[0] = kd_sum(g, dx[0], to_qkv);
    if (kd_wants(n, 1)) dx[1] = kd_sum(g, dx[1], to_scale);
}

const kd_op kd_op_rope_table = { .grad = NULL };
const kd_op kd_op_qk_norm_rope = { .grad = grad, .in_place = 1 << 0 };
const kd_op kd_op_qk_norm_rope_grad = { .in_place = 1 << 0 | 1 << 4 };
