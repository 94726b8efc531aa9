// Dropout by element, or by channel. The mask is a function of (seed, layer, image, step, element), so nothing is stored and the
// gradient is the same op. Srivastava et al. 2014. Node: in x, index, rng; out y; a.dropout.
#include "base/random.h"
#include "op/unet.h"

bool kd_draws_fit(const kd_val *index, const kd_val *rng, int64_t images)
{
    return index && index->dtype == KD_I64 && index->shape.n == 1 && index->shape.d[0] == images &&
           rng && rng->dtype == KD_U64 && rng->shape.n == 1 && rng->shape.d[0] == 2;
}

static kd_val *node(kd_graph *g, kd_op_id op, kd_val *x, kd_val *index, kd_val *rng, double p, const kd_node *like)
{
    kd_val *in[] = { x, index, rng };
    if (!kd_want(g, x->shape.n >= 1 && kd_draws_fit(index, rng, x->shape.d[0]) && p >= 0 && p < 1, op,
                 "x [N,..], index [N] of I64, rng [2] of U64, and a rate of at least 0 and below 1", 3, in))
        return NULL;
    kd_node *n = kd_node_new(g, op, 3, in);
    if (!n) return NULL;
    n->a.dropout.rate = p;
    n->a.dropout.layer = like ? like->a.dropout.layer : kd_rng_node(n->name ? n->name : "");
    return kd_node_out(g, n, 0, x->shape);
}

kd_val *kd_dropout(kd_graph *g, kd_val *x, kd_val *index, kd_val *rng, double p)
{
    if (!x || p == 0) return x;
    return index && rng ? node(g, KD_OP_dropout, x, index, rng, p, NULL) : NULL;
}

kd_val *kd_dropout_channels(kd_graph *g, kd_val *x, kd_val *index, kd_val *rng, double p)
{
    if (!x || p == 0) return x;
    return index && rng ? node(g, KD_OP_dropout_channels, x, index, rng, p, NULL) : NULL;
}

static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    if (kd_wants(n, 0)) dx[0] = kd_sum(g, dx[0], node(g, n->op, dy[0], n->in[1], n->in[2], n->a.dropout.rate, n));
}

const kd_op kd_op_dropout = { .grad = grad, .in_place = 1 << 0 };
const kd_op kd_op_dropout_channels = { .grad = grad, .in_place = 1 << 0 };
