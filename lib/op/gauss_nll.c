// Half the negative log-likelihood (without its constant) of a target under a normal distribution whose variance is predicted
// too: k-diffusion's DenoiserWithVariance. Node: in a, b, logvar; out l [N].
#include "op/unet.h"

kd_val *kd_gauss_nll(kd_graph *g, kd_val *a, kd_val *b, kd_val *logvar)
{
    if (!a || !b || !logvar) return NULL;
    kd_val *in[] = { a, b, logvar };
    const kd_shape *s = &a->shape;
    if (!kd_want(g, s->n >= 2 && kd_shape_same(s, &b->shape) && kd_count(logvar) == s->d[0], KD_OP_gauss_nll,
                 "a and b [N,..] and logvar [N]", 3, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_gauss_nll, 3, in);
    return n ? kd_node_out(g, n, 0, KD_SHAPE(s->d[0])) : NULL;
}

/// With m = the number of elements an image:
///   da = dl[n] (a - b) exp(-logvar) / m        dlogvar = dl[n] (1 - mean((a - b)^2) exp(-logvar)) / 2
/// Node: in a, b, logvar, dl; out da, dlogvar.
static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->in[0], n->in[1], n->in[2], dy[0] };
    kd_node *d = kd_node_new(g, KD_OP_gauss_nll_grad, 4, in);
    if (!d) return;
    kd_val *to_a = kd_node_out(g, d, 0, n->in[0]->shape), *to_logvar = kd_node_out(g, d, 1, n->in[2]->shape);
    if (kd_wants(n, 0)) dx[0] = kd_sum(g, dx[0], to_a);
    if (kd_wants(n, 2)) dx[2] = kd_sum(g, dx[2], to_logvar);
}

const kd_op kd_op_gauss_nll = { .grad = grad };
const kd_op kd_op_gauss_nll_grad = { .in_place = 1 << 0 | 1 << 1 };
