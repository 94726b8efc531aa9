#include "metric/kid.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include <cblas.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { TILE = 256 };

/// Sums of k over the pairs of two matrices, a tile of TILE x TILE pairs at a time. `same`: y is x, so only tiles on and under the
/// diagonal are computed, and pairs i = j are left out.
struct pairs { const float *x, *y; int64_t nx, ny, d, across; bool same; double *part; float *gram; };

static double cube(double x) { return x * x * x; }

static void sum_tile(void *arg, int64_t tile, int thread)
{
    const struct pairs *p = arg;
    const int64_t i0 = tile / p->across * TILE, j0 = tile % p->across * TILE, d = p->d;
    const int64_t h = p->nx - i0 < TILE ? p->nx - i0 : TILE, w = p->ny - j0 < TILE ? p->ny - j0 : TILE;
    double sum = 0;
    float *gram = p->gram + (int64_t)thread * TILE * TILE;
    p->part[tile] = 0;
    if (p->same && j0 > i0) return;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)h, (int)w, (int)d, 1, p->x + i0 * d, (int)d, p->y + j0 * d, (int)d, 0,
                gram, TILE);
    for (int64_t i = 0; i < h; i++) {
        double row = 0;
        for (int64_t j = 0; j < w; j++)
            if (!p->same || i0 + i != j0 + j) row += cube((double)gram[i * TILE + j] / (double)d + 1);
        sum += row;
    }
    p->part[tile] = p->same && i0 != j0 ? 2 * sum : sum;
}

static int sum_pairs(double *sum, const float *x, int64_t nx, const float *y, int64_t ny, int64_t d, kd_err *err)
{
    struct pairs p = { .x = x, .y = y, .nx = nx, .ny = ny, .d = d, .same = x == y };
    const int64_t down = (nx + TILE - 1) / TILE;
    p.across = (ny + TILE - 1) / TILE;
    p.part = kd_alloc((size_t)(down * p.across) * sizeof *p.part);
    p.gram = kd_alloc((size_t)kd_threads() * TILE * TILE * sizeof *p.gram);
    const int code = p.part && p.gram ? 0 : kd_fail_memory(err, "kernel distance");
    if (!code) {
        kd_parallel(down * p.across, sum_tile, &p);
        *sum = kd_tree_sum(p.part, down * p.across);
    }
    kd_free(p.part), kd_free(p.gram);
    return code;
}

// A copy with rows together.
static float *gather(const kd_matrix *r, kd_err *err)
{
    float *to = kd_alloc((size_t)(r->n * r->d) * sizeof *to);
    for (int64_t i = 0; to && i < r->n; i++) memcpy(to + i * r->d, kd_row(r, i), (size_t)r->d * sizeof *to);
    if (!to) kd_fail_memory(err, "kernel distance");
    return to;
}

int kd_kid_of(double *kid, const kd_matrix *x, const kd_matrix *y, kd_err *err)
{
    const double nx = (double)x->n, ny = (double)y->n;
    double xx = 0, yy = 0, xy = 0;
    if (x->d != y->d)
        return kd_fail(err, KD_EUSAGE, "features of %lld and of %lld dimensions cannot be compared", (long long)x->d, (long long)y->d);
    if (x->n < 2 || y->n < 2)
        return kd_fail(err, KD_EUSAGE, "a kernel distance of %lld and %lld images: each part takes at least 2", (long long)x->n,
                       (long long)y->n);
    kd_blas_one_thread();
    float *a = gather(x, err), *b = a ? gather(y, err) : NULL;
    int code = a && b ? 0 : err->code;
    if (!code) code = sum_pairs(&xx, a, x->n, a, x->n, x->d, err);
    if (!code) code = sum_pairs(&yy, b, y->n, b, y->n, x->d, err);
    if (!code) code = sum_pairs(&xy, a, x->n, b, y->n, x->d, err);
    if (!code) *kid = xx / (nx * (nx - 1)) + yy / (ny * (ny - 1)) - 2 * xy / (nx * ny);
    kd_free(a), kd_free(b);
    return code;
}

static int64_t parts(int64_t n, int64_t most) { return (n + most - 1) / most; }

// i n / p to the nearest whole number, halves to even (Python's round of the quotient, exact in integers).
static int64_t cut(int64_t i, int64_t n, int64_t p)
{
    const int64_t whole = i * n / p, twice = 2 * (i * n % p);
    return whole + (twice > p || (twice == p && whole % 2));
}

static kd_matrix part_of(const kd_matrix *r, int64_t i, int64_t p)
{
    const int64_t from = cut(i, r->n, p), to = cut(i + 1, r->n, p);
    return r->at ? (kd_matrix){ r->x, to - from, r->d, r->at + from } : (kd_matrix){ r->x + from * r->d, to - from, r->d, NULL };
}

int kd_kid_partitions(double *kid, const kd_matrix *x, const kd_matrix *y, int64_t most, kd_err *err)
{
    const int64_t px = parts(x->n, most), py = parts(y->n, most), p = px > py ? px : py;
    double sum = 0;
    for (int64_t i = 0; i < p; i++) {
        const kd_matrix a = part_of(x, i, p), b = part_of(y, i, p);
        double k;
        KD_TRY(kd_kid_of(&k, &a, &b, err));
        sum += k;
    }
    *kid = sum / (double)p;
    return 0;
}

static void draw(int64_t *at, const kd_matrix *r, int64_t size, uint64_t seed, uint64_t number)
{
    for (int64_t i = 0; i < size; i++) {
        const int64_t k = (int64_t)kd_permute(seed, number, (uint64_t)r->n, (uint64_t)i);
        at[i] = r->at ? r->at[k] : k;
    }
}

int kd_kid_subsets(double *kid, double *deviation, const kd_matrix *x, const kd_matrix *y, int64_t times, int64_t *size, uint64_t seed,
                   kd_err *err)
{
    if (*size > x->n) *size = x->n;
    if (*size > y->n) *size = y->n;
    if (*size == x->n && *size == y->n) {
        *deviation = NAN;
        return kd_kid_of(kid, x, y, err);
    }
    int64_t *at = kd_alloc((size_t)(2 * *size + 1) * sizeof *at), *bt = at ? at + *size : NULL;
    double *value = kd_alloc((size_t)times * sizeof *value), sum = 0, square = 0;
    int code = at && value ? 0 : kd_fail_memory(err, "kernel distance");
    for (int64_t t = 0; !code && t < times; t++) {
        draw(at, x, *size, seed, 2 * (uint64_t)t);
        draw(bt, y, *size, seed, 2 * (uint64_t)t + 1);
        code = kd_kid_of(&value[t], &(kd_matrix){ x->x, *size, x->d, at }, &(kd_matrix){ y->x, *size, y->d, bt }, err);
        if (!code) sum += value[t];
    }
    *kid = sum / (double)times;
    for (int64_t t = 0; !code && t < times; t++) square += pow(value[t] - *kid, 2);
    *deviation = times > 1 ? sqrt(square / (double)times) : NAN;       // numpy's std
    kd_free(at), kd_free(value);
    return code;
}
