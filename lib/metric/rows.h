// Feature vectors as the metrics take them: rows of a matrix, in an order of the caller's, so that a subset or a resampling of a
// set costs a list of numbers and no copy.
#ifndef KD_ROWS_H
#define KD_ROWS_H
#include "base/err.h"
#include <stdint.h>

/// Row i is x + at[i] * d, or x + i * d if at is NULL. Nothing is owned.
typedef struct kd_matrix {
    const float *x;
    int64_t n, d;
    const int64_t *at;
} kd_matrix;

static inline const float *kd_row(const kd_matrix *r, int64_t i) { return r->x + (r->at ? r->at[i] : i) * r->d; }

/// BLAS and LAPACK on the calling thread alone: their results must not depend on a number of threads, and the loops around them
/// are parallel already. Every function of lib/metric that needs it calls it.
void kd_blas_one_thread(void);

#endif
