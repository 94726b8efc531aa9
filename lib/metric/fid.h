// Frechet distance between two Gaussians: FID on Inception features, sFID on its spatial ones, and so on.
#ifndef KD_FID_H
#define KD_FID_H
#include "metric/moments.h"

typedef struct kd_fid {
    double value;             // mean + trace_a + trace_b - 2 cross: as computed, not clamped, so it may be a little under 0
    double mean;              // |mu_a - mu_b|^2
    double trace_a, trace_b, cross;
    int64_t rank_a, rank_b;   // of the covariances, to the precision of double
} kd_fid;

/// |mu_a - mu_b|^2 + tr(Ca) + tr(Cb) - 2 tr((Ca Cb)^(1/2)). With Ca = La La', Cb = Lb Lb' the last trace is the nuclear norm of
/// La' Lb, the sum of its singular values: no square root of a product, whose small eigenvalues would be noise, is taken. The
/// factors are pivoted Cholesky ones, cut at the rank, so sets of fewer images than dimensions need no special case, and
/// |FID(x, x)| stays under 1e-6.
/// ridge       added to both diagonals. 0; k-diffusion has 1e-8
/// errors      KD_EUSAGE if d differs; KD_EFORMAT if a covariance is not finite or clearly not positive semidefinite; KD_EFAIL
/// source      Heusel et al. 2017, arXiv:1706.08500; Dowson & Landau 1982
/// peer        clean-fid 0.1.35, pytorch-fid 0.3.0: 1e-6 relative; k-diffusion with its ridge
int kd_fid_of(kd_fid *f, const kd_gauss *a, const kd_gauss *b, double ridge, kd_err *err);

/// Spread of FID: standard deviation over `times` resamplings, with replacement, of the rows of both sets (only of those that are
/// given: a side known by its moments alone, rows NULL, is kept as it is). Row k of resampling t is a function of (seed, t, k).
/// Resampling raises FID itself, so *mean is for information; the deviation is what one wants.
int kd_fid_bootstrap(double *mean, double *deviation, const kd_gauss *a, const kd_matrix *rows_a, const kd_gauss *b,
                     const kd_matrix *rows_b, int64_t times, uint64_t seed, kd_err *err);

/// FID of infinitely many samples: FID(a, subsets of b) for `points` sizes from min(5000, n / 2) to n, fitted as
/// value + slope / n. The reference's own n is not extrapolated, as in the paper. points >= 2
/// errors      KD_EUSAGE for fewer than 20 rows
/// source      Chong & Forsyth 2020, arXiv:1911.07023
int kd_fid_infinite(double *value, double *slope, const kd_gauss *a, const kd_matrix *rows_b, int64_t points, uint64_t seed,
                    kd_err *err);

#endif
