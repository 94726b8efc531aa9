// Convolution (as neural networks say; a correlation) with weights w [Co,Ci,kh,kw] as on file, zero padding.
//   y[o] = sum over taps t of x[o * stride + t - pad] w[t]^T + b + res
//   dx[i] = sum over t, where i + pad - t is a multiple of stride, of dy[(i + pad - t) / stride] w[t]
//   dw[t] = sum over o of dy[o]^T x[o * stride + t - pad]       db = sum of dy over pixels       dres = dy
// Nodes: conv2d in x, w, b, res; conv2d_grad_x in dy, w, acc; conv2d_grad_w in dy, x. All have a.conv.
#include "op/unet.h"

static kd_node *node(kd_graph *g, kd_op_id op, int n_in, kd_val *const *in, kd_conv c)
{
    kd_node *n = kd_node_new(g, op, n_in, in);
    if (n)
        n->a.conv = c;
    return n;
}

static bool fits(const kd_val *x, const kd_val *w, const kd_val *b, kd_conv c)
{
    const int64_t *const s = x->shape.d, *const f = w->shape.d;
    return x->shape.n == 4 && w->shape.n == 4 && f[1] == s[3] && c.stride >= 1 && c.pad_h >= 0 && c.pad_w >= 0 &&
           c.pad_h < f[2] && c.pad_w < f[3] && s[1] + 2 * c.pad_h >= f[2] && s[2] + 2 * c.pad_w >= f[3] &&
           (!b || (b->shape.n == 1 && b->shape.d[0] == f[0]));
}

kd_val *kd_conv2d(kd_graph *g, kd_val *x, kd_val *w, kd_val *b, kd_val *res, kd_conv c)
{
    static const char expected[] = "x [N,H,W,Ci] at least as large as the kernel, w [Co,Ci,kh,kw], b [Co], res like the result";
    kd_val *in[] = { x, x && w ? kd_cast(g, w, x->dtype) : w, b, res };
    if (!x || !w || !kd_want(g, fits(x, w, b, c), KD_OP_conv2d, expected, 4, in))
        return NULL;
    const int64_t *const s = x->shape.d, *const f = w->shape.d;
    if (f[2] == 1 && f[3] == 1 && c.stride == 1)
        return kd_linear(g, x, w, b, res);
    const kd_shape y = KD_SHAPE(s[0], (s[1] + 2 * c.pad_h - f[2]) / c.stride + 1, (s[2] + 2 * c.pad_w - f[3]) / c.stride + 1, f[0]);
    if (!kd_want(g, !res || kd_shape_same(&res->shape, &y), KD_OP_conv2d, expected, 4, in))
        return NULL;
    return kd_node_out(g, node(g, KD_OP_conv2d, 4, in, c), 0, y);
}

static void grad(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx)
{
    kd_val *to_x[] = { dy[0], n->in[1], dx[0] }, *to_w[] = { dy[0], n->in[0] };
    if (kd_wants(n, 0))
        dx[0] = kd_node_out(g, node(g, KD_OP_conv2d_grad_x, 3, to_x, n->a.conv), 0, n->in[0]->shape);
    if (kd_wants(n, 1))
        dx[1] = kd_sum(g, dx[1], kd_node_out(g, node(g, KD_OP_conv2d_grad_w, 2, to_w, n->a.conv), 0, n->in[1]->shape));
    if (kd_wants(n, 2))
        dx[2] = kd_sum(g, dx[2], kd_node_out(g, kd_node_new(g, KD_OP_sum_rows, 1, dy), 0, n->in[2]->shape));
    if (kd_wants(n, 3))
        dx[3] = kd_sum(g, dx[3], dy[0]);
}

// Products of pixels of the result with weights; padding counts.
static double products(const kd_val *y, const kd_val *w)
{
    return 2.0 * (double)kd_rows(y) * (double)kd_count(w);
}

static double flops(const kd_node *n) { return products(n->out[0], n->in[1]); }
static double grad_x_flops(const kd_node *n) { return products(n->in[0], n->in[1]); }
static double grad_w_flops(const kd_node *n) { return products(n->in[0], n->out[0]); }

const kd_op kd_op_conv2d = { .grad = grad, .flops = flops, .in_place = 1 << 3 };
const kd_op kd_op_conv2d_grad_x = { .flops = grad_x_flops, .in_place = 1 << 2 };
const kd_op kd_op_conv2d_grad_w = { .flops = grad_w_flops };
