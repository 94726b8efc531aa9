// The optimizer's passes over flat arrays.    op: lib/op/optimizer.h
// Each array is read and written once: AdamW with EMA moves 9 floats a parameter.
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t n;
    const float *x, *g;
    float *p, *m, *v, *ema;
    double *part;
    // What is near 1 and its distance from 1 are both rounded from doubles: 1 - 0.999f is 1e-5 off 0.001.
    float decay, clip, keep, fresh;        // 1 - lr wd; gradient's factor; ema' = p + keep (ema - p), fresh = 1 - keep
    float a1, a2, rate, root, eps;         // 1 - beta1, 1 - beta2; lr / (1 - beta1^step); 1 / sqrt(1 - beta2^step)
    float lr, weight_decay, momentum;
    bool first, nesterov;
} job;

static span tile_of(const job *j, int64_t t) { return span_of(t, j->n, ELEMENTS); }

// sum_squares, accumulate --------------------------------------------------------------------------------------------

static void squares_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span s = tile_of(j, t);
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
    job j = { .n = kd_count(n->in[0]), .x = n->in[0]->data, .part = scratch };
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
    const job *j = arg;
    (void)thread;
    const span s = tile_of(j, t);
    float *restrict y = j->p;
    const float *restrict x = j->x;
    for (int64_t i = s.first; i < s.end; i++) y[i] += x[i];
}

static void accumulate(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = { .n = kd_count(n->out[0]), .x = n->in[1]->data, .p = n->out[0]->data };
    kd_parallel(ceil_div(j.n, ELEMENTS), accumulate_tile, &j);
}

// The update rules -----------------------------------------------------------------------------------------------------

static job rule_of(const kd_node *n, const kd_step *s)
{
    const double lr = s->lr, weight_decay = s->weight_decay;
    return (job){ .n = kd_count(n->out[0]), .p = n->out[0]->data, .g = n->in[1]->data, .m = data_of(n->in[2]),
                  .v = data_of(n->in[3]), .ema = data_of(n->in[4]), .lr = (float)lr, .weight_decay = (float)weight_decay,
                  .decay = (float)(1 - lr * weight_decay), .clip = (float)s->clip, .keep = (float)s->ema_decay,
                  .fresh = (float)(1 - s->ema_decay), .first = s->step <= 1 };
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

static void adamw_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span s = tile_of(j, t);
    float *restrict p = j->p + s.first, *restrict m = j->m + s.first, *restrict v = j->v + s.first;
    const float *restrict g = j->g + s.first;
    const float a1 = j->a1, a2 = j->a2, clip = j->clip, decay = j->decay, rate = j->rate, root = j->root, eps = j->eps;
    for (int64_t i = 0; i < s.end - s.first; i++) {
        const float gi = g[i] * clip;
        m[i] += a1 * (gi - m[i]);
        v[i] += a2 * (gi * gi - v[i]);
        p[i] = p[i] * decay - rate * m[i] / (sqrtf(v[i]) * root + eps);
    }
    if (j->ema) average(j->ema + s.first, p, j, s.end - s.first);
}

static void adamw(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = rule_of(n, &n->a.adamw.s);
    const double step = (double)n->a.adamw.s.step, beta1 = n->a.adamw.beta1, beta2 = n->a.adamw.beta2;
    j.a1 = (float)(1 - beta1), j.a2 = (float)(1 - beta2), j.eps = (float)n->a.adamw.eps;
    j.rate = (float)(n->a.adamw.s.lr / (1 - pow(beta1, step)));
    j.root = (float)(1 / sqrt(1 - pow(beta2, step)));
    kd_parallel(ceil_div(j.n, ELEMENTS), adamw_tile, &j);
}

static void sgd_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span s = tile_of(j, t);
    const int64_t n = s.end - s.first;
    float *restrict p = j->p + s.first, *restrict m = j->m ? j->m + s.first : NULL;
    const float *restrict g = j->g + s.first;
    const float clip = j->clip, wd = j->weight_decay, lr = j->lr, momentum = j->momentum;
    const float old = j->first ? 0 : momentum, from_m = j->nesterov ? momentum : 1, from_g = j->nesterov;
    if (m)
        for (int64_t i = 0; i < n; i++) {
            const float gi = g[i] * clip + wd * p[i];
            m[i] = old * m[i] + gi;
            p[i] -= lr * (from_g * gi + from_m * m[i]);
        }
    else
        for (int64_t i = 0; i < n; i++) p[i] -= lr * (g[i] * clip + wd * p[i]);
    if (j->ema) average(j->ema + s.first, p, j, n);
}

static void sgd(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = rule_of(n, &n->a.sgd.s);
    j.momentum = (float)n->a.sgd.momentum, j.nesterov = n->a.sgd.nesterov;
    kd_parallel(ceil_div(j.n, ELEMENTS), sgd_tile, &j);
}

const kd_kernel KD_KERNEL(sum_squares) = { sum_squares, sum_squares_scratch };
const kd_kernel KD_KERNEL(accumulate) = { accumulate, NULL };
const kd_kernel KD_KERNEL(adamw) = { adamw, NULL };
const kd_kernel KD_KERNEL(sgd) = { sgd, NULL };
