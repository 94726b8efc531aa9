// Random numbers as values: functions of counters (base/random.h), the same bits on every backend. Node of both: in index,
// rng; out [N,..].
#include "op/random.h"

static bool fits(kd_graph *g, kd_op_id op, const kd_shape *shape, kd_val *index, kd_val *rng)
{
    kd_val *in[] = { index, rng };
    if (!index || !rng)
        return false;
    const int64_t n = shape->n ? shape->d[0] : 0;
    const bool one = rng->shape.n == 1 && rng->shape.d[0] == 2, each = rng->shape.n == 2 && rng->shape.d[0] == n && rng->shape.d[1] == 2;
    return kd_want(g, index->dtype == KD_I64 && index->shape.n == 1 && index->shape.d[0] == n && rng->dtype == KD_U64 && (one || each),
                   op, "index [N] of I64, rng [2] or [N,2] of U64", 2, in);
}

kd_val *kd_normal(kd_graph *g, kd_shape shape, kd_val *index, kd_val *rng, kd_draw_attr draw)
{
    kd_val *in[] = { index, rng };
    if (!fits(g, KD_OP_normal, &shape, index, rng))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_normal, 2, in);
    if (n)
        n->a.normal = draw;
    return kd_node_out(g, n, 0, shape);
}

kd_val *kd_brownian_steps(kd_graph *g, kd_shape shape, kd_val *index, kd_val *rng, kd_brownian_attr path)
{
    kd_val *in[] = { index, rng };
    if (!fits(g, KD_OP_brownian, &shape, index, rng))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_brownian, 2, in);
    if (n)
        n->a.brownian = path;
    return kd_node_out(g, n, 0, shape);
}

const kd_op kd_op_normal = { .grad = NULL };
const kd_op kd_op_brownian = { .grad = NULL };
