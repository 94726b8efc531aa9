#include "metric/moments.h"
#include "base/memory.h"
#include "base/parallel.h"
#include <cblas.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { BLOCK = 256, TILE = 256 };                     // rows merged at once; columns of a tile of the covariance

struct kd_moments {
    int64_t n, d;             // rows merged; columns
    int64_t waiting;          // rows in the block
    double *mean, *scatter;   // [d]; [d,d] sum of centred products, lower triangle of tiles
    double *block;            // [BLOCK + 1, d]
};

void kd_blas_one_thread(void) { if (openblas_get_num_threads() != 1) openblas_set_num_threads(1); }

int kd_moments_new(kd_moments **m, int64_t d, kd_err *err)
{
    int64_t square;
    kd_moments *new = kd_alloc(sizeof *new);
    if (!new) return kd_fail_memory(err, "feature moments");
    new->d = d;
    if (kd_mul(d, d, &square) && square < INT64_MAX / 16) {
        new->mean = kd_alloc((size_t)d * sizeof(double));
        new->scatter = kd_alloc((size_t)square * sizeof(double));
        new->block = kd_alloc((size_t)((BLOCK + 1) * d) * sizeof(double));
    }
    if (!new->mean || !new->scatter || !new->block) {
        kd_moments_free(new);
        return kd_fail_memory(err, "feature moments");
    }
    kd_blas_one_thread();
    *m = new;
    return 0;
}

void kd_moments_free(kd_moments *m)
{
    if (!m) return;
    kd_free(m->mean), kd_free(m->scatter), kd_free(m->block);
    kd_free(m);
}

// Tile (i, j) of the lower triangle, counted row by row: scatter += block' block.
struct product { kd_moments *m; int64_t rows; };

static void add_tile(void *arg, int64_t tile, int thread)
{
    (void)thread;
    const struct product *p = arg;
    const int64_t d = p->m->d;
    int64_t i = 0;
    while ((i + 1) * (i + 2) / 2 <= tile) i++;
    const int64_t j = tile - i * (i + 1) / 2, r = i * TILE, c = j * TILE;
    const int64_t h = d - r < TILE ? d - r : TILE, w = d - c < TILE ? d - c : TILE;
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)h, (int)w, (int)p->rows, 1, p->m->block + r, (int)d, p->m->block + c,
                (int)d, 1, p->m->scatter + r * d + c, (int)d);
}

// Merges the block. With b rows of mean mb: mean += (mb - mean) b / (n + b), and the scatter grows by the block's own about mb and
// by (mb - mean)(mb - mean)' n b / (n + b), which is one more row.
static void merge(kd_moments *m)
{
    const int64_t d = m->d, b = m->waiting;
    if (!b) return;
    const double n = (double)m->n, all = (double)(m->n + b);
    double *extra = m->block + b * d;
    for (int64_t c = 0; c < d; c++) {
        double sum = 0;
        for (int64_t r = 0; r < b; r++) sum += m->block[r * d + c];
        const double mean = sum / (double)b;
        for (int64_t r = 0; r < b; r++) m->block[r * d + c] -= mean;
        const double delta = mean - m->mean[c];
        extra[c] = delta * sqrt(n * (double)b / all);
        m->mean[c] += delta * ((double)b / all);
    }
    const int64_t tiles = (d + TILE - 1) / TILE;
    kd_parallel(tiles * (tiles + 1) / 2, add_tile, &(struct product){ m, b + 1 });
    m->n += b;
    m->waiting = 0;
}

static int take(kd_moments *m, const void *rows, int64_t n, bool wide, kd_err *err)
{
    for (int64_t r = 0; r < n; r++) {
        double *to = m->block + m->waiting * m->d;
        for (int64_t c = 0; c < m->d; c++) {
            const double x = wide ? ((const double *)rows)[r * m->d + c] : (double)((const float *)rows)[r * m->d + c];
            if (!isfinite(x))
                return kd_fail(err, KD_EFAIL, "value %lld of feature vector %lld is not a finite number", (long long)c,
                               (long long)(m->n + m->waiting));
            to[c] = x;
        }
        if (++m->waiting == BLOCK) merge(m);
    }
    return 0;
}

int kd_moments_add(kd_moments *m, const float *rows, int64_t n, kd_err *err) { return take(m, rows, n, false, err); }
int kd_moments_add_f64(kd_moments *m, const double *rows, int64_t n, kd_err *err) { return take(m, rows, n, true, err); }

int64_t kd_moments_count(const kd_moments *m) { return m->n + m->waiting; }

int kd_moments_get(kd_moments *m, double *mu, double *cov, kd_err *err)
{
    merge(m);
    if (m->n < 2)
        return kd_fail(err, KD_EUSAGE, "%lld image%s: a covariance takes at least 2", (long long)m->n, m->n == 1 ? "" : "s");
    const int64_t d = m->d;
    const double f = 1 / (double)(m->n - 1);
    memcpy(mu, m->mean, (size_t)d * sizeof *mu);
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j <= i; j++) cov[i * d + j] = cov[j * d + i] = m->scatter[i * d + j] * f;
    return 0;
}

int kd_moments_of(const kd_matrix *rows, double *mu, double *cov, kd_err *err)
{
    kd_moments *m = NULL;
    int code = kd_moments_new(&m, rows->d, err);
    for (int64_t i = 0; !code && i < rows->n; i++) code = kd_moments_add(m, kd_row(rows, i), 1, err);
    if (!code) code = kd_moments_get(m, mu, cov, err);
    kd_moments_free(m);
    return code;
}
