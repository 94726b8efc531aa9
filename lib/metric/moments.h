// Mean and covariance of feature vectors in one pass, in double.
#ifndef KD_MOMENTS_H
#define KD_MOMENTS_H
#include "metric/rows.h"

/// What a Gaussian distance takes of a set of vectors. n: how many they were; 0 if not known.
typedef struct kd_gauss {
    int64_t n, d;
    const double *mu, *cov;   // [d], [d,d] with divisor n - 1
} kd_gauss;

typedef struct kd_moments kd_moments;

/// Rows are gathered into blocks of a fixed number; each block's mean and centred products are merged into those of all before
/// (Chan, Golub, LeVeque 1979). So no digits are lost to a large mean, memory is 8 d^2 bytes whatever n, how rows are split into
/// calls changes no bit, and their order only the last ones (1e-9 of the largest variance is promised).
int kd_moments_new(kd_moments **m, int64_t d, kd_err *err);
void kd_moments_free(kd_moments *m);

/// rows [n,d]. errors KD_EFAIL if a value is not finite: "value 17 of feature vector 3 is not a finite number"
int kd_moments_add(kd_moments *m, const float *rows, int64_t n, kd_err *err);
int kd_moments_add_f64(kd_moments *m, const double *rows, int64_t n, kd_err *err);

int64_t kd_moments_count(const kd_moments *m);           // rows so far

/// mu [d], cov [d,d] (divisor n - 1), the caller's memory. errors KD_EUSAGE for fewer than 2 rows
int kd_moments_get(kd_moments *m, double *mu, double *cov, kd_err *err);

/// The same of rows at hand.
int kd_moments_of(const kd_matrix *rows, double *mu, double *cov, kd_err *err);

#endif
