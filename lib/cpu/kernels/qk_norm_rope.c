// Scaling and rotating queries and keys, its gradient, and the table of angles.    op: lib/op/qk_norm_rope.c
// Forward in place moves 4/3 floats an element of qkv (v stays where it is), else 2. Tiles are ROWS tokens within an image.
//
// A head's d features: [0, q) pair with [q, 2q), q = d/4, and turn by the angle of their pair; [2q, 4q) do not turn.
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t images, tokens, heads, d, blocks;
    const float *qkv, *scale, *rope, *r_in, *dy;
    float *y, *r, *dscale;
    float eps;
    double *part;                          // [images, blocks, heads]
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

static inline void turn(float *y, const float *x, const float *rope, float k, int64_t d)
{
    const int64_t q = d / 4;
#pragma GCC ivdep
    for (int64_t i = 0; i < q; i++) {
        const float a = x[i] * k, b = x[i + q] * k, c = rope[2 * i], s = rope[2 * i + 1];
        y[i] = a * c - b * s;
        y[i + q] = b * c + a * s;
    }
#pragma GCC ivdep
    for (int64_t i = 2 * q; i < d; i++) y[i] = x[i] * k;
}

static void norm_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->tokens, ROWS);
    const int64_t c = j->heads * j->d;
    for (int64_t token = p.first; token < p.end; token++) {
        const int64_t row = p.image * j->tokens + token;
        const float *x = j->qkv + row * 3 * c;
        float *y = j->y ? j->y + row * 3 * c : NULL;
        for (int64_t h = 0; h < 2 * j->heads; h++) {                    // queries, then keys
            const int64_t head = h % j->heads;
            const float r = 1 / sqrtf(dot(x + h * j->d, x + h * j->d, j->d) + j->eps);
            if (j->r) j->r[row * 2 * j->heads + h] = r;
            if (y) turn(y + h * j->d, x + h * j->d, j->rope + (token * j->heads + head) * j->d / 2, r * sqrtf(j->scale[head]), j->d);
        }
        if (y && y != x) memcpy(y + 2 * c, x + 2 * c, (size_t)c * sizeof *y);
    }
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
    const int64_t q = d / 4;
#pragma GCC ivdep
    for (int64_t i = 0; i < q; i++) {
        const float u = a * dy[i] - b * y[i], v = a * dy[i + q] - b * y[i + q], c = rope[2 * i], s = rope[2 * i + 1];
        dx[i] = u * c + v * s;
        dx[i + q] = v * c - u * s;
    }
#pragma GCC ivdep
    for (int64_t i = 2 * q; i < d; i++) dx[i] = a * dy[i] - b * y[i];
}

static void grad_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->tokens, ROWS);
    const int64_t c = j->heads * j->d;
    double *part = j->part + t * j->heads;
    memset(part, 0, (size_t)j->heads * sizeof *part);
    for (int64_t token = p.first; token < p.end; token++) {
        const int64_t row = p.image * j->tokens + token;
        const float *y = j->qkv + row * 3 * c, *dy = j->dy + row * 3 * c;
        float *dx = j->y ? j->y + row * 3 * c : NULL;
        for (int64_t h = 0; h < 2 * j->heads; h++) {
            const int64_t head = h % j->heads, at = h * j->d;
            const float k = dot(y + at, dy + at, j->d), root = sqrtf(j->scale[head]), r = j->r_in[row * 2 * j->heads + h];
            part[head] += k;
            if (dx) turn_back(dx + at, y + at, dy + at, j->rope + (token * j->heads + head) * j->d / 2, r * root, r * k / root, j->d);
        }
        if (dx && dx != dy) memcpy(dx + 2 * c, dy + 2 * c, (size_t)c * sizeof *dx);
    }
}

static void grad(const kd_node *n, void *scratch)
{
    job j = job_of(n->in[0], n->in[2], n->in[3]);
    j.r_in = n->in[1]->data, j.dy = n->in[4]->data, j.part = scratch;
    j.y = data_used(n->out[0]), j.dscale = data_used(n->out[1]);
    kd_parallel(j.images * j.blocks, grad_tile, &j);
    for (int64_t h = 0; j.dscale && h < j.heads; h++) {
        double sum = 0;
        for (int64_t b = 0; b < j.images * j.blocks; b++) sum += j.part[b * j.heads + h];
        j.dscale[h] = (float)(sum / (2 * (double)j.scale[h]));
    }
}

static size_t grad_scratch(const kd_node *n)
{
    const int64_t *s = n->in[0]->shape.d;
    return (size_t)(s[0] * ceil_div(s[1] * s[2], ROWS) * n->in[2]->shape.d[0]) * sizeof(double);
}

// The table --------------------------------------------------------------------------------------------------------

typedef struct angles { int64_t heads, k; const float *freqs, *pos; float *out; } angles;

/// Angles in double: y times the head's frequencies, then x times them.
static void table_tile(void *arg, int64_t t, int thread)
{
    const angles *j = arg;
    (void)thread;
    float *out = j->out + t * j->heads * 4 * j->k;
    for (int64_t h = 0; h < j->heads; h++)
        for (int64_t i = 0; i < 2 * j->k; i++, out += 2) {
            const double angle = (double)j->pos[2 * t + (i >= j->k)] * (double)j->freqs[h * j->k + i % j->k];
            out[0] = (float)cos(angle), out[1] = (float)sin(angle);
        }
}

static void table(const kd_node *n, void *scratch)
{
    (void)scratch;
    angles j = { n->in[0]->shape.d[0], n->in[0]->shape.d[1], n->in[0]->data, n->in[1]->data, n->out[0]->data };
    kd_parallel(n->in[1]->shape.d[0], table_tile, &j);
}

const kd_kernel KD_KERNEL(rope_table) = { table, NULL };
const kd_kernel KD_KERNEL(qk_norm_rope) = { norm, NULL };
const kd_kernel KD_KERNEL(qk_norm_rope_grad) = { grad, grad_scratch };
