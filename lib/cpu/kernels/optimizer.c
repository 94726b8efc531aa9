// The end of a training step: passes over flat arrays.    op: lib/op/optimizer.h
// Each array is read and written once: AdamW with EMA moves 9 floats per parameter.
#include "cpu/kernels/rows.h"

// flatten ------------------------------------------------------------------------------------------------------------

static void flatten(const kd_node *n, void *scratch)
{
    (void)scratch;
    float *y = n->out[0]->data;                // the pinned values are in their places already
    const int64_t *gaps = data_of(n->in[0]);
    for (int64_t k = 0; gaps && k < n->in[0]->shape.d[0]; k++)
        memset(y + gaps[2 * k], 0, (size_t)gaps[2 * k + 1] * sizeof *y);
}

// sum_squares, accumulate, clip ----------------------------------------------------------------------------------------

typedef struct flat { int64_t n; const float *x; float *y; double *part; } flat;

static void squares_tile(void *arg, int64_t t, int thread)
{
    const flat *j = arg;
    (void)thread;
    const span s = span_of(t, j->n, ELEMENTS);
    d8 acc = { 0 };
    double lane[8], sum = 0;
    int64_t i = s.first;
    for (; i + 8 <= s.end; i += 8) {
        const d8 x = __builtin_convertvector(*(const f8u *)(j->x + i), d8);
        acc += x * x;
    }
    memcpy(lane, &acc, sizeof lane);
    for (int k = 0; i < s.end; i++, k++) lane[k] += (double)j->x[i] * (double)j->x[i];
    for (int k = 0; k < 8; k++) sum += lane[k];
    j->part[t] = sum;
}

static void sum_squares(const kd_node *n, void *scratch)
{
    flat j = { .n = kd_count(n->in[0]), .x = n->in[0]->data, .part = scratch };
    const int64_t tiles = ceil_div(j.n, ELEMENTS);
    kd_parallel(tiles, squares_tile, &j);
    *(double *)n->out[0]->data = kd_tree_sum(j.part, tiles);
}

static size_t sum_squares_scratch(const kd_node *n)
{
    return (size_t)ceil_div(kd_count(n->in[0]), ELEMENTS) * sizeof(double);
}

static void accumulate_tile(void *arg, int64_t t, int thread)
{
    const flat *j = arg;
    (void)thread;
    const span s = span_of(t, j->n, ELEMENTS);
    float *restrict y = j->y;
    const float *restrict x = j->x;
    for (int64_t i = s.first; i < s.end; i++) y[i] += x[i];
}

static void accumulate(const kd_node *n, void *scratch)
{
    (void)scratch;
    flat j = { .n = kd_count(n->out[0]), .x = n->in[1]->data, .y = n->out[0]->data };
    kd_parallel(ceil_div(j.n, ELEMENTS), accumulate_tile, &j);
}

static void clip(const kd_node *n, void *scratch)
{
    (void)scratch;
    const float *loss = data_of(n->in[1]);
    const double norm = sqrt(*(const double *)n->in[0]->data), limit = n->a.clip.limit;
    double *y = n->out[0]->data, *stopped = data_of(n->in[2]);
    bool finite = isfinite(norm);
    for (int64_t i = 0; loss && i < kd_count(n->in[1]); i++) finite = finite && isfinite(loss[i]);
    if (stopped && !finite) *stopped = 1;
    y[0] = !finite || (stopped && *stopped != 0) ? 0 : limit > 0 ? fmin(1, limit / (norm + 1e-6)) : 1;
    y[1] = norm;
}

// The update rules -----------------------------------------------------------------------------------------------------

typedef struct job {
    const double *runs, *rates;
    int64_t n_runs;
    const float *g;
    float *p, *m, *v, *ema;
    double weight_decay, momentum;
    float clip, keep, fresh;               // gradient's factor; ema' = p + keep (ema - p), fresh = 1 - keep
    // What is near 1 and its distance from 1 are both rounded from doubles: 1 - 0.999f is 1e-5 off 0.001.
    float a1, a2, root, eps;               // 1 - beta1, 1 - beta2; 1 / sqrt(1 - beta2^step)
    bool first, nesterov;
} job;

static job job_of(const kd_node *n)
{
    const double *rates = n->in[6]->data;
    return (job){ .runs = n->in[7]->data, .n_runs = n->in[7]->shape.d[0], .rates = rates, .p = n->in[0]->data, .g = n->in[1]->data,
                  .m = data_of(n->in[2]), .v = data_of(n->in[3]), .ema = data_of(n->in[4]),
                  .clip = (float)*(const double *)n->in[5]->data, .keep = (float)rates[KD_RATE_EMA],
                  .fresh = (float)(1 - rates[KD_RATE_EMA]), .first = rates[KD_RATE_FIRST] != 0 };
}

// In double: a factor that is 0 as a float alone still lets moments decay and the average move.
static bool refused(const kd_node *n) { return *(const double *)n->in[5]->data == 0; }

// A tile: elements first .. first + n - 1 of the arrays, which lie in one run.
typedef struct tile { int64_t first, n; int group; float most; double lr, weight_decay; } tile;

