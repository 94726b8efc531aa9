// Tests of ops: one file per op in this folder, cases as a list. Each case runs on every instruction set of the machine, and
// with --device on any backend:
//   * the result against double precision written in the file, each element;
//   * the gradient against central differences of that same function: some elements of each input, and one random direction;
//   * the same bits: twice; on 1, 3 and 8 threads; written in place over each input that allows it; image 0 in a larger batch;
//   * nothing written outside of results, every element of them written (guard bytes, NaN before the run).
// By convention a case's first number is N, the number of images.
#ifndef KD_TEST_OP_H
#define KD_TEST_OP_H
#include "op/program.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct t_dist { double mean, deviation; int64_t below; bool rng; } t_dist;
#define NORMAL(m, d) ((t_dist){ .mean = (m), .deviation = (d) })
#define INDEX(n)     ((t_dist){ .below = (n) })           // I64, 0 to n - 1

enum { T_SHARED = 0,       // like a weight: the same for every batch size
       T_IMAGES = 1,       // the first axis is images
       T_DATA = 2 };       // no gradient is asked for

/// An input of the op under test, filled with numbers of its own.
typedef struct t_build t_build;
struct t_build {
    kd_graph *g;
    const int64_t *c;      // the case
    bool in_place;         // inputs die at the op: it may write over them
    int n;
    kd_val *leaf[KD_MAX_IN], *val[KD_MAX_IN];
    int flags[KD_MAX_IN];
    t_dist dist[KD_MAX_IN];
};
kd_val *t_input(t_build *b, int flags, kd_shape shape, t_dist dist);
kd_val *t_rng(t_build *b);                                // dropout's input: T_SEED and T_STEP

/// For the double-precision function: inputs in the order of their t_input calls, the result y to be written.
typedef struct t_ref {
    const int64_t *c;
    const double *in[KD_MAX_IN];
    double *y;
} t_ref;

typedef struct t_op {
    kd_val *(*build)(t_build *b);
    void (*ref)(const t_ref *r);
    double tol, grad_tol;  // error by the largest element of the tensor; 0: 1e-6 and 5e-6
    bool shared_y;         // y has no image axis
} t_op;

enum { T_SEED = 7, T_STEP = 3 };                          // of t_rng

/// A whole test: cases of an op, or a function for what does not fit that form.
typedef struct t_test t_test;
typedef struct t_run {
    kd_backend *be;
    const char *cpu;
    const t_test *test;
    int number;            // of the case
    int failed;
    bool cpu_bits;         // not the CPU, but with its kernels
    char where[128];       // instruction set and device
    char line[512];        // the first failure
} t_run;
struct t_test {
    const char *name;
    t_op op;
    const int64_t *cases;
    int n, width;
    void (*fn)(t_run *t);
    t_test *next;
};
void t_register(t_test *test);

/// Failed unless ok; the first sentence of a case is reported.
void t_check(t_run *t, bool ok, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/// Failed if an element of got is further than tol * max|want| from want.
void t_close(t_run *t, const char *what, const float *got, const double *want, int64_t n, double tol);

/// Runs a graph once on t's backend, data[k] in input in[k]; out[k]'s F32 values to the caller's to[k]. Frees the graph.
int t_run_graph(t_run *t, kd_graph *g, kd_val *const *in, const void *const *data, int n_in, kd_val *const *out,
                float *const *to, int n_out);

#define T_REGISTER(id) __attribute__((constructor)) static void t_register_##id(void) { t_register(&t_test_##id); }
#define KD_TEST_OP(id, list, ...) \
    static t_test t_test_##id = { .name = #id, .op = { __VA_ARGS__ }, .cases = (list)[0], .n = sizeof(list) / sizeof *(list), \
                                  .width = sizeof *(list) / sizeof(int64_t) }; \
    T_REGISTER(id)
#define KD_TEST_FN(id, function) static t_test t_test_##id = { .name = #id, .n = 1, .fn = function }; T_REGISTER(id)

#endif
