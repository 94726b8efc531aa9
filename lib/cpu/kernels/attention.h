// How attention is cut into dense products, for attention.c and attention_grad.c.
//
// A group is a set of keys and the queries that look at them; its scores are a dense matrix, masked where the rule says:
//   global         one group: all tokens
//   window         a group a window; the mask keeps apart tokens that the roll brought together
//   neighborhood   a group a tile of TILE x TILE queries; its keys are the rectangle that covers their neighborhoods
//   cross          one group: all pixels look at all of the sequence
// Queries of a group are worked on in blocks of at most QUERIES.
#ifndef KD_ATTENTION_H
#define KD_ATTENTION_H
#include "cpu/kernel.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/mask.h"
#include <math.h>

enum { QUERIES = 64, TILE = 4 };
enum { Q, K, V };

/// Where queries, keys or values lie (or their gradients): head h of token t of image n at
/// base[first + (n * tokens + t) * row + h * head].
typedef struct view { float *base; int64_t first, tokens, row, head; } view;

typedef struct attn {
    int64_t n, h, w, heads, d, c;          // c = heads * d
    kd_attn_kind kind;
    int64_t size, shift;
    int64_t groups, max_q, max_k;          // groups an image and head; largest numbers of queries and keys of a group
    int64_t keys;                          // tokens that can be looked at
    view in[3];                            // Q, K, V
    float factor;
    const float *padding;                  // [n, keys], or NULL
    // dropout of probabilities
    double rate;
    uint32_t layer;
    const int64_t *index;
    const uint64_t *rng;                   // seed and step
} attn;

// One group: tokens in the image's row-major order.
typedef struct group {
    int64_t nq, nk;
    int32_t *q, *k;
    int64_t y0, x0, rows, cols;            // neighborhood: the rectangle of keys. window: y0, x0 number the window
} group;

/// Views of one array [n, tokens, 3c], in either feature order.
static inline void self_views(view v[3], void *qkv, const attn *a, kd_qkv_order order)
{
    for (int part = Q; part <= V; part++)
        v[part] = (view){ qkv, part * (order == KD_QKV_HEADS ? a->d : a->c), a->h * a->w, 3 * a->c,
                          order == KD_QKV_HEADS ? 3 * a->d : a->d };
}

/// Views of q [n, h*w, c] and kv [n, keys, 2c].
static inline void cross_views(view v[3], void *q, void *kv, const attn *a)
{
    v[Q] = (view){ q, 0, a->h * a->w, a->c, a->d };
    v[K] = (view){ kv, 0, a->keys, 2 * a->c, a->d };
    v[V] = (view){ kv, a->c, a->keys, 2 * a->c, a->d };
}

/// From a node's attributes; its inputs begin with qkv, or with q, kv and padding.
static inline attn attn_of(const kd_node *n, bool cross)
{
    const int64_t *const s = n->in[0]->shape.d;
    const kd_attn *const how = &n->a.attention;
    attn a = { .n = s[0], .h = s[1], .w = s[2], .heads = how->heads, .c = cross ? s[3] : s[3] / 3, .kind = how->kind,
               .size = how->size, .shift = how->shift, .factor = (float)how->factor, .rate = how->dropout,
               .layer = how->layer };
    const kd_val *const index = n->in[cross ? 3 : 1], *const rng = n->in[cross ? 4 : 2];
    a.d = a.c / a.heads;
    a.keys = cross ? n->in[1]->shape.d[1] : a.h * a.w;
    a.index = index ? index->data : NULL;
    a.rng = rng ? rng->data : NULL;
    a.padding = cross && n->in[2] ? n->in[2]->data : NULL;
    if (cross)
        cross_views(a.in, n->in[0]->data, n->in[1]->data, &a);
    else
        self_views(a.in, n->in[0]->data, &a, how->order);
    switch (a.kind) {
    case KD_ATTN_WINDOW:
        a.groups = (a.h / a.size) * (a.w / a.size);
        a.max_q = a.max_k = a.size * a.size;
        break;
    case KD_ATTN_NEIGHBORHOOD:
        a.groups = ((a.h + TILE - 1) / TILE) * ((a.w + TILE - 1) / TILE);
        a.max_q = TILE * TILE;
        a.max_k = least(a.h, TILE + a.size - 1) * least(a.w, TILE + a.size - 1);
        break;
    default:
        a.groups = 1;
        a.max_q = a.h * a.w;
        a.max_k = a.keys;
    }
    return a;
}

// First row (or column) of the neighborhood of i on an axis of n. Always `size` of them: near an edge it is not centred.
static inline int64_t neighborhood_start(int64_t i, int64_t n, int64_t size)
{
    const int64_t start = i - size / 2;
    return start < 0 ? 0 : least(start, n - size);
}

static inline void window_group(const attn *a, int64_t number, group *g)
{
    g->y0 = number / (a->w / a->size);
    g->x0 = number % (a->w / a->size);
    g->nq = g->nk = a->size * a->size;
    for (int64_t y = 0, t = 0; y < a->size; y++)
        for (int64_t x = 0; x < a->size; x++, t++) {     // the grid is rolled by +shift: place (y, x) shows (y, x) - shift
            const int64_t from_y = (g->y0 * a->size + y - a->shift + a->h) % a->h, from_x = (g->x0 * a->size + x - a->shift + a->w) % a->w;
            g->q[t] = g->k[t] = (int32_t)(from_y * a->w + from_x);
        }
}

