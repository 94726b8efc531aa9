// dqkv of attention from qkv, y, the rows' log-sums and dy.    op: lib/op/attention.c
//   P = exp(q k^T + mask - lse)   dv = P^T dy   dS = P (dy v^T - D), D = sum(y dy)   dq = dS k   dk = dS^T q
// P is computed again, block by block, and never stored. Groups with keys of their own (global, window) are tiles; the
// groups of a neighborhood share keys, so there a tile is an image and head, and its groups add in order.
#include "cpu/kernels/attention.h"
#include "cpu/kernels/vmath.h"

typedef struct job {
    attn a;
    const float *qkv, *y, *lse, *dy;
    float *dqkv, *scratch;
    int64_t room;
    bool shared_keys;
} job;

typedef struct work {
    float *k, *v;                          // [nk, d]
    float *k_cols, *v_cols, *k_rows;       // packed: k^T and v^T for scores, k for dq
    float *q, *y, *dy, *q_packed, *dy_packed;   // [QUERIES, d]
    float *s, *ds;                         // [QUERIES, nk]
    float *dq, *dk, *dv;
    int32_t *token;
} work;

static int64_t work_of(work *w, const attn *a, float *base)
{
    carve c = { base, 0 };
    w->k = carve_floats(&c, a->max_k * a->d);
    w->v = carve_floats(&c, a->max_k * a->d);
    w->k_cols = carve_floats(&c, gemm_packed(a->d, a->max_k));
    w->v_cols = carve_floats(&c, gemm_packed(a->d, a->max_k));
    w->k_rows = carve_floats(&c, gemm_packed(a->max_k, a->d));
    w->q = carve_floats(&c, QUERIES * a->d);
    w->y = carve_floats(&c, QUERIES * a->d);
    w->dy = carve_floats(&c, QUERIES * a->d);
    w->q_packed = carve_floats(&c, gemm_packed(QUERIES, a->d));
    w->dy_packed = carve_floats(&c, gemm_packed(QUERIES, a->d));
    w->s = carve_floats(&c, QUERIES * score_stride(a));
    w->ds = carve_floats(&c, QUERIES * score_stride(a));
    w->dq = carve_floats(&c, QUERIES * a->d);
    w->dk = carve_floats(&c, a->max_k * a->d);
    w->dv = carve_floats(&c, a->max_k * a->d);
    w->token = (int32_t *)carve_floats(&c, a->max_q + a->max_k);
    return c.used;
}

static float *place(const job *j, int64_t image, int64_t head, int part, int64_t token)
{
    const attn *const a = &j->a;
    return j->dqkv + (image * a->h * a->w + token) * 3 * a->c + part * a->c + head * a->d;
}

// One row of P in s and of dS in ds, which holds dy v^T on entry.
static void row_grad(float *s, float *ds, int64_t n, float lse, float d)
{
#pragma GCC ivdep
    for (int64_t t = 0; t < n; t++) {
        s[t] = kd_vexp(s[t] - lse);
        ds[t] = s[t] * (ds[t] - d);
    }
}

static float dot(const float *x, const float *y, int64_t n)
{
    float lane[16] = { 0 }, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++)
            lane[l] += x[i + l] * y[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += x[i] * y[i];
    for (int l = 0; l < 16; l++)
        sum += lane[l];
    return sum;
}

