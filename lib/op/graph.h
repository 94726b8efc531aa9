// Inside of a graph, for lib/op alone (graph.c, grad.c, plan.c, program.c).
#ifndef KD_GRAPH_H
#define KD_GRAPH_H
#include "op/backend.h"

enum { KD_MAX_SCOPES = 32 };

struct kd_graph {
    kd_node **node; int n_node, room_node;
    kd_val **val; int n_val, room_val;
    char **name; int n_name, room_name;        // interned strings
    char scope[512];                           // "down_levels.0.1.ff"
    size_t scope_end[KD_MAX_SCOPES]; int depth; // its length before each push
    int block, blocks;                         // the block being built (0: none), and how many there were
    kd_dtype compute;                          // of a network's activations
    const kd_backend *be;                      // that kd_grad asks; NULL: the CPU's answers
    kd_err err;
};

/// Interns a string for the life of the graph; NULL (and the graph's error) without memory.
const char *kd_graph_name(kd_graph *g, const char *s);

#endif