static inline void neighborhood_group(const attn *a, int64_t number, group *g)
{
    const int64_t across = (a->w + TILE - 1) / TILE, qy = number / across * TILE, qx = number % across * TILE;
    const int64_t ny = least(TILE, a->h - qy), nx = least(TILE, a->w - qx);
    g->nq = 0;
    for (int64_t y = qy; y < qy + ny; y++)
        for (int64_t x = qx; x < qx + nx; x++)
            g->q[g->nq++] = (int32_t)(y * a->w + x);
    g->y0 = neighborhood_start(qy, a->h, a->size);
    g->x0 = neighborhood_start(qx, a->w, a->size);
    g->rows = neighborhood_start(qy + ny - 1, a->h, a->size) + a->size - g->y0;
    g->cols = neighborhood_start(qx + nx - 1, a->w, a->size) + a->size - g->x0;
    g->nk = 0;
    for (int64_t y = g->y0; y < g->y0 + g->rows; y++)
        for (int64_t x = g->x0; x < g->x0 + g->cols; x++)
            g->k[g->nk++] = (int32_t)(y * a->w + x);
}

static inline void group_at(const attn *a, int64_t number, group *g)
{
    if (a->kind == KD_ATTN_WINDOW)
        window_group(a, number, g);
    else if (a->kind == KD_ATTN_NEIGHBORHOOD)
        neighborhood_group(a, number, g);
    else {
        g->nq = a->h * a->w;
        g->nk = a->keys;
        for (int64_t t = 0; t < g->nq; t++)
            g->q[t] = (int32_t)t;
        for (int64_t t = 0; t < g->nk; t++)
            g->k[t] = (int32_t)t;
    }
}

// Which side of the roll's seam a place of a window lies on; tokens of different sides do not see each other.
static inline int seam_side(const attn *a, const group *g, int64_t place)
{
    return (g->y0 == 0 && place / a->size < a->shift ? 1 : 0) | (g->x0 == 0 && place % a->size < a->shift ? 2 : 0);
}

// Scores of query `place` (its number in the group) that the rule forbids become -infinity; padding is subtracted.
static inline void mask_row(const attn *a, const group *g, int64_t image, int64_t place, float *s)
{
    if (a->padding)
        for (int64_t t = 0; t < g->nk; t++)
            s[t] -= 10000 * a->padding[image * a->keys + t];
    if (a->kind == KD_ATTN_WINDOW && a->shift && (g->y0 == 0 || g->x0 == 0)) {
        const int side = seam_side(a, g, place);
        for (int64_t t = 0; t < g->nk; t++)
            if (seam_side(a, g, t) != side)
                s[t] = -INFINITY;
    }
    if (a->kind == KD_ATTN_NEIGHBORHOOD) {
        const int64_t top = neighborhood_start(g->q[place] / a->w, a->h, a->size) - g->y0;
        const int64_t left = neighborhood_start(g->q[place] % a->w, a->w, a->size) - g->x0;
        for (int64_t y = 0; y < g->rows; y++)
            for (int64_t x = 0; x < g->cols; x++)
                if (y < top || y >= top + a->size || x < left || x >= left + a->size)
                    s[y * g->cols + x] = -INFINITY;
    }
}

static inline void copy_row(float *restrict to, const float *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
}

static inline float *place(const view *v, int64_t image, int64_t head, int64_t token)
{
    return v->base + v->first + (image * v->tokens + token) * v->row + head * v->head;
}

// Rows of one head for n tokens, made contiguous.
static inline void gather(float *to, const attn *a, const view *v, int64_t image, int64_t head, const int32_t *token, int64_t n)
{
    for (int64_t t = 0; t < n; t++)
        memcpy(to + t * a->d, place(v, image, head, token[t]), (size_t)a->d * sizeof(float));
}

// Queries, or their gradients: times the factor.
static inline void scale_rows(float *x, const attn *a, int64_t n)
{
    for (int64_t i = 0; i < n * a->d && a->factor != 1; i++)
        x[i] *= a->factor;
}

// Dropout's factor of each probability of a row (global and cross: token and place are one). A row takes whole draws: keep has
// room for keep_room floats.
static inline int64_t keep_room(const attn *a)
{
    return a->rate > 0 ? ceil_div(a->keys, MASK_DRAW) * MASK_DRAW : 0;
}

static inline void keep_row(const attn *a, int64_t image, int64_t head, int64_t query, float *keep)
{
    const int64_t row = keep_room(a), first = (head * a->h * a->w + query) * row;
    const mask m = mask_of(a->rng, a->layer, a->index[image], a->rate);
    for (int64_t t = 0; t < row; t += MASK_DRAW)
        mask_draw(&m, first + t, keep + t);
}

// Working memory of a thread, cut piece by piece; every piece starts at a multiple of 16 floats. Without a base it only counts.
typedef struct carve { float *base; int64_t used; } carve;

static inline float *carve_floats(carve *c, int64_t floats)
{
    float *const p = c->base ? c->base + c->used : NULL;
    c->used += (floats + 15) / 16 * 16;
    return p;
}

static inline int64_t score_stride(const attn *a)
{
    return (a->max_k + NR - 1) / NR * NR + 16;           // not a power of two: columns are walked too
}

#endif
