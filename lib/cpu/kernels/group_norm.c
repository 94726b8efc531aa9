// Group norm with its affine parts and nonlinearity, and the gradient.    op: lib/op/group_norm.c
// Forward reads x three times (mean, centred squares, result) and the gradient reads x and dy twice; a tile's part of an image
// is meant to lie in the cache by then. A tile is an image and some whole groups, at least CHANNELS channels where there are so
// many. Sums over pixels: by channel, BLOCK rows in float, blocks in double; then over a group's channels in order.
#include "cpu/kernels/act.h"
#include "cpu/kernels/rows.h"

enum { CHANNELS = 32, BLOCK = 16, KEPT = 1 << 16 };    // KEPT: floats of g that a thread may keep between its two passes

typedef struct job {
    int64_t images, rows, c, groups, size; // rows (pixels) an image; size channels a group
    int64_t tiles, per;                    // tiles an image, groups of a tile
    bool grad;
    kd_act act;
    double eps;
    const float *x, *w, *b, *ada, *stats_in, *dy, *acc;
    float *y, *stats, *dx, *dw, *db, *dada;
    float *scratch;                        // a thread's: see lines
    double *p, *q;                         // gradient: [images, c] each
} job;

/// A thread's lines, one float or double a channel of the tile.
/// z: for g, one line, or (if kept) one for each row.
typedef struct lines { double *sum, *more; float *mean, *scale, *shift, *a, *part, *part2, *z; } lines;

static int64_t width_of(const job *j) { return j->per * j->size; }
static bool keeps(const job *j) { return j->grad && j->act != KD_ACT_NONE && j->rows * width_of(j) <= KEPT; }
static int64_t line_bytes(const job *j) { return (width_of(j) * (2 * 8 + (keeps(j) ? 6 + j->rows : 7) * 4) + 63) / 64 * 64; }

static lines lines_of(const job *j, int thread)
{
    const int64_t n = width_of(j);
    lines l;
    l.sum = (double *)(void *)((char *)j->scratch + thread * line_bytes(j));
    l.more = l.sum + n;
    l.mean = (float *)(void *)(l.more + n);
    l.scale = l.mean + n, l.shift = l.scale + n, l.a = l.shift + n, l.part = l.a + n, l.part2 = l.part + n, l.z = l.part2 + n;
    return l;
}

static job job_of(const kd_node *n)
{
    const kd_val *x = n->in[0];
    job j = { .grad = n->op == KD_OP_group_norm_grad, .images = images_of(x), .c = kd_last(x),
              .groups = n->a.group_norm.groups, .act = n->a.group_norm.act, .eps = n->a.group_norm.eps,
              .x = x->data, .w = data_of(n->in[1]), .b = data_of(n->in[2]), .ada = data_of(n->in[3]) };
    j.rows = j.images ? kd_rows(x) / j.images : 0;
    j.size = j.c / j.groups;
    j.per = ceil_div(CHANNELS, j.size) < j.groups ? ceil_div(CHANNELS, j.size) : j.groups;
    j.tiles = ceil_div(j.groups, j.per);
    return j;
}

/// What a tile covers: groups first to end of an image; channels c0 to c0 + n.
typedef struct area { int64_t image, first, end, c0, n, at; } area;

static area area_of(const job *j, int64_t t)
{
    const span s = span_of(t, j->groups, j->per);
    return (area){ s.image, s.first, s.end, s.first * j->size, (s.end - s.first) * j->size, s.image * j->rows * j->c + s.first * j->size };
}

// Sums over pixels -----------------------------------------------------------------------------------------------------

static void add_row(float *part, const float *x, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) part[i] += x[i];
}

static void add_square(float *part, const float *x, const float *mean, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) part[i] += (x[i] - mean[i]) * (x[i] - mean[i]);
}

static void add_double(double *sum, float *part, int64_t n)                   // and empties the part
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) sum[i] += (double)part[i], part[i] = 0;
}

/// sum = for each channel the sum of x, or of (x - mean)^2.
static void sum_pixels(const job *j, const area *p, const lines *l, bool squares)
{
    memset(l->sum, 0, (size_t)p->n * sizeof *l->sum);
    memset(l->part, 0, (size_t)p->n * sizeof *l->part);
    for (int64_t r = 0; r < j->rows; r++) {
        const float *x = j->x + p->at + r * j->c;
        if (squares) add_square(l->part, x, l->mean, p->n);
        else add_row(l->part, x, p->n);
        if (r % BLOCK == BLOCK - 1 || r == j->rows - 1) add_double(l->sum, l->part, p->n);
    }
}

