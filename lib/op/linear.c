// Products with a weight w [M,K], as on file: linear, linear with GEGLU, and their gradients.
//   y = x w^T + b + res         dx = dy w        dw = dy^T x        db = sum of dy over rows        dres = dy
// GEGLU (Shazeer 2020, arXiv:2002.05202; peer image_transformer_v2.py linear_geglu): u = x w^T = [a, g], y = a gelu(g).
#include "op/op.h"

static kd_shape with_last(kd_shape s, int64_t last)
{
    s.d[s.n - 1] = last;
    return s;
}

// w [M,K], or a 1x1 convolution's, with axes of length 1 behind.
static bool fits(kd_val *x, kd_val *w)
{
    const kd_shape *const s = &w->shape;
    return x->shape.n >= 1 && s->n >= 2 && s->d[1] == kd_last(x) && kd_count(w) == s->d[0] * s->d[1];
}

// dx = dy w + acc
static kd_val *grad_x(kd_graph *g, kd_val *dy, kd_val *w, kd_val *acc)
{
    kd_val *in[] = { dy, w, acc };
    return kd_node_out(g, kd_node_new(g, KD_OP_linear_grad_x, 3, in), 0, with_last(dy->shape, w->shape.d[1]));
}

// dw = dy^T x, in the shape of w
static kd_val *grad_w(kd_graph *g, kd_val *dy, kd_val *x, const kd_val *w)
{
    kd_val *in[] = { dy, x };
    return kd_node_out(g, kd_node_new(g, KD_OP_linear_grad_w, 2, in), 0, w->shape);
}

static kd_val *sum_rows(kd_graph *g, kd_val *x)
{
    return kd_node_out(g, kd_node_new(g, KD_OP_sum_rows, 1, &x), 0, KD_SHAPE(kd_last(x)));
}

static void products_grad(kd_graph *g, const kd_node *n, kd_val *dy, kd_val **dx)
{
    if (kd_wants(n, 0))
        dx[0] = grad_x(g, dy, n->in[1], dx[0]);
    if (kd_wants(n, 1))
        dx[1] = kd_sum(g, dx[1], grad_w(g, dy, n->in[0], n->in[1]));
}

// linear ---------------------------------------------------------------------------------------------------------------

kd_val *kd_linear(kd_graph *g, kd_val *x, kd_val *w, kd_val *b, kd_val *res)
{
    kd_val *in[] = { x, x && w ? kd_cast(g, w, x->dtype) : w, b, res };
    if (!x || !w)
        return NULL;
    const kd_shape y = with_last(x->shape, w->shape.d[0]);
    const bool ok = fits(x, w) && (!b || (b->shape.n == 1 && b->shape.d[0] == w->shape.d[0]))
                    && (!res || (kd_shape_same(&res->shape, &y) && res->dtype == x->dtype));
    if (!kd_want(g, ok, KD_OP_linear, "x [..,K], w [M,K], b [M], res [..,M]", 4, in))
        return NULL;
    return kd_node_out(g, kd_node_new(g, KD_OP_linear, 4, in), 0, y);
}

static void linear_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    products_grad(g, n, dy[0], dx);
    if (kd_wants(n, 2))
        dx[2] = kd_sum(g, dx[2], sum_rows(g, dy[0]));
    if (kd_wants(n, 3))
        dx[3] = kd_sum(g, dx[3], dy[0]);
}

static double product_flops(const kd_node *n)                       // in[0] [..,K] times in[1] [M,K]
{
    return 2.0 * (double)kd_count(n->in[0]) * (double)n->in[1]->shape.d[0];
}

static double grad_x_flops(const kd_node *n)                        // in[0] [..,M] times in[1] [M,K]
{
    return 2.0 * (double)kd_count(n->in[0]) * (double)n->in[1]->shape.d[1];
}

static double grad_w_flops(const kd_node *n)                        // in[0] [..,M], in[1] [..,K]
{
    return 2.0 * (double)kd_count(n->in[0]) * (double)kd_last(n->in[1]);
}

const kd_op kd_op_linear = { .grad = linear_grad, .flops = product_flops, .in_place = 1 << 3 };
const kd_op kd_op_linear_grad_x = { .flops = grad_x_flops, .in_place = 1 << 2 };
const kd_op kd_op_linear_grad_w = { .flops = grad_w_flops };
const kd_op kd_op_sum_rows = { .grad = NULL };

// linear_geglu ---------------------------------------------------------------------------------------------------------

kd_val *kd_linear_geglu(kd_graph *g, kd_val *x, kd_val *w)
{
    kd_val *in[] = { x, x && w ? kd_cast(g, w, x->dtype) : w };
    if (!x || !w || !kd_want(g, fits(x, w) && w->shape.d[0] % 2 == 0, KD_OP_linear_geglu, "x [..,K], w [2F,K]", 2, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_linear_geglu, 2, in);
    kd_val *y = kd_node_out(g, n, 0, with_last(x->shape, w->shape.d[0] / 2));
    kd_node_out(g, n, 1, with_last(x->shape, w->shape.d[0]));
    return y;
}

static void linear_geglu_grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *in[] = { n->out[1], dy[0] };
    kd_val *du = kd_node_out(g, kd_node_new(g, KD_OP_geglu_grad, 2, in), 0, n->out[1]->shape);
    if (du)
        products_grad(g, n, du, dx);
}

const kd_op kd_op_linear_geglu = { .grad = linear_geglu_grad, .flops = product_flops };
const kd_op kd_op_geglu_grad = { .in_place = 1 << 0 };
