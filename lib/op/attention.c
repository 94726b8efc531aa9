// Attention over qkv [N,H,W,3*heads*d]: global, neighborhood (Hassani et al. 2023, arXiv:2204.07143) and shifted window
// (Liu et al. 2021, arXiv:2103.14030), and from an image's pixels to a sequence beside it (cross-attention). Peers:
// image_transformer_v2.py's three self-attention blocks; layers.py SelfAttention2d, CrossAttention2d; guided-diffusion's unet.py.
// y = softmax(f q k^T + mask) v; kept for the gradient: the inputs, y, and the log of each row's sum of exponentials.
//   P = exp(f q k^T + mask - lse)   D = sum(y dy)   dv = (K P)^T dy   dS = P (K dy v^T - D)   dq = f dS k   dk = f dS^T q
// K is 1, or dropout's factor of each probability, drawn again and not kept.
// Nodes: attention in qkv, index, rng; attention_grad in qkv, index, rng, y, lse, dy, out dqkv. cross_attention in q, kv, padding,
// index, rng; cross_attention_grad in q, kv, padding, index, rng, y, lse, dy, out dq, dkv. index, rng, padding: NULL if none.
// All have a.attention.
#include "base/random.h"
#include "op/unet.h"

static bool dropout_fits(kd_attn a, const kd_val *index, const kd_val *rng, int64_t images)
{
    return a.dropout == 0 ||
           (a.dropout > 0 && a.dropout < 1 && a.kind == KD_ATTN_GLOBAL && kd_draws_fit(index, rng, images));
}

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

static kd_node *new_node(kd_graph *g, kd_op_id op, int n_in, kd_val *const *in, kd_attn a)
{
    kd_node *n = kd_node_new(g, op, n_in, in);
    if (!n)
        return NULL;
    n->a.attention = a;
    n->a.attention.factor = a.factor == 0 ? 1 : a.factor;
    n->a.attention.layer = kd_rng_node(n->name ? n->name : "");
    return n;
}

// A gradient's node: the attributes of the forward one.
static kd_node *like(kd_graph *g, kd_op_id op, int n_in, kd_val *const *in, const kd_node *n)
{
    kd_node *m = kd_node_new(g, op, n_in, in);
    if (m)
        m->a = n->a;
    return m;
}

// Self-attention -------------------------------------------------------------------------------------------------------

kd_val *kd_attention(kd_graph *g, kd_val *qkv, kd_val *index, kd_val *rng, kd_attn a)
{
    if (!qkv || !kd_want(g, fits(&qkv->shape, a) && dropout_fits(a, index, rng, qkv->shape.d[0]), KD_OP_attention,
                         "qkv [N,H,W,3*heads*d], a kernel or window that fits H, W, dropout with index [N], rng [2] and global", 1,
                         &qkv))
        return NULL;
    kd_val *in[] = { qkv, a.dropout > 0 ? index : NULL, a.dropout > 0 ? rng : NULL };
    const int64_t *const d = qkv->shape.d;
    kd_node *n = new_node(g, KD_OP_attention, 3, in, a);
    kd_val *y = kd_node_out(g, n, 0, KD_SHAPE(d[0], d[1], d[2], d[3] / 3));
    kd_node_out(g, n, 1, KD_SHAPE(d[0], a.heads, d[1] * d[2]));
    return y;
}

static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->in[0], n->in[1], n->in[2], n->out[0], n->out[1], dy[0] };
    kd_node *m = like(g, KD_OP_attention_grad, 6, in, n);
    dx[0] = kd_sum(g, dx[0], kd_node_out(g, m, 0, n->in[0]->shape));
}

// Cross-attention ------------------------------------------------------------------------------------------------------

kd_val *kd_cross_attention(kd_graph *g, kd_val *q, kd_val *kv, kd_val *padding, kd_val *index, kd_val *rng, kd_attn a)
{
    if (!q || !kv)
        return NULL;
    kd_val *in[] = { q, kv, padding, a.dropout > 0 ? index : NULL, a.dropout > 0 ? rng : NULL };
    const int64_t *const d = q->shape.d, *const k = kv->shape.d;
    const bool ok = q->shape.n == 4 && kv->shape.n == 3 && k[0] == d[0] && k[1] >= 1 && k[2] == 2 * d[3] && a.heads >= 1 &&
                    d[3] % a.heads == 0 && a.kind == KD_ATTN_GLOBAL && dropout_fits(a, index, rng, d[0]) &&
                    (!padding || (padding->shape.n == 2 && padding->shape.d[0] == d[0] && padding->shape.d[1] == k[1]));
    if (!kd_want(g, ok, KD_OP_cross_attention,
                 "q [N,H,W,heads*d], kv [N,L,2*heads*d], padding [N,L], dropout with index [N], rng [2]", 5, in))
        return NULL;
    kd_node *n = new_node(g, KD_OP_cross_attention, 5, in, a);
    kd_val *y = kd_node_out(g, n, 0, q->shape);
    kd_node_out(g, n, 1, KD_SHAPE(d[0], a.heads, d[1] * d[2]));
    return y;
}

static void cross_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->in[0], n->in[1], n->in[2], n->in[3], n->in[4], n->out[0], n->out[1], dy[0] };
    kd_node *m = like(g, KD_OP_cross_attention_grad, 8, in, n);
    for (int k = 0; m && k < 2; k++) {
        kd_val *to = kd_node_out(g, m, k, n->in[k]->shape);
        if (kd_wants(n, k))
            dx[k] = kd_sum(g, dx[k], to);
    }
}

// Products of the rule itself (not of what a kernel does beside it): 2 products of d for each pair of query and key.
static double pair_flops(const kd_node *n)
{
    const int64_t *const s = n->in[0]->shape.d, size = n->a.attention.size;
    const bool global = n->a.attention.kind == KD_ATTN_GLOBAL;
    const double tokens = (double)(s[1] * s[2]), keys = global ? tokens : (double)(size * size);
    return 2.0 * (double)s[0] * tokens * keys * (double)(s[3] / 3);
}

static double cross_pair_flops(const kd_node *n)
{
    return 2.0 * (double)kd_count(n->in[0]) * (double)n->in[1]->shape.d[1];
}

static double flops(const kd_node *n) { return 2 * pair_flops(n); }
static double grad_flops(const kd_node *n) { return 5 * pair_flops(n); }
static double cross_flops(const kd_node *n) { return 2 * cross_pair_flops(n); }
static double cross_grad_flops(const kd_node *n) { return 5 * cross_pair_flops(n); }

const kd_op kd_op_attention = { .grad = grad, .flops = flops };
const kd_op kd_op_attention_grad = { .flops = grad_flops };
const kd_op kd_op_cross_attention = { .grad = cross_grad, .flops = cross_flops };
const kd_op kd_op_cross_attention_grad = { .flops = cross_grad_flops };