static double sum_group(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

/// S in a and B in shift, for the tile's channels. (B - mean S would save a subtraction an element, and lose what x - mean keeps
/// where the mean is large against the deviation.)
static void affine(const job *j, const area *p, const lines *l)
{
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t c = p->c0 + i;
        const float one = j->ada ? 1 + j->ada[p->image * 2 * j->c + c] : 1;
        l->a[i] = (j->w ? j->w[c] : 1) * one;
        l->shift[i] = (j->b ? j->b[c] * one : 0) + (j->ada ? j->ada[p->image * 2 * j->c + j->c + c] : 0);
    }
}

// Forward --------------------------------------------------------------------------------------------------------------

static void statistics(const job *j, const area *p, const lines *l)
{
    const double m = (double)(j->rows * j->size);
    sum_pixels(j, p, l, false);
    for (int64_t g = p->first, i = 0; g < p->end; g++) {
        const float mean = (float)(sum_group(l->sum + i, j->size) / m);
        for (int64_t k = 0; k < j->size; k++) l->mean[i++] = mean;
    }
    sum_pixels(j, p, l, true);
    for (int64_t g = p->first, i = 0; g < p->end; g++) {
        const float rstd = (float)(1 / sqrt(sum_group(l->sum + i, j->size) / m + j->eps));
        if (j->stats) j->stats[(p->image * j->groups + g) * 2] = l->mean[i], j->stats[(p->image * j->groups + g) * 2 + 1] = rstd;
        for (int64_t k = 0; k < j->size; k++) l->scale[i++] = rstd;
    }
}

static void norm_row(float *y, const float *x, const float *mean, const float *scale, const float *shift, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
}

static void norm_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    const area p = area_of(j, t);
    const lines l = lines_of(j, thread);
    statistics(j, &p, &l);
    if (!j->y) return;
    affine(j, &p, &l);
    for (int64_t i = 0; i < p.n; i++) l.scale[i] *= l.a[i];
    for (int64_t r = 0; r < j->rows; r++) {
        float *y = j->y + p.at + r * j->c;
        norm_row(y, j->x + p.at + r * j->c, l.mean, l.scale, l.shift, p.n);
        if (j->act != KD_ACT_NONE) act_row(y, y, p.n, j->act);
    }
}

static void norm(const kd_node *n, void *scratch)
{
    job j = job_of(n);
    j.y = data_used(n->out[0]), j.stats = data_used(n->out[1]), j.scratch = scratch;
    kd_parallel(j.images * j.tiles, norm_tile, &j);
}

static size_t norm_scratch(const kd_node *n)
{
    const job j = job_of(n);
    return (size_t)(line_bytes(&j) * kd_threads());
}

// Gradient -------------------------------------------------------------------------------------------------------------

/// g = dy act'(z) of row r, whose tile begins at p->at. An activation's derivative costs more than keeping it, where there is room;
/// `again`: it may be kept.
static const float *row_g(const job *j, const area *p, const lines *l, int64_t r, bool again)
{
    const int64_t at = p->at + r * j->c;
    if (j->act == KD_ACT_NONE) return j->dy + at;
    float *const g = keeps(j) ? l->z + r * p->n : l->z;
    if (again && keeps(j)) return g;
    norm_row(g, j->x + at, l->mean, l->a, l->shift, p->n);
    act_grad_row(g, g, j->dy + at, p->n, j->act);
    return g;
}

static void add_products(float *part, float *part2, const float *g, const float *x, const float *mean, const float *rstd, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) part[i] += g[i] * ((x[i] - mean[i]) * rstd[i]), part2[i] += g[i];
}

/// P and Q of the tile's channels, in sum and more.
static void products(const job *j, const area *p, const lines *l)
{
    memset(l->sum, 0, (size_t)p->n * sizeof *l->sum);
    memset(l->more, 0, (size_t)p->n * sizeof *l->more);
    memset(l->part, 0, (size_t)p->n * sizeof *l->part);
    memset(l->part2, 0, (size_t)p->n * sizeof *l->part2);
    for (int64_t r = 0; r < j->rows; r++) {
        const float *g = row_g(j, p, l, r, false);
        add_products(l->part, l->part2, g, j->x + p->at + r * j->c, l->mean, l->scale, p->n);
        if (r % BLOCK == BLOCK - 1 || r == j->rows - 1) add_double(l->sum, l->part, p->n), add_double(l->more, l->part2, p->n);
    }
}

