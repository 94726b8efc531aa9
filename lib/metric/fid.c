#include "metric/fid.h"
#include "base/io.h"
#include "base/memory.h"
#include "base/parallel.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/// f f' = the covariance; f is [d, rank], columns together (LAPACK's order).
struct factor { double *f; int64_t d, rank; double trace, kept; int code; kd_err err; const kd_gauss *g; double ridge; };

static int check_finite(const kd_gauss *g, kd_err *err)
{
    double sum = 0;
    for (int64_t i = 0; i < g->d; i++) sum += fabs(g->mu[i]);
    for (int64_t i = 0; i < g->d * g->d; i++) sum += fabs(g->cov[i]);
    return isfinite(sum) ? 0 : kd_fail(err, KD_EFORMAT, "mean or covariance: not all finite numbers");
}

// Unpivots: row piv[i] - 1 of the factor is row i of the triangle in c.
static void unpivot(struct factor *x, const double *c, const lapack_int *piv)
{
    const int64_t d = x->d;
    for (int64_t j = 0; j < x->rank; j++)
        for (int64_t i = 0; i < d; i++) {
            const double v = i < j ? 0 : c[j * d + i];
            x->f[j * d + piv[i] - 1] = v;
            x->kept += v * v;
        }
}

static int factor(struct factor *x, kd_err *err)
{
    const kd_gauss *g = x->g;
    const int64_t d = x->d = g->d;
    const size_t size = (size_t)(d * d) * sizeof(double);
    KD_TRY(check_finite(g, err));
    double *c = kd_alloc(size), *work = kd_alloc((size_t)(2 * d) * sizeof *work);
    lapack_int *piv = kd_alloc((size_t)d * sizeof *piv), rank = 0, info = 0;
    x->f = kd_alloc(size);
    int code = c && work && piv && x->f ? 0 : kd_fail_memory(err, "Frechet distance");
    if (!code) {
        for (int64_t i = 0; i < d; i++)                   // the mean of both triangles: files may differ in last digits
            for (int64_t j = 0; j < d; j++) c[i * d + j] = 0.5 * (g->cov[i * d + j] + g->cov[j * d + i]);
        for (int64_t i = 0; i < d; i++) c[i * d + i] += x->ridge;
        for (int64_t i = 0; i < d; i++) x->trace += c[i * d + i];
        // Ends where the largest diagonal element left is d eps times the first (info is then 1): that is the rank.
        info = LAPACKE_dpstrf_work(LAPACK_COL_MAJOR, 'L', (lapack_int)d, c, (lapack_int)d, piv, &rank, -1, work);
        if (info < 0) code = kd_fail(err, KD_EFAIL, "LAPACK dpstrf: argument %d", (int)-info);
        x->rank = rank;
        if (!code) unpivot(x, c, piv);
        if (!code && !(fabs(x->trace - x->kept) <= 1e-6 * fabs(x->trace)))
            code = kd_fail(err, KD_EFORMAT, "covariance is not positive semidefinite");
    }
    kd_free(c), kd_free(work), kd_free(piv);
    return code;
}

static void factor_tile(void *arg, int64_t tile, int thread)
{
    (void)thread;
    struct factor *x = (struct factor *)arg + tile;
    x->code = factor(x, &x->err);
}

// Sum of the singular values of La' Lb.
static int nuclear(double *sum, const struct factor *a, const struct factor *b, kd_err *err)
{
    const lapack_int m = (lapack_int)a->rank, n = (lapack_int)b->rank, d = (lapack_int)a->d, k = m < n ? m : n;
    *sum = 0;
    if (!k) return 0;
    double *p = kd_alloc((size_t)m * (size_t)n * sizeof *p), *s = kd_alloc((size_t)k * sizeof *s);
    int code = p && s ? 0 : kd_fail_memory(err, "Frechet distance");
    if (!code) {
        cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, m, n, d, 1, a->f, d, b->f, d, 0, p, m);
        const lapack_int info = LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', m, n, p, m, s, NULL, 1, NULL, 1);
        if (info) code = info == LAPACK_WORK_MEMORY_ERROR ? kd_fail_memory(err, "singular values")
                                                          : kd_fail(err, KD_EFAIL, "LAPACK dgesdd: %d", (int)info);
        for (lapack_int i = k; i-- > 0;) *sum += s[i];         // small ones first
    }
    kd_free(p), kd_free(s);
    return code;
}

int kd_fid_of(kd_fid *f, const kd_gauss *a, const kd_gauss *b, double ridge, kd_err *err)
{
    struct factor x[2] = { { .g = a, .ridge = ridge }, { .g = b, .ridge = ridge } };
    if (a->d != b->d)
        return kd_fail(err, KD_EUSAGE, "features of %lld and of %lld dimensions cannot be compared", (long long)a->d, (long long)b->d);
    kd_blas_one_thread();
    kd_parallel(2, factor_tile, x);
    int code = x[0].code ? kd_fail(err, x[0].code, "%s", x[0].err.msg) : x[1].code ? kd_fail(err, x[1].code, "%s", x[1].err.msg) : 0;
    *f = (kd_fid){ .trace_a = x[0].trace, .trace_b = x[1].trace, .rank_a = x[0].rank, .rank_b = x[1].rank };
    if (!code && kd_interrupted()) code = kd_fail_interrupted(err);
    if (!code) code = nuclear(&f->cross, &x[0], &x[1], err);
    for (int64_t i = 0; i < a->d; i++) f->mean += (a->mu[i] - b->mu[i]) * (a->mu[i] - b->mu[i]);
    f->value = f->mean + (f->trace_a - f->cross) + (f->trace_b - f->cross);
    kd_free(x[0].f), kd_free(x[1].f);
    return code;
}
