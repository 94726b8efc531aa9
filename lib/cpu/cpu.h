// The CPU backend.
#ifndef KD_CPU_H
#define KD_CPU_H
#include "op/backend.h"

/// Opens the CPU backend with the best kernels this machine has, or those that KD_CPU=base|avx2|avx512 pins.
/// errors KD_EUSAGE if KD_CPU names a set that the machine or the build lacks
int kd_cpu_open(kd_backend **be, kd_err *err);

/// Names of the sets that run here, best last. Returns how many.
int kd_cpu_sets(const char *names[3]);

#endif
