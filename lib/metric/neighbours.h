// What share of each set lies where the other is: precision, recall, density, coverage; and the Inception Score.
#ifndef KD_NEIGHBOURS_H
#define KD_NEIGHBOURS_H
#include "metric/rows.h"

typedef struct kd_coverage { double precision, recall, density, coverage; } kd_coverage;

/// Around each row of a set a ball reaches to its k-th nearest other row of the same set.
///   precision   share of samples in some ball of the reference     recall    share of the reference in some ball of the samples
///   density     balls of the reference that a sample is in, mean, divided by k
///   coverage    share of the reference whose ball holds a sample
/// Balls are closed: "in" is a distance up to the radius, as in Kynkaanniemi's paper and code, and as Naeem's solid spheres. Naeem's
/// code, prdc, has a distance below the radius: there a row with k copies or more has an empty ball, and a set that repeats its
/// images scores 0 against itself. Where no two distances are equal both give the same; of a set against itself, which is full of
/// equal distances, the density is (k + 1) / k here and 1 there. Distances in double. Time grows as (nx + ny)^2.
/// errors      KD_EUSAGE if a set has k rows or fewer, or d differs
/// source      Kynkaanniemi et al. 2019, arXiv:1904.06991; Naeem et al. 2020, arXiv:2002.09797
int kd_coverage_of(kd_coverage *c, const kd_matrix *reference, const kd_matrix *samples, int64_t k, kd_err *err);

/// exp of the mean of KL(p(class | image) | mean p), over `splits` runs of rows: mean and standard deviation. logits [n, classes]
/// without the bias of the last layer, as the original code and torch-fidelity take them.
/// errors      KD_EUSAGE for fewer rows than splits
/// source      Salimans et al. 2016, arXiv:1606.03498
int kd_inception_score(double *score, double *deviation, const kd_matrix *logits, int64_t splits, kd_err *err);

#endif
