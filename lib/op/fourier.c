// Fourier features: of noise levels and augmentation conditions, which are data. Node: in x, w; out y.
#include "op/op.h"

kd_val *kd_fourier(kd_graph *g, kd_val *x, kd_val *w)
{
    if (!x || !w) return NULL;
    kd_val *in[] = { x, w };
    if (!kd_want(g, x->shape.n == 2 && w->shape.n == 2 && kd_last(x) == kd_last(w), KD_OP_fourier,
                 "x [N,k] and w [h,k]", 2, in))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_fourier, 2, in);
    if (!n) return NULL;
    return kd_node_out(g, n, 0, KD_SHAPE(x->shape.d[0], 2 * w->shape.d[0]));
}

const kd_op kd_op_fourier = { .grad = NULL };
