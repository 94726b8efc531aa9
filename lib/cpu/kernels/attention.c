// y = softmax(f q k^T + mask) v and the log of each row's sum.    op: lib/op/attention.c
// A tile is a group of one image and head (attention.h): keys are packed once, then blocks of queries.
#include "cpu/kernels/attention.h"
#include "cpu/kernels/vmath.h"

typedef struct job {
    attn a;
    float *y, *lse, *scratch;
    int64_t room;                          // floats of scratch a thread
} job;

typedef struct work { float *rows, *keys, *values, *q, *s, *o, *keep; int32_t *token; } work;

static int64_t work_of(work *w, const attn *a, float *base)
{
    carve c = { base, 0 };
    w->rows = carve_floats(&c, a->max_k * a->d);
    w->keys = carve_floats(&c, gemm_packed(a->d, a->max_k));
    w->values = carve_floats(&c, gemm_packed(a->max_k, a->d));
    w->q = carve_floats(&c, QUERIES * a->d);
    w->s = carve_floats(&c, QUERIES * score_stride(a));
    w->o = carve_floats(&c, QUERIES * a->d);
    w->keep = carve_floats(&c, keep_room(a));
    w->token = (int32_t *)carve_floats(&c, a->max_q + a->max_k);
    return c.used;
}

// Scores to exponentials; returns their sum, and the row's maximum in *top.
static float softmax_row(float *s, int64_t n, float *top)
{
    float m = s[0];
    for (int64_t t = 1; t < n; t++)
        m = s[t] > m ? s[t] : m;
    float lane[16] = { 0 };                // a fixed order of summation whatever the vector width
    int64_t t = 0;
    for (; t + 16 <= n; t += 16)
        for (int l = 0; l < 16; l++) {
            s[t + l] = kd_vexp(s[t + l] - m);
            lane[l] += s[t + l];
        }
    for (int l = 0; t < n; t++, l++) {
        s[t] = kd_vexp(s[t] - m);
        lane[l] += s[t];
    }
    for (int half = 8; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    *top = m;
    return lane[0];
}

static void queries(const job *j, const work *w, const group *g, int64_t image, int64_t head, int64_t first, int64_t n)
{
    const attn *const a = &j->a;
    const int64_t ld = score_stride(a), tokens = a->h * a->w;
    gather(w->q, a, &a->in[Q], image, head, g->q + first, n);
    scale_rows(w->q, a, n);
    gemm_panels(n, g->nk, a->d, false, w->q, a->d, 1, w->keys, w->s, ld);
    float scale[QUERIES];
    for (int64_t r = 0; r < n; r++) {
        float *const s = w->s + r * ld, top;
        mask_row(a, g, image, first + r, s);
        const float sum = softmax_row(s, g->nk, &top);
        scale[r] = 1 / sum;
        if (j->lse)
            j->lse[(image * a->heads + head) * tokens + g->q[first + r]] = top + logf(sum);
        if (a->rate > 0) {
            keep_row(a, image, head, g->q[first + r], w->keep);
            for (int64_t t = 0; t < g->nk; t++)
                s[t] *= w->keep[t];
        }
    }
    gemm_panels(n, a->d, g->nk, false, w->s, ld, 1, w->values, w->o, a->d);
    for (int64_t r = 0; r < n; r++) {
        float *const y = j->y + (image * tokens + g->q[first + r]) * a->c + head * a->d;
        for (int64_t c = 0; c < a->d; c++)
            y[c] = w->o[r * a->d + c] * scale[r];
    }
}

static void tile(void *arg, int64_t t, int thread)
{
    const job *const j = arg;
    const attn *const a = &j->a;
    work w;
    work_of(&w, a, j->scratch + thread * j->room);
    group g = { .q = w.token, .k = w.token + a->max_q };
    const int64_t image = t / a->groups / a->heads, head = t / a->groups % a->heads;
    group_at(a, t % a->groups, &g);
    gather(w.rows, a, &a->in[K], image, head, g.k, g.nk);
    gemm_pack_t(w.keys, w.rows, a->d, a->d, g.nk);
    gather(w.rows, a, &a->in[V], image, head, g.k, g.nk);
    gemm_pack(w.values, w.rows, a->d, g.nk, a->d);
    for (int64_t first = 0; first < g.nq; first += QUERIES)
        queries(j, &w, &g, image, head, first, least(QUERIES, g.nq - first));
}

static void run_of(const kd_node *n, bool cross, void *scratch)
{
    work w;
    job j = { .a = attn_of(n, cross), .y = n->out[0]->data, .lse = n->out[1]->used ? n->out[1]->data : NULL, .scratch = scratch };
    j.room = work_of(&w, &j.a, scratch);
    kd_parallel(j.a.n * j.a.heads * j.a.groups, tile, &j);
}

static size_t scratch_of(const kd_node *n, bool cross)
{
    const attn a = attn_of(n, cross);
    work w;
    return (size_t)(work_of(&w, &a, NULL) * kd_threads()) * sizeof(float);
}

static void attention(const kd_node *n, void *scratch)
{
    run_of(n, false, scratch);
}

static void cross_attention(const kd_node *n, void *scratch)
{
    run_of(n, true, scratch);
}

static size_t attention_scratch(const kd_node *n) { return scratch_of(n, false); }
static size_t cross_scratch(const kd_node *n) { return scratch_of(n, true); }

const kd_kernel KD_KERNEL(attention) = { attention, attention_scratch };
const kd_kernel KD_KERNEL(cross_attention) = { cross_attention, cross_scratch };
