// Gradients of attention for q, k, v from these, y, the rows' log-sums and dy.    op: lib/op/attention.c
//   P = exp(f q k^T + mask - lse)   dv = (K P)^T dy   dS = P (K dy v^T - D), D = sum(y dy)   dq = f dS k   dk = dS^T (f q)
// P is computed again, block by block, and never stored. Groups with keys of their own (global, window) are tiles; the
// groups of a neighborhood share keys, so there a tile is an image and head, and its groups add in order.
#include "cpu/kernels/attention.h"
#include "cpu/kernels/vmath.h"

typedef struct job {
    attn a;
    const float *lse;
    view y, dy, d[3];                      // d: the gradients of Q, K, V
    float *scratch;
    int64_t room;
    bool shared_keys;
} job;

typedef struct work {
    float *k, *v;                          // [nk, d]
    float *k_cols, *v_cols, *k_rows;       // packed: k^T and v^T for scores, k for dq
    float *q, *y, *dy, *q_packed, *dy_packed;   // [QUERIES, d]
    float *s, *ds;                         // [QUERIES, nk]
    float *dq, *dk, *dv, *keep;
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
    w->keep = carve_floats(&c, keep_room(a));
    w->token = (int32_t *)carve_floats(&c, a->max_q + a->max_k);
    return c.used;
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

// The same where probabilities were dropped: s becomes what y was made of, K P.
static void row_grad_dropped(float *s, float *ds, const float *keep, int64_t n, float lse, float d)
{
#pragma GCC ivdep
    for (int64_t t = 0; t < n; t++) {
        const float p = kd_vexp(s[t] - lse);
        ds[t] = p * (keep[t] * ds[t] - d);
        s[t] = keep[t] * p;
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
    gather(w->q, a, &a->in[Q], image, head, token, n);
    scale_rows(w->q, a, n);
    gather(w->y, a, &j->y, image, head, token, n);
    gather(w->dy, a, &j->dy, image, head, token, n);
    gemm_panels(n, g->nk, d, false, w->q, d, 1, w->k_cols, w->s, ld);
    gemm_panels(n, g->nk, d, false, w->dy, d, 1, w->v_cols, w->ds, ld);
    for (int64_t r = 0; r < n; r++) {
        float *const s = w->s + r * ld, *const ds = w->ds + r * ld, both = dot(w->y + r * d, w->dy + r * d, d);
        const float lse = j->lse[(image * a->heads + head) * a->h * a->w + token[r]];
        mask_row(a, g, image, first + r, s);
        if (a->rate > 0) {
            keep_row(a, image, head, token[r], w->keep);
            row_grad_dropped(s, ds, w->keep, g->nk, lse, both);
        } else
            row_grad(s, ds, g->nk, lse, both);
    }
    gemm_panels(n, d, g->nk, false, w->ds, ld, 1, w->k_rows, w->dq, d);
    scale_rows(w->dq, a, n);
    for (int64_t r = 0; r < n && j->d[Q].base; r++)
        memcpy(place(&j->d[Q], image, head, token[r]), w->dq + r * d, (size_t)d * sizeof(float));
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
    gather(w->k, a, &a->in[K], image, head, g->k, g->nk);
    gather(w->v, a, &a->in[V], image, head, g->k, g->nk);
    gemm_pack_t(w->k_cols, w->k, d, d, g->nk);
    gemm_pack_t(w->v_cols, w->v, d, d, g->nk);
    gemm_pack(w->k_rows, w->k, d, g->nk, d);
    for (int64_t first = 0; first < g->nq; first += QUERIES)
        queries(j, w, g, image, head, first, least(QUERIES, g->nq - first));
    for (int64_t t = 0; t < g->nk && j->d[K].base; t++) {
        float *const dk = place(&j->d[K], image, head, g->k[t]), *const dv = place(&j->d[V], image, head, g->k[t]);
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
        for (int part = K; part <= V; part++)
            memset(place(&j->d[part], image, head, token), 0, (size_t)a->d * sizeof(float));
    for (int64_t number = 0; number < a->groups; number++)
        group_grad(j, &w, &g, image, head, number);
}

// y, lse and dy are the last three inputs.
static void run_of(const kd_node *n, bool cross, void *scratch)
{
    work w;
    job j = { .a = attn_of(n, cross), .scratch = scratch };
    kd_val *const *const last = n->in + n->n_in - 3;
    const int64_t tokens = j.a.h * j.a.w;
    j.y = (view){ last[0]->data, 0, tokens, j.a.c, j.a.d }, j.dy = (view){ last[2]->data, 0, tokens, j.a.c, j.a.d };
    j.lse = last[1]->data;
    if (cross)
        cross_views(j.d, n->out[0]->used ? n->out[0]->data : NULL, n->out[1]->used ? n->out[1]->data : NULL, &j.a);
    else
        self_views(j.d, n->out[0]->data, &j.a, n->a.attention.order);
    j.room = work_of(&w, &j.a, scratch);
    j.shared_keys = j.a.kind == KD_ATTN_NEIGHBORHOOD;
    kd_parallel(j.a.n * j.a.heads * (j.shared_keys ? 1 : j.a.groups), tile, &j);
}

static size_t scratch_of(const kd_node *n, bool cross)
{
    const attn a = attn_of(n, cross);
    const int64_t room = work_of(&(work){ 0 }, &a, NULL) * kd_threads();
    return (size_t)room * sizeof(float);
}

static void attention_grad(const kd_node *n, void *scratch)
{
    run_of(n, false, scratch);
}

static void cross_attention_grad(const kd_node *n, void *scratch)
{
    run_of(n, true, scratch);
}

static size_t attention_scratch(const kd_node *n) { return scratch_of(n, false); }
static size_t cross_scratch(const kd_node *n) { return scratch_of(n, true); }

const kd_kernel KD_KERNEL(attention_grad) = { attention_grad, attention_scratch };
const kd_kernel KD_KERNEL(cross_attention_grad) = { cross_attention_grad, cross_scratch };
