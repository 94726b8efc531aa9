// Group norm (Wu & He 2018, arXiv:1803.08494), optionally adaptive (Dhariwal & Nichol 2021, arXiv:2105.05233) and followed by a
// nonlinearity. With xhat = (x - mean) rstd, S = w (1 + a1) and B = b (1 + a1) + a2, a1 and a2 the halves of ada:
//   z = xhat S + B     y = act(z)     g = dy act'(z)
//   P[n,c] = sum of g xhat, Q[n,c] = sum of g, over pixels
//   dw = sum over n of (1 + a1) P     db = sum over n of (1 + a1) Q     da1 = w P + b Q     da2 = Q
//   dx = rstd (g S - (sum of S Q + xhat sum of S P) / m), sums over the group's channels, m its number of elements
// Kept for the gradient: x, and mean and rstd of each group. z is computed again.
// Nodes: group_norm in x, w, b, ada (NULL where absent), out y, stats [N,groups,2]; group_norm_grad in x, w, b, ada, stats, dy,
// acc, out dx + acc, dw, db, dada. Both have a.group_norm.
#include "op/unet.h"

enum { X, W, B, ADA, STATS, DY, ACC };

static bool fits(const kd_val *x, const kd_val *w, const kd_val *b, const kd_val *ada, int64_t groups)
{
    const int64_t c = kd_last(x);
    return x->shape.n >= 2 && groups >= 1 && c % groups == 0 && !w == !b &&
           (!w || (w->shape.n == 1 && b->shape.n == 1 && kd_last(w) == c && kd_last(b) == c)) &&
           (!ada || (ada->shape.n == 2 && ada->shape.d[0] == x->shape.d[0] && kd_last(ada) == 2 * c));
}

kd_val *kd_group_norm(kd_graph *g, kd_val *x, kd_val *w, kd_val *b, kd_val *ada, int64_t groups, double eps, kd_act act)
{
    if (!x)
        return NULL;
    kd_val *in[] = { x, w, b, ada };
    if (!kd_want(g, fits(x, w, b, ada, groups), KD_OP_group_norm, "x [N,..,C] of whole groups, w and b [C], ada [N,2C]", 4, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_group_norm, 4, in);
    if (!n)
        return NULL;
    n->a.group_norm.groups = groups, n->a.group_norm.eps = eps, n->a.group_norm.act = act;
    kd_val *y = kd_node_out(g, n, 0, x->shape);
    kd_node_out(g, n, 1, KD_SHAPE(x->shape.d[0], groups, 2));
    return y;
}

static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->in[X], n->in[W], n->in[B], n->in[ADA], n->out[1], dy[0], kd_wants(n, X) ? dx[X] : NULL };
    kd_node *d = kd_node_new(g, KD_OP_group_norm_grad, 7, in);
    if (!d)
        return;
    d->a = n->a;
    const kd_shape none = KD_SHAPE(0);
    for (int k = X; k <= ADA; k++) {
        kd_val *to = kd_node_out(g, d, k, n->in[k] ? n->in[k]->shape : none);
        if (kd_wants(n, k))
            dx[k] = k == X ? to : kd_sum(g, dx[k], to);
    }
}

const kd_op kd_op_group_norm = { .grad = grad, .in_place = 1 << X, .cheap = true };
const kd_op kd_op_group_norm_grad = { .in_place = 1 << X | 1 << DY | 1 << ACC };
