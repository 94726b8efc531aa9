// Rows of a table by index. Node: in table, index; out y.
// Kernels trust the index: an input of a graph is checked where it is set, so it keeps the smallest number of rows.
#include "op/op.h"

kd_val *kd_embedding(kd_graph *g, kd_val *table, kd_val *index)
{
    if (!table || !index) return NULL;
    kd_val *in[] = { table, index };
    if (!kd_want(g, table->shape.n == 2 && index->shape.n == 1 && index->dtype == KD_I64, KD_OP_embedding,
                 "table [R,C] and index [N] of I64", 2, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_embedding, 2, in);
    if (!n) return NULL;
    if (index->kind == KD_VAL_INPUT && (!index->below || table->shape.d[0] < index->below)) index->below = table->shape.d[0];
    return kd_node_out(g, n, 0, KD_SHAPE(index->shape.d[0], table->shape.d[1]));
}

/// Node: in index, dy; out dtable.
static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    if (!kd_wants(n, 0)) return;
    kd_val *in[] = { n->in[1], dy[0] };
    kd_node *d = kd_node_new(g, KD_OP_embedding_grad, 2, in);
    if (!d) return;
    dx[0] = kd_sum(g, dx[0], kd_node_out(g, d, 0, n->in[0]->shape));
}

const kd_op kd_op_embedding = { .grad = grad };
const kd_op kd_op_embedding_grad = { .grad = NULL };
