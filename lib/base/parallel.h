// The parallel loop over fixed tiles. The result may not depend on the number of threads: a tile writes only its own
// output, and sums over tiles run in tile order.
#ifndef KD_PARALLEL_H
#define KD_PARALLEL_H
#include <stdint.h>

/// How many threads loops use. 0: $OMP_NUM_THREADS, else the cores that this process may run on. Not inside a loop.
void kd_threads_set(int64_t n);
int kd_threads(void);

/// Calls fn(arg, tile, thread) for tile = 0..n-1 on the threads, in any order; thread is 0..kd_threads()-1 and selects
/// scratch memory. Nested calls, and calls while another thread's loop runs, run in the calling thread as number 0.
typedef void (*kd_tile_fn)(void *arg, int64_t tile, int thread);
void kd_parallel(int64_t n, kd_tile_fn fn, void *arg);

/// Sum of n doubles by a fixed binary tree: the same order whatever made the parts.
double kd_tree_sum(const double *x, int64_t n);

#endif
