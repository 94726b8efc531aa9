// The kernels of one instruction set, by op.
#include "cpu/kernel.h"

#define KD_OP(name, outs, f32, what) extern const kd_kernel KD_KERNEL(name);
#include "op/ops.def"
#undef KD_OP

extern const kd_kernel *const KD_ISA_NAME(kernels)[KD_OPS];
const kd_kernel *const KD_ISA_NAME(kernels)[KD_OPS] = {
#define KD_OP(name, outs, f32, what) [KD_OP_##name] = &KD_KERNEL(name),
#include "op/ops.def"
#undef KD_OP
};