// A block of queries: dq is stored, dk and dv of the group grow.
static void queries(const job *j, const work *w, const group *g, int64_t image, int64_t head, int64_t first, int64_t n)
{
    const attn *const a = &j->a;
    const int64_t ld = score_stride(a), d = a->d;
    const int32_t *const token = g->q + first;
    gather(w->q, j->qkv, a, image, head, 0, token, n);
    gather_rows(w->y, j->y, a, image, head, token, n);
    gather_rows(w->dy, j->dy, a, image, head, token, n);
    gemm_panels(n, g->nk, d, false, w->q, d, 1, w->k_cols, w->s, ld);
    gemm_panels(n, g->nk, d, false, w->dy, d, 1, w->v_cols, w->ds, ld);
    for (int64_t r = 0; r < n; r++) {
        mask_row(a, g, first + r, w->s + r * ld);
        row_grad(w->s + r * ld, w->ds + r * ld, g->nk, j->lse[(image * a->heads + head) * a->h * a->w + token[r]],
                 dot(w->y + r * d, w->dy + r * d, d));
    }
    gemm_panels(n, d, g->nk, false, w->ds, ld, 1, w->k_rows, w->dq, d);
    for (int64_t r = 0; r < n; r++)
        memcpy(place(j, image, head, 0, token[r]), w->dq + r * d, (size_t)d * sizeof(float));
    gemm_pack(w->q_packed, w->q, d, n, d);
    gemm_pack(w->dy_packed, w->dy, d, n, d);
    gemm_panels(g->nk, d, n, first > 0, w->ds, 1, ld, w->q_packed, w->dk, d);
    gemm_panels(g->nk, d, n, first > 0, w->s, 1, ld, w->dy_packed, w->dv, d);
}

static void group_grad(const job *j, const work *w, group *g, int64_t image, int64_t head, int64_t number)
{
    const attn *const a = &j->a;
    const int64_t d = a->d;
    group_at(a, number, g);
    gather(w->k, j->qkv, a, image, head, 1, g->k, g->nk);
    gather(w->v, j->qkv, a, image, head, 2, g->k, g->nk);
    gemm_pack_t(w->k_cols, w->k, d, d, g->nk);
    gemm_pack_t(w->v_cols, w->v, d, d, g->nk);
    gemm_pack(w->k_rows, w->k, d, g->nk, d);
    for (int64_t first = 0; first < g->nq; first += QUERIES)
        queries(j, w, g, image, head, first, least(QUERIES, g->nq - first));
    for (int64_t t = 0; t < g->nk; t++) {
        float *const dk = place(j, image, head, 1, g->k[t]), *const dv = place(j, image, head, 2, g->k[t]);
        for (int64_t c = 0; c < d; c++) {
            dk[c] = (j->shared_keys ? dk[c] : 0) + w->dk[t * d + c];
            dv[c] = (j->shared_keys ? dv[c] : 0) + w->dv[t * d + c];
        }
    }
}

static void tile(void *arg, int64_t t, int thread)
{
    const job *const j = arg;
    const attn *const a = &j->a;
    work w;
    work_of(&w, a, j->scratch + thread * j->room);
    group g = { .q = w.token, .k = w.token + a->max_q };
    if (!j->shared_keys) {
        group_grad(j, &w, &g, t / a->groups / a->heads, t / a->groups % a->heads, t % a->groups);
        return;
    }
    const int64_t image = t / a->heads, head = t % a->heads;
    for (int64_t token = 0; token < a->h * a->w; token++)
        for (int part = 1; part <= 2; part++)
            memset(place(j, image, head, part, token), 0, (size_t)a->d * sizeof(float));
    for (int64_t number = 0; number < a->groups; number++)
        group_grad(j, &w, &g, image, head, number);
}

static int attention_grad(const kd_node *n, const kd_run *run, void *scratch, kd_err *err)
{
    (void)run;
    (void)err;
    work w;
    job j = { .a = attn_of(n), .qkv = n->in[0]->data, .y = n->in[1]->data, .lse = n->in[2]->data, .dy = n->in[3]->data,
              .dqkv = n->out[0]->data, .scratch = scratch };
    j.room = work_of(&w, &j.a, scratch);
    j.shared_keys = j.a.kind == KD_ATTN_NEIGHBORHOOD;
    kd_parallel(j.a.n * j.a.heads * (j.shared_keys ? 1 : j.a.groups), tile, &j);
    return 0;
}

static size_t attention_grad_scratch(const kd_node *n)
{
    const attn a = attn_of(n);
    work w;
    return (size_t)(work_of(&w, &a, NULL) * kd_threads()) * sizeof(float);
}

const kd_kernel KD_KERNEL(attention_grad) = { attention_grad, attention_grad_scratch };
