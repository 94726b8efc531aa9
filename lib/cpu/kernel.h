// What a CPU kernel file is. Each file in lib/cpu/kernels is compiled once for each instruction set (Makefile, ISAS), so
// its public names carry the set's name: KD_KERNEL(rms_norm) is kd_cpu_rms_norm_avx2, and so on. lib/cpu/kernels/table.c
// gathers them by ops.def; lib/cpu/cpu.c picks a table at run time (KD_CPU=base|avx2|avx512 pins it).
//
// Rules: work is cut into tiles that depend on shapes alone, and kd_parallel runs them; what one image gets does not
// depend on how many images there are; sums over images run in image order, sums within an image in a fixed order.
// Plain loops that gcc vectorises are preferred; vector types where that is not enough.
#ifndef KD_CPU_KERNEL_H
#define KD_CPU_KERNEL_H
#include "base/memory.h"
#include "base/parallel.h"
#include "op/backend.h"

typedef struct kd_kernel {
    void (*run)(const kd_node *n, void *scratch);    // cannot fail: constructors check shapes, kd_program_set indices
    size_t (*scratch)(const kd_node *n);         // NULL: none. May use kd_threads() for per-thread parts
} kd_kernel;

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// The length of even parts of n, at most `most` and each a multiple of `unit` but the last.
static inline int64_t even_part(int64_t n, int64_t most, int64_t unit) { return ceil_div(ceil_div(n, ceil_div(n, most)), unit) * unit; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

#define KD_PASTE_(a, b, c) a##b##_##c
#define KD_PASTE(a, b, c) KD_PASTE_(a, b, c)
#define KD_ISA_NAME(x) KD_PASTE(kd_, x, KD_ISA)  // for helpers that kernel files share: KD_ISA_NAME(gemm)
#define KD_KERNEL(op) KD_PASTE(kd_cpu_, op, KD_ISA)

#endif
