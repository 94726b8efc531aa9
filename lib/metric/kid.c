// Sums of the kernel over pairs of rows. A block of rows of one set meets blocks of the other's; their products are computed once, in
// double, and each subset adds up those of its own rows: where subsets overlap much, the products are shared.
#include "metric/kid.h"
#include "base/io.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include <cblas.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

enum { DOWN = 64, ACROSS = 256 };          // rows of x and rows of y in a tile

/// Rows of a set that subsets have: subset s has `size` of them, list[s * size ..], ascending.
struct chosen { const kd_matrix *rows; const int64_t *list; int64_t size; };

/// Sums over pairs (i of x's, j of y's) for each subset. same: y is x; pairs j < i alone, as the kernel is symmetric.
struct pairs {
    struct chosen x, y;
    int64_t subsets, blocks;
    bool same;
    double *part;                          // [subsets, blocks of x]
    double *scratch;                       // a thread's: rows of x, rows of y, their products
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t scratch_doubles(int64_t d) { return (DOWN + ACROSS) * d + DOWN * ACROSS; }

static void widen(double *to, const kd_matrix *r, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float *row = kd_row(r, first + i);
        for (int64_t c = 0; c < r->d; c++) to[i * r->d + c] = row[c];
    }
}

// The first place in subset s of a row not before `row`.
static int64_t place_of(const struct chosen *c, int64_t s, int64_t row)
{
    const int64_t *list = c->list + s * c->size;
    int64_t low = 0, high = c->size;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (list[middle] < row) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Subset s's part of a tile k that begins at (i0, j0) and is h rows high, w wide.
static double subset_sum(const struct pairs *p, const double *k, int64_t s, int64_t i0, int64_t h, int64_t j0, int64_t w)
{
    const int64_t *in_x = p->x.list + s * p->x.size, *in_y = p->y.list + s * p->y.size;
    const int64_t i1 = place_of(&p->x, s, i0 + h), from = place_of(&p->y, s, j0), to = place_of(&p->y, s, j0 + w);
    double sum = 0;
    for (int64_t i = place_of(&p->x, s, i0); i < i1; i++) {
        const double *row = k + (in_x[i] - i0) * ACROSS;
        double line = 0;
        for (int64_t j = from; j < to && !(p->same && in_y[j] >= in_x[i]); j++) line += row[in_y[j] - j0];
        sum += line;
    }
    return sum;
}

static void sum_block(void *arg, int64_t unit, int thread)
{
    const struct pairs *p = arg;
    const kd_matrix *x = p->x.rows, *y = p->y.rows;
    const int64_t d = x->d, block = p->blocks - 1 - unit, i0 = block * DOWN, h = least(DOWN, x->n - i0);    // the longest first
    const int64_t end = p->same ? i0 + h : y->n;
    double *a = p->scratch + thread * scratch_doubles(d), *b = a + DOWN * d, *k = b + ACROSS * d;
    widen(a, x, i0, h);
    for (int64_t j0 = 0; j0 < end; j0 += ACROSS) {
        const int64_t w = least(ACROSS, end - j0);
        if (kd_interrupted()) return;                      // sum_pairs says so
        widen(b, y, j0, w);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)h, (int)w, (int)d, 1 / (double)d, a, (int)d, b, (int)d, 0, k, ACROSS);
        for (int64_t i = 0; i < h; i++)
            for (int64_t j = 0; j < w; j++) {
                const double t = k[i * ACROSS + j] + 1;
                k[i * ACROSS + j] = t * t * t;
            }
        for (int64_t s = 0; s < p->subsets; s++) p->part[s * p->blocks + block] += subset_sum(p, k, s, i0, h, j0, w);
    }
}

static int sum_pairs(double *sum, struct chosen x, struct chosen y, int64_t subsets, kd_err *err)
{
    struct pairs p = { .x = x, .y = y, .subsets = subsets, .blocks = (x.rows->n + DOWN - 1) / DOWN, .same = x.list == y.list };
    p.part = kd_alloc((size_t)(subsets * p.blocks) * sizeof *p.part);
    p.scratch = kd_alloc((size_t)(kd_threads() * scratch_doubles(x.rows->d)) * sizeof *p.scratch);
    int code = p.part && p.scratch ? 0 : kd_fail_memory(err, "kernel distance");
    if (!code) {
        kd_parallel(p.blocks, sum_block, &p);
        if (kd_interrupted()) code = kd_fail_interrupted(err);
        for (int64_t s = 0; s < subsets; s++) sum[s] = kd_tree_sum(p.part + s * p.blocks, p.blocks) * (p.same ? 2 : 1);
    }
    kd_free(p.part), kd_free(p.scratch);
    return code;
}

// The estimate for each of the subsets of the same sizes. The lists of x and y are not the same memory.
static int estimate(double *kid, struct chosen x, struct chosen y, int64_t subsets, kd_err *err)
{
    const double nx = (double)x.size, ny = (double)y.size;
    double *sum = kd_alloc((size_t)(3 * subsets) * sizeof *sum), *xx = sum, *yy = xx + subsets, *xy = yy + subsets;
    int code = sum ? 0 : kd_fail_memory(err, "kernel distance");
    if (!code) code = sum_pairs(xx, x, x, subsets, err);
    if (!code) code = sum_pairs(yy, y, y, subsets, err);
    if (!code) code = sum_pairs(xy, x, y, subsets, err);
    for (int64_t s = 0; !code && s < subsets; s++) kid[s] = xx[s] / (nx * (nx - 1)) + yy[s] / (ny * (ny - 1)) - 2 * xy[s] / (nx * ny);
    kd_free(sum);
    return code;
}

