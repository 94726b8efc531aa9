// Where values live: the memory plan of a program.
#ifndef KD_PLAN_H
#define KD_PLAN_H
#include "op/graph.h"

/// What a program runs: the needed nodes in order, and its arena.
typedef struct kd_plan {
    kd_node **node; int n;
    kd_val **root; int n_root;        // values with a place of their own in the arena
    int64_t arena;                    // bytes
} kd_plan;

enum { KD_ALIGN = 64 };

/// Fills the plan and the values' used, first, last, shares and offset. errors KD_EFAIL without memory.
int kd_plan_make(kd_plan *plan, kd_graph *g, kd_val *const *outs, int n, kd_err *err);
void kd_plan_free(kd_plan *plan);

/// The value over whose memory v is computed (v itself if it has a place of its own).
kd_val *kd_plan_root(kd_val *v);
int64_t kd_val_bytes(const kd_val *v);

#endif
