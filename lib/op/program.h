// A program: the part of a graph that some outputs need, in order, with one memory arena, run many times.
#ifndef KD_PROGRAM_H
#define KD_PROGRAM_H
#include "op/backend.h"
#include <stdio.h>

typedef struct kd_program kd_program;

/// Plans: keeps the nodes that `outs` need, orders them as made, finds each value's life, lays values out in one arena
/// (in place where the op allows), and adds the largest scratch. Takes the graph (freed with the program). Allocates
/// nothing on the backend before kd_program_ready or the first run.
int kd_program_new(kd_program **p, kd_graph *g, kd_backend *be, kd_val *const *outs, int n, kd_err *err);
void kd_program_free(kd_program *p);

/// Backend bytes the program takes: arena (inputs and constants included) and scratch; bound values are the caller's.
int64_t kd_program_bytes(const kd_program *p);
double kd_program_flops(const kd_program *p);

/// Points a parameter, input or output value at memory of the caller's (before kd_program_new for outputs).
void kd_bind(kd_val *v, void *data);

/// Gives an output its place in the arena (before kd_program_new): `offset` bytes, a multiple of 64, from where
/// kd_program_pinned says. Other values lie there before it is computed; from then on it stays. So gradients take memory
/// only as the activations give theirs back, and still form one array. What lies between pinned outputs is anything.
void kd_pin(kd_val *v, int64_t offset);
void *kd_program_pinned(kd_program *p, kd_err *err);         // on the backend; NULL: no memory for the program

int kd_program_ready(kd_program *p, kd_err *err);            // allocates; uploads constants
/// errors KD_EUSAGE "class_cond: image 3: expected 0 to 9, got 12" for a value outside of input->below
int kd_program_set(kd_program *p, kd_val *input, const void *host, kd_err *err);
int kd_program_run(kd_program *p, kd_err *err);
int kd_program_get(kd_program *p, const kd_val *v, void *host, kd_err *err);   // an output of the last run

/// Time, GFLOP/s and bytes of each op, summed over runs since the profile was switched on.
void kd_program_profile(kd_program *p, bool on);
int kd_program_profile_print(const kd_program *p, FILE *to);

#endif
