#include "metric/neighbours.h"
#include "base/io.h"
#include "base/memory.h"
#include "base/parallel.h"
#include <cblas.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { TILE = 128, MAX_K = 256 };

/// A set in double about a common centre (which costs products no digits), with squared lengths.
struct set { double *x, *square, *radius; int64_t n, d; };

static void set_free(struct set *s) { kd_free(s->x), kd_free(s->square), kd_free(s->radius); }

static int set_new(struct set *s, const kd_matrix *r, const double *centre, kd_err *err)
{
    s->n = r->n, s->d = r->d;
    s->x = kd_alloc((size_t)(r->n * r->d) * sizeof *s->x);
    s->square = kd_alloc((size_t)r->n * sizeof *s->square);
    s->radius = kd_alloc((size_t)r->n * sizeof *s->radius);
    if (!s->x || !s->square || !s->radius) return kd_fail_memory(err, "distances");
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t c = 0; c < r->d; c++) {
            const double v = (double)kd_row(r, i)[c] - centre[c];
            s->x[i * r->d + c] = v;
            s->square[i] += v * v;
        }
    return 0;
}

/// What becomes of the squared distances of rows i0.. of `from` (h of them) and j0.. of `to` (w of them).
struct walk;
typedef void (*take_fn)(struct walk *w, int64_t i, int64_t j, double square, double slack);
struct walk {
    const struct set *from, *to;
    int64_t k;
    take_fn take;
    double *tile, *nearest;   // scratch of a thread: [threads, TILE * TILE]; [threads, TILE * k]
    double *heap;             // the nearest lists of the tile at work
    int64_t i0;
    bool *inside, *holds; int64_t *balls;       // [from->n]
};

// How far two computations of one squared distance may lie apart: a product's last bits depend on its place in the call, and a row
// on the edge of a ball, often an equal of the row that the ball reaches to, must be in it every time. a, b: squared lengths
static double slack_of(double a, double b) { return 2e-13 * (a + b); }

// Rows that are alike must be at distance 0, whatever the rounding.
static double distance(double a, double b, double product)
{
    const double square = a + b - 2 * product;
    return square < slack_of(a, b) ? 0 : square;
}

static void walk_tile(void *arg, int64_t tile, int thread)
{
    struct walk w = *(struct walk *)arg;
    const int64_t d = w.from->d, i0 = w.i0 = tile * TILE, h = w.from->n - i0 < TILE ? w.from->n - i0 : TILE;
    double *product = w.tile + (int64_t)thread * TILE * TILE;
    w.heap = w.nearest + (int64_t)thread * TILE * w.k;
    for (int64_t i = 0; i < TILE * w.k; i++) w.heap[i] = INFINITY;
    for (int64_t j0 = 0; j0 < w.to->n; j0 += TILE) {
        const int64_t n = w.to->n - j0 < TILE ? w.to->n - j0 : TILE;
        if (kd_interrupted()) return;                      // compare says so
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)h, (int)n, (int)d, 1, w.from->x + i0 * d, (int)d, w.to->x + j0 * d,
                    (int)d, 0, product, TILE);
        for (int64_t i = 0; i < h; i++)
            for (int64_t j = 0; j < n; j++) {
                const double a = w.from->square[i0 + i], b = w.to->square[j0 + j];
                w.take(&w, i0 + i, j0 + j, distance(a, b, product[i * TILE + j]), slack_of(a, b));
            }
    }
    if (w.from == w.to)
        for (int64_t i = 0; i < h; i++) w.from->radius[i0 + i] = w.heap[i * w.k + w.k - 1];
}

// Keeps the k smallest in order.
static void take_nearest(struct walk *w, int64_t i, int64_t j, double square, double slack)
{
    (void)slack;
    double *list = w->heap + (i - w->i0) * w->k;
    int64_t at = w->k - 1;
    if (i == j || square >= list[at]) return;
    for (; at > 0 && list[at - 1] > square; at--) list[at] = list[at - 1];
    list[at] = square;
}

// Balls are closed.
static void take_balls(struct walk *w, int64_t i, int64_t j, double square, double slack)
{
    if (square <= w->to->radius[j] + slack) w->inside[i] = true, w->balls[i]++;
    if (square <= w->from->radius[i] + slack) w->holds[i] = true;
}

static void walk(struct walk *w, const struct set *from, const struct set *to, take_fn take)
{
    w->from = from, w->to = to, w->take = take;
    kd_parallel((from->n + TILE - 1) / TILE, walk_tile, w);
}

static double share(const bool *b, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += b[i];
    return (double)count / (double)n;
}

