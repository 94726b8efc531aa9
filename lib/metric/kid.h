// Kernel distance: KID on Inception features.
#ifndef KD_KID_H
#define KD_KID_H
#include "metric/rows.h"

/// Unbiased squared maximum mean discrepancy with the kernel (x.y / d + 1)^3: the mean of k over pairs within each set without
/// those of a row with itself, minus twice the mean across. All in double: a few rows of each set are widened at a time.
/// errors      KD_EUSAGE for fewer than 2 rows or different d
/// source      Binkowski et al. 2018, arXiv:1801.01401
int kd_kid_of(double *kid, const kd_matrix *x, const kd_matrix *y, kd_err *err);

/// k-diffusion's: the mean over p = ceil(max(nx / most, ny / most)) parts; part i has rows round(i n / p) .. round((i + 1) n / p) - 1
/// of each set, halves rounded to even. errors as above, for a part too
int kd_kid_partitions(double *kid, const kd_matrix *x, const kd_matrix *y, int64_t most, kd_err *err);

/// The field's (clean-fid, torch-fidelity): mean and standard deviation over `times` subsets of min(size, nx, ny) rows of each set,
/// drawn without replacement. Which rows is a function of (seed, subset, n). *size: what it was. When a subset takes all rows of
/// both sets, all are the same: one is computed, and *deviation is NaN.
int kd_kid_subsets(double *kid, double *deviation, const kd_matrix *x, const kd_matrix *y, int64_t times, int64_t *size, uint64_t seed,
                   kd_err *err);

#endif
