// The timestep embedding of guided-diffusion, of data. Node: in t; out y; a.timestep.
#include "op/unet.h"

kd_val *kd_timestep_embedding(kd_graph *g, kd_val *t, int64_t dim, double max_period)
{
    if (!t || !kd_want(g, kd_count(t) == t->shape.d[0] && t->shape.n >= 1 && dim >= 2 && max_period > 0, KD_OP_timestep,
                       "t [N] or [N,1], dim >= 2, max_period > 0", 1, &t))
        return NULL;
    kd_node *n = kd_node_new(g, KD_OP_timestep, 1, &t);
    if (!n) return NULL;
    n->a.timestep.max_period = max_period;
    return kd_node_out(g, n, 0, KD_SHAPE(t->shape.d[0], dim));
}

const kd_op kd_op_timestep = { .grad = NULL };