/// dx of a row: g a - q - (x - mean) p, + acc. q and p hold what is common to a group.
static void dx_row(float *dx, const float *g, const float *x, const float *acc, const float *mean, const float *a, const float *q,
                   const float *p, int64_t n)
{
    if (acc) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; i++) dx[i] = acc[i] + (g[i] * a[i] - q[i] - (x[i] - mean[i]) * p[i]);
    } else {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; i++) dx[i] = g[i] * a[i] - q[i] - (x[i] - mean[i]) * p[i];
    }
}

/// From P and Q by channel: rstd sum(S Q) / m in part, rstd^2 sum(S P) / m in part2. a is S rstd, scale rstd.
static void common(const job *j, const area *p, const lines *l)
{
    const double m = (double)(j->rows * j->size);
    for (int64_t i = 0; i < p->n; i += j->size) {
        double sp = 0, sq = 0;
        for (int64_t k = i; k < i + j->size; k++) sp += (double)l->a[k] * l->sum[k], sq += (double)l->a[k] * l->more[k];
        for (int64_t k = i; k < i + j->size; k++) l->part[k] = (float)(sq / m), l->part2[k] = (float)((double)l->scale[k] * sp / m);
    }
}

static void grad_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    const area p = area_of(j, t);
    const lines l = lines_of(j, thread);
    affine(j, &p, &l);
    for (int64_t i = 0; i < p.n; i++) {
        const float *stats = j->stats_in + (p.image * j->groups + p.first + i / j->size) * 2;
        l.mean[i] = stats[0], l.scale[i] = stats[1];
        l.a[i] *= stats[1];
    }
    products(j, &p, &l);
    memcpy(j->p + p.image * j->c + p.c0, l.sum, (size_t)p.n * sizeof *l.sum);
    memcpy(j->q + p.image * j->c + p.c0, l.more, (size_t)p.n * sizeof *l.more);
    if (!j->dx) return;
    common(j, &p, &l);
    for (int64_t r = 0; r < j->rows; r++) {
        const int64_t at = p.at + r * j->c;
        const float *g = row_g(j, &p, &l, r, true);
        dx_row(j->dx + at, g, j->x + at, j->acc ? j->acc + at : NULL, l.mean, l.a, l.part, l.part2, p.n);
    }
}

/// dw, db and dada of 64 channels from P and Q; images in order.
static void parameters_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    for (int64_t c = t * ROWS; c < j->c && c < (t + 1) * ROWS; c++) {
        double dw = 0, db = 0;
        for (int64_t n = 0; n < j->images; n++) {
            const double p = j->p[n * j->c + c], q = j->q[n * j->c + c], one = j->ada ? 1 + (double)j->ada[n * 2 * j->c + c] : 1;
            dw += one * p, db += one * q;
            if (!j->dada) continue;
            j->dada[n * 2 * j->c + c] = (float)(j->w ? (double)j->w[c] * p + (double)j->b[c] * q : p);
            j->dada[n * 2 * j->c + j->c + c] = (float)q;
        }
        if (j->dw) j->dw[c] = (float)dw;
        if (j->db) j->db[c] = (float)db;
    }
}

static void grad(const kd_node *n, void *scratch)
{
    job j = job_of(n);
    j.stats_in = n->in[4]->data, j.dy = n->in[5]->data, j.acc = data_of(n->in[6]);
    j.dx = data_used(n->out[0]), j.dw = data_used(n->out[1]), j.db = data_used(n->out[2]), j.dada = data_used(n->out[3]);
    j.p = scratch, j.q = j.p + j.images * j.c, j.scratch = (float *)(void *)(j.q + j.images * j.c);
    kd_parallel(j.images * j.tiles, grad_tile, &j);
    kd_parallel(ceil_div(j.c, ROWS), parameters_tile, &j);
}

static size_t grad_scratch(const kd_node *n)
{
    const job j = job_of(n);
    return norm_scratch(n) + (size_t)(2 * j.images * j.c) * sizeof(double);
}

const kd_kernel KD_KERNEL(group_norm) = { norm, norm_scratch };
const kd_kernel KD_KERNEL(group_norm_grad) = { grad, grad_scratch };
