// Attention over qkv [N,H,W,3*heads*d] with factor 1: global, neighborhood (Hassani et al. 2023, arXiv:2204.07143) and
// shifted window (Liu et al. 2021, arXiv:2103.14030). Peer: image_transformer_v2.py's three self-attention blocks.
// y = softmax(q k^T + mask) v; kept for the gradient: qkv, y, and the log of each row's sum of exponentials.
//   D = sum(y dy)   P = exp(q k^T + mask - lse)   dv = P^T dy   dS = P (dy v^T - D)   dq = dS k   dk = dS^T q
#include "op/op.h"

enum { KIND, HEADS, SIZE, SHIFT };                                  // attributes n->i[]

static bool fits(const kd_shape *s, kd_attn a)
{
    if (s->n != 4 || a.heads < 1 || s->d[3] % (3 * a.heads))
        return false;
    switch (a.kind) {
    case KD_ATTN_NEIGHBORHOOD: return a.size % 2 == 1 && a.size <= s->d[1] && a.size <= s->d[2];
    case KD_ATTN_WINDOW: return a.size >= 1 && s->d[1] % a.size == 0 && s->d[2] % a.size == 0 && a.shift >= 0 && a.shift < a.size;
    default: return true;
    }
}

static kd_node *new_node(kd_graph *g, kd_op_id op, int n_in, kd_val *const *in, const int64_t *attr)
{
    kd_node *n = kd_node_new(g, op, n_in, in);
    for (int k = 0; n && k <= SHIFT; k++)
        n->i[k] = attr[k];
    return n;
}

kd_val *kd_attention(kd_graph *g, kd_val *qkv, kd_attn a)
{
    if (!qkv || !kd_want(g, fits(&qkv->shape, a), KD_OP_attention, "qkv [N,H,W,3*heads*d] and a kernel or window that fits H, W", 1, &qkv))
        return NULL;
    const int64_t *const d = qkv->shape.d, attr[] = { a.kind, a.heads, a.size, a.shift };
    kd_node *n = new_node(g, KD_OP_attention, 1, &qkv, attr);
    kd_val *y = kd_node_out(g, n, 0, KD_F32, KD_SHAPE(d[0], d[1], d[2], d[3] / 3));
    kd_node_out(g, n, 1, KD_F32, KD_SHAPE(d[0], a.heads, d[1] * d[2]));
    return y;
}

static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->in[0], n->out[0], n->out[1], dy[0] };
    kd_node *m = new_node(g, KD_OP_attention_grad, 4, in, n->i);
    dx[0] = kd_sum(g, dx[0], kd_node_out(g, m, 0, KD_F32, n->in[0]->shape));
}

// Products of the rule itself (not of what a kernel does beside it): 2 products of d for each pair of query and key.
static double pair_flops(const kd_node *n)
{
    const int64_t *const s = n->in[0]->shape.d, size = n->i[SIZE];
    const double tokens = (double)(s[1] * s[2]), keys = n->i[KIND] == KD_ATTN_GLOBAL ? tokens : (double)(size * size);
    return 2.0 * (double)s[0] * tokens * keys * (double)(s[3] / 3);
}

static double flops(const kd_node *n)
{
    return 2 * pair_flops(n);
}

static double grad_flops(const kd_node *n)
{
    return 5 * pair_flops(n);
}

const kd_op kd_op_attention = { .grad = grad, .flops = flops };
const kd_op kd_op_attention_grad = { .flops = grad_flops };