static int compare(kd_coverage *c, const struct set *x, const struct set *y, int64_t k, kd_err *err)
{
    const size_t most = (size_t)(x->n > y->n ? x->n : y->n), threads = (size_t)kd_threads();
    struct walk w = { .k = k, .inside = kd_alloc(most), .holds = kd_alloc(most), .balls = kd_alloc(most * sizeof *w.balls),
                      .tile = kd_alloc(threads * TILE * TILE * sizeof(double)),
                      .nearest = kd_alloc(threads * TILE * (size_t)k * sizeof(double)) };
    int code = w.inside && w.holds && w.balls && w.tile && w.nearest ? 0 : kd_fail_memory(err, "distances");
    if (!code) {
        walk(&w, x, x, take_nearest);
        walk(&w, y, y, take_nearest);
        walk(&w, x, y, take_balls);
        c->recall = share(w.inside, x->n);
        c->coverage = share(w.holds, x->n);
        memset(w.inside, 0, most), memset(w.holds, 0, most), memset(w.balls, 0, most * sizeof *w.balls);
        walk(&w, y, x, take_balls);
        c->precision = share(w.inside, y->n);
        int64_t balls = 0;
        for (int64_t i = 0; i < y->n; i++) balls += w.balls[i];
        c->density = (double)balls / (double)(k * y->n);
    }
    if (!code && kd_interrupted()) code = kd_fail_interrupted(err);
    kd_free(w.inside), kd_free(w.holds), kd_free(w.balls), kd_free(w.tile), kd_free(w.nearest);
    return code;
}

int kd_coverage_of(kd_coverage *c, const kd_matrix *reference, const kd_matrix *samples, int64_t k, kd_err *err)
{
    const int64_t least = reference->n < samples->n ? reference->n : samples->n, d = reference->d;
    if (d != samples->d)
        return kd_fail(err, KD_EUSAGE, "features of %lld and of %lld dimensions cannot be compared", (long long)d, (long long)samples->d);
    if (least <= k || k > MAX_K)
        return kd_fail(err, KD_EUSAGE, "%lld images: with %lld neighbours expected at least %lld", (long long)least, (long long)k,
                       (long long)k + 1);
    kd_blas_one_thread();
    struct set x = {0}, y = {0};
    double *centre = kd_alloc((size_t)d * sizeof *centre);
    int code = centre ? 0 : kd_fail_memory(err, "distances");
    for (int64_t i = 0; !code && i < reference->n; i++)
        for (int64_t j = 0; j < d; j++) centre[j] += (double)kd_row(reference, i)[j] / (double)reference->n;
    if (!code) code = set_new(&x, reference, centre, err);
    if (!code) code = set_new(&y, samples, centre, err);
    if (!code) code = compare(c, &x, &y, k, err);
    set_free(&x), set_free(&y), kd_free(centre);
    return code;
}

// p of a row.
static void softmax(double *p, const float *x, int64_t n)
{
    double most = x[0], sum = 0;
    for (int64_t i = 1; i < n; i++) most = fmax(most, (double)x[i]);
    for (int64_t i = 0; i < n; i++) sum += p[i] = exp((double)x[i] - most);
    for (int64_t i = 0; i < n; i++) p[i] /= sum;
}

// KL(p | m) = sum p ln p - sum p ln m; over rows the second sum is that of the mean m with itself.
static double split_score(const kd_matrix *r, int64_t from, int64_t to, double *p, double *m)
{
    double inner = 0, outer = 0;
    memset(m, 0, (size_t)r->d * sizeof *m);
    for (int64_t i = from; i < to; i++) {
        softmax(p, kd_row(r, i), r->d);
        for (int64_t c = 0; c < r->d; c++) {
            m[c] += p[c] / (double)(to - from);
            if (p[c] > 0) inner += p[c] * log(p[c]) / (double)(to - from);
        }
    }
    for (int64_t c = 0; c < r->d; c++)
        if (m[c] > 0) outer += m[c] * log(m[c]);
    return exp(inner - outer);
}

int kd_inception_score(double *score, double *deviation, const kd_matrix *logits, int64_t splits, kd_err *err)
{
    if (logits->n < splits)
        return kd_fail(err, KD_EUSAGE, "%lld images: an Inception Score over %lld splits takes at least as many",
                       (long long)logits->n, (long long)splits);
    double *p = kd_alloc((size_t)(2 * logits->d) * sizeof *p), sum = 0, square = 0;
    if (!p) return kd_fail_memory(err, "Inception Score");
    for (int64_t s = 0; s < splits; s++) {
        const double v = split_score(logits, s * logits->n / splits, (s + 1) * logits->n / splits, p, p + logits->d);
        sum += v, square += v * v;
    }
    *score = sum / (double)splits;
    *deviation = sqrt(fmax(square / (double)splits - *score * *score, 0));
    kd_free(p);
    return 0;
}
