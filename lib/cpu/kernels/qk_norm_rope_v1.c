// Transformer v1's queries and keys, their gradient, and the table of angles.    op: lib/op/qk_norm_rope_v1.c
// Tiles are ROWS tokens within an image. The table's gradient sums over images: there a tile is a token, images in order.
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t images, tokens, heads, d, blocks;
    const float *qkv, *scale, *rope, *r_in, *dy;
    float *y, *r, *drope;
    float eps;
    double *part;                          // [images, blocks, heads]; for the table a thread's sums, [d]
} job;

static job job_of(const kd_val *qkv, const kd_val *scale, const kd_val *rope)
{
    const int64_t *s = qkv->shape.d;
    job j = { .images = s[0], .tokens = s[1] * s[2], .heads = scale->shape.d[0], .qkv = qkv->data, .scale = scale->data,
              .rope = rope->data };
    j.d = s[3] / (3 * j.heads);
    j.blocks = ceil_div(j.tokens, ROWS);
    return j;
}

/// k of a head
static float factor(const job *j, int64_t head)
{
    return (float)exp((double)j->scale[head] / 2 - log((double)j->d) / 4);
}

static inline void turn(float *y, const float *x, const float *rope, float k, int64_t d)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < d; i += 2) {
        const float a = x[i] * k, b = x[i + 1] * k, c = rope[i], s = rope[i + 1];
        y[i] = a * c - b * s;
        y[i + 1] = b * c + a * s;
    }
}

static void norm_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->tokens, ROWS);
    const int64_t c = j->heads * j->d;
    for (int64_t h = 0; h < 2 * j->heads; h++) {                        // queries, then keys
        const int64_t head = h % j->heads;
        const float k = factor(j, head);
        for (int64_t token = p.first; token < p.end; token++) {
            const int64_t row = p.image * j->tokens + token, at = row * 3 * c + h * j->d;
            const float r = 1 / sqrtf(dot(j->qkv + at, j->qkv + at, j->d) / (float)j->d + j->eps);
            if (j->r) j->r[row * 2 * j->heads + h] = r;
            if (j->y) turn(j->y + at, j->qkv + at, j->rope + (token * j->heads + head) * j->d, r * k, j->d);
        }
    }
    for (int64_t row = p.image * j->tokens + p.first; j->y && j->y != j->qkv && row < p.image * j->tokens + p.end; row++)
        memcpy(j->y + row * 3 * c + 2 * c, j->qkv + row * 3 * c + 2 * c, (size_t)c * sizeof(float));
}

static void norm(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = job_of(n->in[0], n->in[1], n->in[2]);
    j.y = data_used(n->out[0]), j.r = data_used(n->out[1]), j.eps = (float)n->a.qk_norm_rope.eps;
    kd_parallel(j.images * j.blocks, norm_tile, &j);
}

// Gradient ---------------------------------------------------------------------------------------------------------

/// dx = R^T (a dy - b y)
static void turn_back(float *dx, const float *y, const float *dy, const float *rope, float a, float b, int64_t d)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < d; i += 2) {
        const float u = a * dy[i] - b * y[i], v = a * dy[i + 1] - b * y[i + 1], c = rope[i], s = rope[i + 1];
        dx[i] = u * c + v * s;
        dx[i + 1] = v * c - u * s;
    }
}

static void grad_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->tokens, ROWS);
    const int64_t c = j->heads * j->d;
    double *part = j->part + t * j->heads;
    memset(part, 0, (size_t)j->heads * sizeof *part);
    for (int64_t h = 0; h < 2 * j->heads; h++) {
        const int64_t head = h % j->heads;
        const float k = factor(j, head);
        for (int64_t token = p.first; token < p.end; token++) {
            const int64_t row = p.image * j->tokens + token, at = row * 3 * c + h * j->d;
            const float both = dot(j->qkv + at, j->dy + at, j->d), r = j->r_in[row * 2 * j->heads + h];
            part[head] += (double)both;
            if (j->y)
                turn_back(j->y + at, j->qkv + at, j->dy + at, j->rope + (token * j->heads + head) * j->d, k * r,
                          r * both / (k * (float)j->d), j->d);
        }
    }
    for (int64_t row = p.image * j->tokens + p.first; j->y && row < p.image * j->tokens + p.end; row++)
        memcpy(j->y + row * 3 * c + 2 * c, j->dy + row * 3 * c + 2 * c, (size_t)c * sizeof(float));
}

