// A program computes some outputs of a graph. It plans its memory once and can then run any number of times.
#ifndef KD_PROGRAM_H
#define KD_PROGRAM_H
#include "op/backend.h"
#include <stdio.h>

typedef struct kd_program kd_program;

/// Plans the computation of outs[0 .. n-1]: keeps the nodes they depend on, in order of creation, and gives each value that
/// is not bound a place: inputs in a block of their own, the others in one arena. Values that are never live at the same
/// time may share memory, and a node may overwrite an input that is not read again, if its op allows that. All nodes share a
/// scratch buffer. The program owns g from now on, also on failure. be must outlive it; kd_program_ready allocates the
/// memory. The number of threads (kd_threads_set) must not change afterwards.
/// errors  the graph's own; KD_EFAIL if the backend has no kernel for one of the nodes
int kd_program_new(kd_program **p, kd_graph *g, kd_backend *be, kd_val *const *outs, int n, kd_err *err);
void kd_program_free(kd_program *p);

/// Bytes of the backend's memory that the program takes: inputs, arena and scratch. Bound values are the caller's.
int64_t kd_program_bytes(const kd_program *p);
/// Bytes of the host's memory, where the backend cannot map the block of inputs in place: its mirror.
int64_t kd_program_host_bytes(const kd_program *p);
double kd_program_flops(const kd_program *p);

/// Points a parameter or output at memory of the backend that is the caller's (before kd_program_new).
void kd_bind(kd_val *v, void *data);

/// Fixes the place of an output: `offset` bytes (a multiple of KD_ALIGN) after the start of the arena. Call it before
/// kd_program_new; v must be one of outs. Until v is computed, other values may use its place. With this, gradients form
/// one array for the optimizer (kd_flatten), yet take up memory only as the backward pass releases activations.
void kd_pin(kd_val *v, int64_t offset);

int kd_program_ready(kd_program *p, kd_err *err);            // allocates; uploads constants

/// Sets an input for the following runs, or a fed value for the next one. The host's array is copied before this returns.
/// errors  KD_EUSAGE if an index is out of range (kd_val.below)
int kd_program_set(kd_program *p, kd_val *v, const void *host, kd_err *err);
/// Where to write an input's next value in place, until the program runs. NULL (and no error) if no node reads it. Not for
/// indices (kd_val.below), which kd_program_set checks.
int kd_program_at(kd_program *p, kd_val *input, void **host, kd_err *err);
/// Feeds a value from the backend's memory.
int kd_program_feed(kd_program *p, kd_val *fed, const void *from, kd_err *err);

/// Sends the inputs that were set, in one copy, and queues all nodes. What they compute is there for kd_program_get and
/// kd_program_take, and for whatever the backend is asked to do afterwards; only reading waits for it.
int kd_program_run(kd_program *p, kd_err *err);
/// Copies an output of the last run to the host's memory (get: waits) or the backend's (take: does not wait). An output keeps
/// its value until the program runs again or one of its fed values is set: fed values may have the same memory.
int kd_program_get(kd_program *p, const kd_val *v, void *host, kd_err *err);
int kd_program_take(kd_program *p, const kd_val *v, void *to, kd_err *err);

/// Measures the time of each op from now on; runs then wait after each unit.
void kd_program_profile(kd_program *p, bool on);
/// Prints time, GFLOP/s and GB/s of each op of n programs that were measured, slowest first.
int kd_program_profile_print(kd_program *const *p, int n, FILE *to);

#endif