static int64_t count_tiles(const job *j)
{
    int64_t tiles = 0;
    for (int64_t r = 0; r < j->n_runs; r++) tiles += ceil_div((int64_t)j->runs[r * KD_RUN_COLUMNS + KD_RUN_COUNT], ELEMENTS);
    return tiles;
}

static tile tile_of(const job *j, int64_t t)
{
    const double *run = j->runs;
    for (int64_t tiles; t >= (tiles = ceil_div((int64_t)run[KD_RUN_COUNT], ELEMENTS)); run += KD_RUN_COLUMNS) t -= tiles;
    const span s = span_of(t, (int64_t)run[KD_RUN_COUNT], ELEMENTS);
    const int group = (int)run[KD_RUN_GROUP];
    return (tile){ .first = (int64_t)run[KD_RUN_FIRST] + s.first, .n = s.end - s.first, .group = group, .most = (float)run[KD_RUN_MOST],
                   .lr = group < 0 ? 0 : j->rates[KD_RATE_LR + group], .weight_decay = group % 2 ? 0 : j->weight_decay };
}

/// The same as ema += (1 - decay)(p - ema), but exact where decay is 0 and the change where it is near 1 is not rounded
/// away: written from the nearer end.
static void average(float *restrict ema, const float *restrict p, const job *j, int64_t n)
{
    const float keep = j->keep, fresh = j->fresh;
    if (keep < .5f)
        for (int64_t i = 0; i < n; i++) ema[i] = p[i] + keep * (ema[i] - p[i]);
    else
        for (int64_t i = 0; i < n; i++) ema[i] += fresh * (p[i] - ema[i]);
}

// What follows every rule: the average, then the cut.
static void finish(const job *j, const tile *t)
{
    float *p = j->p + t->first;
    if (j->ema) average(j->ema + t->first, p, j, t->n);
    if (isinf(t->most) || t->group < 0) return;
    for (int64_t i = 0; i < t->n; i++) p[i] = p[i] > t->most ? t->most : p[i];
}

static void adamw_tile(void *arg, int64_t number, int thread)
{
    const job *j = arg;
    (void)thread;
    const tile t = tile_of(j, number);
    float *restrict p = j->p + t.first, *restrict m = j->m + t.first, *restrict v = j->v + t.first;
    const float *restrict g = j->g + t.first;
    const float a1 = j->a1, a2 = j->a2, clip = j->clip, decay = (float)(1 - t.lr * t.weight_decay), root = j->root, eps = j->eps;
    const float rate = (float)(t.lr / j->rates[KD_RATE_BIAS1]);
    for (int64_t i = 0; t.group >= 0 && i < t.n; i++) {
        const float gi = g[i] * clip;
        m[i] += a1 * (gi - m[i]);
        v[i] += a2 * (gi * gi - v[i]);
        p[i] = p[i] * decay - rate * m[i] / (sqrtf(v[i]) * root + eps);
    }
    finish(j, &t);
}

static void adamw(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n);
    j.weight_decay = n->a.adamw.weight_decay;
    j.a1 = (float)(1 - n->a.adamw.beta1), j.a2 = (float)(1 - n->a.adamw.beta2), j.eps = (float)n->a.adamw.eps;
    j.root = (float)(1 / sqrt(j.rates[KD_RATE_BIAS2]));
    if (!refused(n)) kd_parallel(count_tiles(&j), adamw_tile, &j);
}

static void sgd_tile(void *arg, int64_t number, int thread)
{
    const job *j = arg;
    (void)thread;
    const tile t = tile_of(j, number);
    const int64_t n = t.group >= 0 ? t.n : 0;
    float *restrict p = j->p + t.first, *restrict m = j->m ? j->m + t.first : NULL;
    const float *restrict g = j->g + t.first;
    const float clip = j->clip, wd = (float)t.weight_decay, lr = (float)t.lr, momentum = (float)j->momentum;
    const float old = j->first ? 0 : momentum, from_m = j->nesterov ? momentum : 1, from_g = j->nesterov;
    if (m)
        for (int64_t i = 0; i < n; i++) {
            const float gi = g[i] * clip + wd * p[i];
            m[i] = old * m[i] + gi;
            p[i] -= lr * (from_g * gi + from_m * m[i]);
        }
    else
        for (int64_t i = 0; i < n; i++) p[i] -= lr * (g[i] * clip + wd * p[i]);
    finish(j, &t);
}

static void sgd(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n);
    j.weight_decay = n->a.sgd.weight_decay, j.momentum = n->a.sgd.momentum, j.nesterov = n->a.sgd.nesterov;
    if (!refused(n)) kd_parallel(count_tiles(&j), sgd_tile, &j);
}

const kd_kernel KD_KERNEL(flatten) = { flatten, NULL };
const kd_kernel KD_KERNEL(sum_squares) = { sum_squares, sum_squares_scratch };
const kd_kernel KD_KERNEL(accumulate) = { accumulate, NULL };
const kd_kernel KD_KERNEL(clip) = { clip, NULL };
const kd_kernel KD_KERNEL(adamw) = { adamw, NULL };
const kd_kernel KD_KERNEL(sgd) = { sgd, NULL };