/// Adds to dcos, dsin (in turns) of a head's pairs.
static void add_turn(double *sum, const float *y, const float *dy, const float *rope, int64_t d)
{
    for (int64_t i = 0; i < d; i += 2) {
        const double c = (double)rope[i], s = (double)rope[i + 1], y0 = (double)y[i], y1 = (double)y[i + 1];
        const double a = y0 * c + y1 * s, b = y1 * c - y0 * s;
        sum[i] += a * (double)dy[i] + b * (double)dy[i + 1];
        sum[i + 1] += a * (double)dy[i + 1] - b * (double)dy[i];
    }
}

static void rope_tile(void *arg, int64_t token, int thread)
{
    const job *j = arg;
    double *const sum = j->part + thread * j->d;
    for (int64_t head = 0; head < j->heads; head++) {
        const int64_t place = (token * j->heads + head) * j->d;
        memset(sum, 0, (size_t)j->d * sizeof *sum);
        for (int64_t n = 0; n < j->images; n++)
            for (int64_t part = 0; part < 2; part++) {
                const int64_t at = (((n * j->tokens + token) * 3 + part) * j->heads + head) * j->d;
                add_turn(sum, j->qkv + at, j->dy + at, j->rope + place, j->d);
            }
        for (int64_t i = 0; i < j->d; i++) j->drope[place + i] = (float)sum[i];
    }
}

static void grad(const kd_node *n, void *scratch)
{
    job j = job_of(n->in[0], n->in[2], n->in[3]);
    float *const dscale = data_used(n->out[1]);
    j.r_in = n->in[1]->data, j.dy = n->in[4]->data, j.part = scratch;
    j.y = data_used(n->out[0]), j.drope = data_used(n->out[2]);
    kd_parallel(j.images * j.blocks, grad_tile, &j);
    for (int64_t h = 0; dscale && h < j.heads; h++) {
        double sum = 0;
        for (int64_t b = 0; b < j.images * j.blocks; b++) sum += j.part[b * j.heads + h];
        dscale[h] = (float)(sum / 2);
    }
    if (j.drope) kd_parallel(j.tokens, rope_tile, &j);
}

static size_t grad_scratch(const kd_node *n)
{
    const job j = job_of(n->in[0], n->in[2], n->in[3]);
    const int64_t parts = j.images * j.blocks * j.heads, sums = j.d * kd_threads();
    return (size_t)(parts > sums ? parts : sums) * sizeof(double);
}

// The table --------------------------------------------------------------------------------------------------------

static double angle(const kd_node *n, int64_t token, int64_t head, int64_t i)
{
    const int64_t k = n->in[0]->shape.d[1];
    const float *freqs = n->in[i >= k]->data, *pos = n->in[2]->data;
    return (double)pos[2 * token + (i >= k)] * exp((double)freqs[head * k + i % k]);
}

static void table(const kd_node *n, void *scratch)
{
    (void)scratch;
    const int64_t tokens = n->in[2]->shape.d[0], heads = n->in[0]->shape.d[0], k = n->in[0]->shape.d[1];
    float *out = n->out[0]->data;
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < 2 * k; i++, out += 2) {
                const double a = angle(n, t, h, i);
                out[0] = (float)cos(a), out[1] = (float)sin(a);
            }
}

/// d angle = cos dsin - sin dcos, and the frequency's part of it is the angle times that.
static void table_grad(const kd_node *n, void *scratch)
{
    (void)scratch;
    const int64_t tokens = n->in[2]->shape.d[0], heads = n->in[0]->shape.d[0], k = n->in[0]->shape.d[1];
    const float *drope = n->in[3]->data;
    float *out[2] = { data_used(n->out[0]), data_used(n->out[1]) };
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < 2 * k; i++) {
            double sum = 0;
            for (int64_t t = 0; t < tokens; t++) {
                const double a = angle(n, t, h, i);
                const float *d = drope + ((t * heads + h) * 2 * k + i) * 2;
                sum += a * (cos(a) * (double)d[1] - sin(a) * (double)d[0]);
            }
            if (out[i >= k]) out[i >= k][h * k + i % k] = (float)sum;
        }
}

const kd_kernel KD_KERNEL(rope_table_v1) = { table, NULL };
const kd_kernel KD_KERNEL(rope_table_v1_grad) = { table_grad, NULL };
const kd_kernel KD_KERNEL(qk_norm_rope_v1) = { norm, NULL };
const kd_kernel KD_KERNEL(qk_norm_rope_v1_grad) = { grad, grad_scratch };
