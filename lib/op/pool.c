// Pools of the feature networks (Inception). Node: in x; out y; a.pool.
#include "op/unet.h"

kd_val *kd_pool(kd_graph *g, kd_val *x, kd_pooling p)
{
    if (!x) return NULL;
    const int64_t *d = x->shape.d;
    const bool ok = x->shape.n == 4 && p.size >= 1 && p.stride >= 1 && p.pad >= 0 && p.pad < p.size &&
                    d[1] + 2 * p.pad >= p.size && d[2] + 2 * p.pad >= p.size;
    if (!kd_want(g, ok, KD_OP_pool, "x [N,H,W,C] at least as large as the pool, and less padding than that", 1, &x)) return NULL;
    kd_node *n = kd_node_new(g, KD_OP_pool, 1, &x);
    if (!n) return NULL;
    n->a.pool = p;
    return kd_node_out(g, n, 0, KD_SHAPE(d[0], (d[1] + 2 * p.pad - p.size) / p.stride + 1,
                                         (d[2] + 2 * p.pad - p.size) / p.stride + 1, d[3]));
}

const kd_op kd_op_pool = { .grad = NULL };