static int check(const kd_matrix *x, const kd_matrix *y, kd_err *err)
{
    kd_blas_one_thread();
    if (x->d != y->d)
        return kd_fail(err, KD_EUSAGE, "features of %lld and of %lld dimensions cannot be compared", (long long)x->d, (long long)y->d);
    if (x->n < 2 || y->n < 2)
        return kd_fail(err, KD_EUSAGE, "a kernel distance of %lld and %lld images: each part takes at least 2", (long long)x->n,
                       (long long)y->n);
    return 0;
}

// All rows of both: one subset.
int kd_kid_of(double *kid, const kd_matrix *x, const kd_matrix *y, kd_err *err)
{
    KD_TRY(check(x, y, err));
    int64_t *all = kd_alloc((size_t)(x->n + y->n) * sizeof *all);
    if (!all) return kd_fail_memory(err, "kernel distance");
    for (int64_t i = 0; i < x->n + y->n; i++) all[i] = i < x->n ? i : i - x->n;
    const int code = estimate(kid, (struct chosen){ x, all, x->n }, (struct chosen){ y, all + x->n, y->n }, 1, err);
    kd_free(all);
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

static int ascending(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static void draw(int64_t *list, int64_t n, int64_t size, uint64_t seed, uint64_t number)
{
    for (int64_t i = 0; i < size; i++) list[i] = (int64_t)kd_permute(seed, number, (uint64_t)n, (uint64_t)i);
    qsort(list, (size_t)size, sizeof *list, ascending);
}

/// Subsets that are drawn and worked on at once: how many, their lists.
struct batch { int64_t most; int64_t *x, *y, *at; };

// Each subset by itself: for sets so large that all their pairs are more than the subsets'.
static int estimate_apart(double *kid, const kd_matrix *x, const kd_matrix *y, const struct batch *b, int64_t subsets, int64_t size,
                          kd_err *err)
{
    for (int64_t s = 0; s < subsets; s++) {
        for (int64_t i = 0; i < size; i++) {
            const int64_t k = b->x[s * size + i], l = b->y[s * size + i];
            b->at[i] = x->at ? x->at[k] : k, b->at[size + i] = y->at ? y->at[l] : l;
        }
        const kd_matrix part_x = { x->x, size, x->d, b->at }, part_y = { y->x, size, y->d, b->at + size };
        KD_TRY(kd_kid_of(&kid[s], &part_x, &part_y, err));
    }
    return 0;
}

static int all_subsets(double *value, const kd_matrix *x, const kd_matrix *y, int64_t times, int64_t size, uint64_t seed,
                       const struct batch *b, kd_err *err)
{
    const double all = pow((double)(x->n + y->n), 2), one = pow(2 * (double)size, 2);          // pairs, but for a factor
    for (int64_t t = 0; t < times; t += b->most) {
        const int64_t subsets = least(b->most, times - t);
        for (int64_t s = 0; s < subsets; s++) {
            if (kd_interrupted()) return kd_fail_interrupted(err);
            draw(b->x + s * size, x->n, size, seed, 2 * (uint64_t)(t + s));
            draw(b->y + s * size, y->n, size, seed, 2 * (uint64_t)(t + s) + 1);
        }
        if (all < one * (double)subsets)
            KD_TRY(estimate(value + t, (struct chosen){ x, b->x, size }, (struct chosen){ y, b->y, size }, subsets, err));
        else KD_TRY(estimate_apart(value + t, x, y, b, subsets, size, err));
    }
    return 0;
}

int kd_kid_subsets(double *kid, double *deviation, const kd_matrix *x, const kd_matrix *y, int64_t times, int64_t *size, uint64_t seed,
                   kd_err *err)
{
    KD_TRY(check(x, y, err));
    *size = least(*size, least(x->n, y->n));
    if (*size == x->n && *size == y->n) {
        *deviation = NAN;
        return kd_kid_of(kid, x, y, err);
    }
    struct batch b = { .most = least(times, (1 << 18) / *size + 1) };        // lists of some 2 MB
    b.x = kd_alloc((size_t)(b.most * *size) * sizeof *b.x), b.y = kd_alloc((size_t)(b.most * *size) * sizeof *b.y);
    b.at = kd_alloc((size_t)(2 * *size) * sizeof *b.at);
    double *value = kd_alloc((size_t)times * sizeof *value), sum = 0, square = 0;
    int code = b.x && b.y && b.at && value ? 0 : kd_fail_memory(err, "kernel distance");
    if (!code) code = all_subsets(value, x, y, times, *size, seed, &b, err);
    for (int64_t t = 0; !code && t < times; t++) sum += value[t];
    *kid = sum / (double)times;
    for (int64_t t = 0; !code && t < times; t++) square += pow(value[t] - *kid, 2);
    *deviation = times > 1 ? sqrt(square / (double)times) : NAN;       // numpy's std
    kd_free(b.x), kd_free(b.y), kd_free(b.at), kd_free(value);
    return code;
}
