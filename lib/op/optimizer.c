// See optimizer.h. Nodes: flatten in gaps (NULL: none); clip in square, loss, stopped; adamw and sgd in p, grad, m, v, ema, clip,
// rates, runs. Inputs that are absent are NULL.
#include "op/optimizer.h"
#include "op/program.h"

kd_val *kd_flatten(kd_graph *g, int64_t n, const int64_t (*gaps)[2], int64_t n_gaps)
{
    kd_val *in[] = { n_gaps ? kd_const_of(g, "gaps", KD_I64, KD_SHAPE(n_gaps, 2), gaps) : NULL };
    kd_val *y = kd_node_out(g, kd_node_new(g, KD_OP_flatten, 1, in), 0, KD_SHAPE(n));
    if (y)
        kd_pin(y, 0);
    return y;
}

kd_val *kd_sum_squares(kd_graph *g, kd_val *x)
{
    if (!x)
        return NULL;
    return kd_node_out_as(g, kd_node_new(g, KD_OP_sum_squares, 1, &x), 0, KD_F64, KD_SHAPE(1));
}

// Output 0 of a node that computes in place over p.
static kd_val *in_place(kd_graph *g, kd_node *n, const kd_val *p)
{
    kd_val *out = kd_node_out(g, n, 0, p->shape);
    if (out)
        kd_bind(out, p->data);
    return out;
}

kd_val *kd_accumulate(kd_graph *g, kd_val *y, kd_val *x)
{
    kd_val *in[] = { y, x };
    if (!y || !x || !kd_want(g, kd_shape_same(&x->shape, &y->shape) && y->bound, KD_OP_accumulate, "two arrays of one shape", 2, in))
        return NULL;
    return in_place(g, kd_node_new(g, KD_OP_accumulate, 2, in), y);
}

kd_val *kd_clip(kd_graph *g, kd_val *square, kd_val *loss, kd_val *stopped, double limit)
{
    kd_val *in[] = { square, loss, stopped };
    const bool fits = !stopped || (stopped->bound && stopped->dtype == KD_F64 && kd_count(stopped) == 1);
    if (!square || !kd_want(g, fits, KD_OP_clip, "square [1], loss [N], stopped [1] bound", 3, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_clip, 3, in);
    if (n)
        n->a.clip.limit = limit;
    return kd_node_out_as(g, n, 0, KD_F64, KD_SHAPE(2));
}

static kd_node *update(kd_graph *g, kd_op_id op, const kd_update *u)
{
    kd_val *in[] = { u->p, u->grad, u->m, u->v, u->ema, u->clip, u->rates, u->runs };
    if (!u->p || !u->grad || !u->clip || !u->rates || !u->runs)
        return NULL;
    const bool fits = kd_count(u->grad) <= kd_count(u->p) && kd_count(u->rates) == KD_RATES && u->runs->shape.n == 2
                      && kd_last(u->runs) == KD_RUN_COLUMNS;
    return kd_want(g, fits, op, "p, grad [up to p's], rates [8], runs [R,4]", 8, in) ? kd_node_new(g, op, 8, in) : NULL;
}

kd_val *kd_adamw(kd_graph *g, const kd_update *u, double weight_decay, double beta1, double beta2, double eps)
{
    kd_node *n = u->m && u->v ? update(g, KD_OP_adamw, u) : NULL;
    if (!n)
        return NULL;
    n->a.adamw.weight_decay = weight_decay, n->a.adamw.beta1 = beta1, n->a.adamw.beta2 = beta2, n->a.adamw.eps = eps;
    return in_place(g, n, u->p);
}

kd_val *kd_sgd(kd_graph *g, const kd_update *u, double weight_decay, double momentum, bool nesterov)
{
    kd_node *n = update(g, KD_OP_sgd, u);
    if (!n)
        return NULL;
    n->a.sgd.weight_decay = weight_decay, n->a.sgd.momentum = momentum, n->a.sgd.nesterov = nesterov;
    return in_place(g, n, u->p);
}

const kd_op kd_op_flatten = { .grad = NULL };
const kd_op kd_op_sum_squares = { .grad = NULL };
const kd_op kd_op_accumulate = { .grad = NULL };
const kd_op kd_op_clip = { .grad = NULL };
const kd_op kd_op_adamw = { .grad = NULL };
const kd_op kd_op_sgd = { .grad = NULL };
