// How sure a FID is: resampling, and the fit to infinitely many samples.
#include "base/io.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include "metric/fid.h"
#include <math.h>
#include <stddef.h>

/// Room for the moments of one resampling.
struct resampled { double *mu, *cov; int64_t *at; };

static int resampled_new(struct resampled *r, const kd_matrix *rows, kd_err *err)
{
    const size_t d = (size_t)rows->d;
    r->mu = kd_alloc(d * sizeof(double));
    r->cov = kd_alloc(d * d * sizeof(double));
    r->at = kd_alloc((size_t)rows->n * sizeof *r->at);
    return r->mu && r->cov && r->at ? 0 : kd_fail_memory(err, "resampling");
}

static void resampled_free(struct resampled *r) { kd_free(r->mu), kd_free(r->cov), kd_free(r->at); }

static int64_t place(const kd_matrix *rows, int64_t i) { return rows->at ? rows->at[i] : i; }

// n rows of r->at into moments.
static int moments(kd_gauss *g, struct resampled *r, const kd_matrix *rows, int64_t n, kd_err *err)
{
    KD_TRY(kd_moments_of(&(kd_matrix){ rows->x, n, rows->d, r->at }, r->mu, r->cov, err));
    *g = (kd_gauss){ n, rows->d, r->mu, r->cov };
    return 0;
}

static int resample(kd_gauss *g, struct resampled *r, const kd_matrix *rows, uint64_t seed, int side, int64_t time, kd_err *err)
{
    const kd_rng rng = kd_rng_of(seed, KD_RNG_METRIC, (uint32_t)side, (uint64_t)time, 0);
    for (int64_t i = 0; i < rows->n; i++) {
        const uint64_t u = kd_rng_u32(&rng, (uint64_t)i);
        r->at[i] = place(rows, (int64_t)((u * (uint64_t)rows->n) >> 32));
    }
    return moments(g, r, rows, rows->n, err);
}

// One resampling a tile.
struct bootstrap { const kd_gauss *g[2]; const kd_matrix *rows[2]; uint64_t seed; double *value; kd_err *err; };

static void resample_tile(void *arg, int64_t t, int thread)
{
    (void)thread;
    const struct bootstrap *b = arg;
    struct resampled r[2] = {{0}};
    kd_gauss g[2] = { *b->g[0], *b->g[1] };
    kd_fid f = {0};
    kd_err *err = &b->err[t];
    int code = kd_interrupted() ? kd_fail_interrupted(err) : 0;
    for (int side = 0; !code && side < 2; side++) {
        if (!b->rows[side]) continue;
        code = resampled_new(&r[side], b->rows[side], err);
        if (!code) code = resample(&g[side], &r[side], b->rows[side], b->seed, side, t, err);
    }
    if (!code) code = kd_fid_of(&f, &g[0], &g[1], 0, err);
    b->value[t] = f.value;
    resampled_free(&r[0]), resampled_free(&r[1]);
}

int kd_fid_bootstrap(double *mean, double *deviation, const kd_gauss *a, const kd_matrix *rows_a, const kd_gauss *b,
                     const kd_matrix *rows_b, int64_t times, uint64_t seed, kd_err *err)
{
    double *value = kd_alloc((size_t)times * sizeof *value);
    kd_err *each = kd_alloc((size_t)times * sizeof *each);
    int code = value && each ? 0 : kd_fail_memory(err, "resampling");
    if (!code) kd_parallel(times, resample_tile, &(struct bootstrap){ { a, b }, { rows_a, rows_b }, seed, value, each });
    double sum = 0, square = 0;
    for (int64_t t = 0; !code && t < times; t++) {
        if (each[t].code) code = kd_fail(err, each[t].code, "%s", each[t].msg);
        sum += value[t];
    }
    for (int64_t t = 0; !code && t < times; t++) square += pow(value[t] - sum / (double)times, 2);
    *mean = sum / (double)times;
    *deviation = sqrt(square / (double)(times > 1 ? times - 1 : 1));
    kd_free(value), kd_free(each);
    return code;
}

// Least squares of y = value + slope x.
static void fit(const double *x, const double *y, int64_t n, double *value, double *slope)
{
    double mx = 0, my = 0, xx = 0, xy = 0;
    for (int64_t i = 0; i < n; i++) mx += x[i] / (double)n, my += y[i] / (double)n;
    for (int64_t i = 0; i < n; i++) xx += (x[i] - mx) * (x[i] - mx), xy += (x[i] - mx) * (y[i] - my);
    *slope = xy / xx;
    *value = my - *slope * mx;
}

int kd_fid_infinite(double *value, double *slope, const kd_gauss *a, const kd_matrix *rows_b, int64_t points, uint64_t seed,
                    kd_err *err)
{
    const int64_t n = rows_b->n, least = n / 2 < 5000 ? n / 2 : 5000;
    if (n < 20) return kd_fail(err, KD_EUSAGE, "%lld images: FID extrapolated to infinitely many takes at least 20", (long long)n);
    struct resampled r = {0};
    double *x = kd_alloc((size_t)points * sizeof *x), *y = kd_alloc((size_t)points * sizeof *y);
    int code = x && y ? resampled_new(&r, rows_b, err) : kd_fail_memory(err, "resampling");
    for (int64_t p = 0; !code && p < points; p++) {
        const int64_t m = least + (n - least) * p / (points - 1);
        kd_gauss g;
        kd_fid f;
        for (int64_t i = 0; i < m; i++) r.at[i] = place(rows_b, (int64_t)kd_permute(seed, (uint64_t)p, (uint64_t)n, (uint64_t)i));
        code = moments(&g, &r, rows_b, m, err);
        if (!code) code = kd_fid_of(&f, a, &g, 0, err);
        if (!code) x[p] = 1 / (double)m, y[p] = f.value;
    }
    if (!code) fit(x, y, points, value, slope);
    resampled_free(&r);
    kd_free(x), kd_free(y);
    return code;
}
