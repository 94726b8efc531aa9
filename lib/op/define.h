// For lib/op/*.c: the table entry of an op, with its name, formula and number of outputs taken from ops.def.
//     KD_DEFINE_OP(add, .grad = grad, .in_place = 3);
#ifndef KD_DEFINE_H
#define KD_DEFINE_H
#include "op/op.h"

#define KD_OP(op, n_outs, formula) static const char kd_what_##op[] __attribute__((unused)) = formula;
#include "op/ops.def"
#undef KD_OP

enum {
#define KD_OP(op, n_outs, formula) KD_OUTS_##op = n_outs,
#include "op/ops.def"
#undef KD_OP
};

#define KD_DEFINE_OP(op, ...) \
    extern const kd_op kd_op_##op; \
    const kd_op kd_op_##op = { .name = #op, .what = kd_what_##op, .outs = KD_OUTS_##op, __VA_ARGS__ }

/// Ops without attributes of their own end the list with this.
#define KD_NO_GRAD .grad = NULL

#endif
