// See optimizer.h.
#include "op/optimizer.h"
#include <string.h>

/// An F32 input of n elements; nothing for NULL.
static void input(kd_flat_node *o, int slot, int64_t n, const float *data)
{
    o->node.n_in = slot + 1;
    if (!data) return;
    o->in[slot] = (kd_val){ .kind = KD_VAL_INPUT, .dtype = KD_F32, .shape = KD_SHAPE(n), .bound = true, .used = true,
                            .data = (void *)(uintptr_t)data };
    o->node.in[slot] = &o->in[slot];
}

static void begin(kd_flat_node *o, kd_op_id op, kd_dtype dtype, int64_t n, void *out)
{
    memset(o, 0, sizeof *o);
    o->out = (kd_val){ .kind = KD_VAL_RESULT, .dtype = dtype, .shape = KD_SHAPE(n), .node = &o->node, .data = out,
                       .bound = true, .used = true };
    o->node.op = op;
    o->node.name = "optimizer";
    o->node.out[0] = &o->out;
    o->node.n_out = 1;
}

void kd_sum_squares_node(kd_flat_node *o, int64_t n, const float *x, double *sum)
{
    begin(o, KD_OP_sum_squares, KD_F64, 1, sum);
    input(o, 0, n, x);
}

void kd_accumulate_node(kd_flat_node *o, int64_t n, float *y, const float *x)
{
    begin(o, KD_OP_accumulate, KD_F32, n, y);
    input(o, 0, n, y);
    input(o, 1, n, x);
}

void kd_clamp_max_node(kd_flat_node *o, int64_t n, float *p, double most)
{
    begin(o, KD_OP_clamp_max, KD_F32, n, p);
    input(o, 0, n, p);
    o->node.a.clamp_max.most = most;
}

void kd_adamw_node(kd_flat_node *o, int64_t n, float *p, const float *g, float *m, float *v, float *ema,
                   const kd_step *s, double beta1, double beta2, double eps)
{
    const float *in[] = { p, g, m, v, ema };
    begin(o, KD_OP_adamw, KD_F32, n, p);
    for (int i = 0; i < 5; i++) input(o, i, n, in[i]);
    o->node.a = (kd_attr){ .adamw = { *s, beta1, beta2, eps } };
}

void kd_sgd_node(kd_flat_node *o, int64_t n, float *p, const float *g, float *m, float *ema,
                 const kd_step *s, double momentum, bool nesterov)
{
    const float *in[] = { p, g, m, NULL, ema };
    begin(o, KD_OP_sgd, KD_F32, n, p);
    for (int i = 0; i < 5; i++) input(o, i, n, in[i]);
    o->node.a = (kd_attr){ .sgd = { *s, momentum, nesterov } };
}

const kd_op kd_op_sum_squares = { .grad = NULL };
const kd_op kd_op_accumulate = { .in_place = 1 << 0 };
const kd_op kd_op_adamw = { .in_place = 1 << 0 };
const kd_op kd_op_sgd = { .in_place = 1 << 0 };
