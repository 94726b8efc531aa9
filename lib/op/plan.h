// Where values live: the memory plan of a program.
#ifndef KD_PLAN_H
#define KD_PLAN_H
#include "op/backend.h"
#include "op/graph.h"

/// What a program runs: the needed nodes in the order in which they run, cut into units, and the memory for their values.
typedef struct kd_plan {
    kd_node **node; int n;
    int *size; int units;             // nodes of each unit; a unit's nodes follow each other in `node`
    kd_val **root; int n_root;        // values with a place of their own in the arena
    int64_t inputs, arena;            // bytes: of the block of inputs, of everything else
} kd_plan;

/// Fills the plan, and the values' used, inner, first, last, shares and offset. The backend is asked which nodes it joins.
/// errors KD_EFAIL without memory, or if the backend has no kernel for a node in its dtypes
int kd_plan_make(kd_plan *plan, kd_graph *g, kd_backend *be, kd_val *const *outs, int n, kd_err *err);
void kd_plan_free(kd_plan *plan);

/// The value over whose memory v is computed (v itself if it has a place of its own).
kd_val *kd_plan_root(kd_val *v);
int64_t kd_val_bytes(const kd_val *v);
/// An input with a place in the program's block of inputs.
bool kd_plan_is_input(const kd_val *v);

#endif
