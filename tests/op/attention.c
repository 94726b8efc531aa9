#include "tests/op/test.h"
#include "base/random.h"
#include "op/unet.h"

static const int64_t cases[][8] = { /* N, H, W, heads, d, kind, kernel or window, shift */
    { 1, 1, 1, 1, 8, KD_ATTN_GLOBAL, 0, 0 },
    { 2, 3, 5, 3, 8, KD_ATTN_GLOBAL, 0, 0 },
    { 1, 9, 15, 1, 40, KD_ATTN_GLOBAL, 0, 0 },         // more than a block of keys, odd head
    { 1, 7, 10, 2, 64, KD_ATTN_GLOBAL, 0, 0 },
    { 1, 7, 7, 2, 8, KD_ATTN_NEIGHBORHOOD, 7, 0 },     // kernel as large as the grid
    { 2, 6, 9, 1, 8, KD_ATTN_NEIGHBORHOOD, 3, 0 },
    { 1, 8, 5, 2, 24, KD_ATTN_NEIGHBORHOOD, 5, 0 },
    { 1, 14, 13, 1, 32, KD_ATTN_NEIGHBORHOOD, 7, 0 },
    { 2, 2, 3, 1, 8, KD_ATTN_NEIGHBORHOOD, 1, 0 },     // sees itself alone
    { 1, 8, 8, 2, 8, KD_ATTN_WINDOW, 4, 0 },
    { 2, 8, 8, 1, 8, KD_ATTN_WINDOW, 4, 2 },
    { 1, 4, 8, 2, 16, KD_ATTN_WINDOW, 4, 2 },          // one row of windows is first and last
    { 1, 6, 6, 1, 8, KD_ATTN_WINDOW, 3, 1 },
    { 1, 16, 8, 1, 64, KD_ATTN_WINDOW, 8, 4 },
    { 1, 3, 3, 1, 8, KD_ATTN_WINDOW, 3, 1 } };

static kd_val *build(t_build *b)
{
    const int64_t *c = b->c;
    kd_val *qkv = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2], 3 * c[3] * c[4]), NORMAL(.1, 1.5 / pow((double)c[4], .25)));
    const kd_attn a = { .kind = (kd_attn_kind)c[5], .heads = c[3], .size = c[6], .shift = c[7] };
    return kd_attention(b->g, qkv, NULL, NULL, a);
}

static int64_t start(int64_t i, int64_t kernel, int64_t n)          // of a token's neighborhood
{
    const int64_t s = i - kernel / 2;
    return s < 0 ? 0 : s > n - kernel ? n - kernel : s;
}

/// Does token (y, x) see token (v, u)? For windows both are taken to the grid rolled by +shift.
static bool sees(const int64_t *c, int64_t y, int64_t x, int64_t v, int64_t u)
{
    const int64_t h = c[1], w = c[2], k = c[6], s = c[7];
    if (c[5] == KD_ATTN_GLOBAL) return true;
    if (c[5] == KD_ATTN_NEIGHBORHOOD) {
        const int64_t dy = v - start(y, k, h), dx = u - start(x, k, w);
        return dy >= 0 && dy < k && dx >= 0 && dx < k;
    }
    y = (y + s) % h, v = (v + s) % h, x = (x + s) % w, u = (u + s) % w;
    if (y / k != v / k || x / k != u / k) return false;
    return (y / k || (y < s) == (v < s)) && (x / k || (x < s) == (u < s));
}

static void token(const t_ref *r, int64_t n, int64_t y, int64_t x, int64_t head)
{
    const int64_t *c = r->c, h = c[1], w = c[2], d = c[4], all = c[3] * d;
    const double *qkv = r->in[0] + n * h * w * 3 * all + head * d, *q = qkv + (y * w + x) * 3 * all;
    double p[256], sum = 0, *to = r->y + ((n * h + y) * w + x) * all + head * d;
    for (int64_t t = 0; t < h * w; t++) {
        double s = 0;
        for (int64_t i = 0; i < d; i++) s += q[i] * qkv[t * 3 * all + all + i];
        p[t] = sees(c, y, x, t / w, t % w) ? exp(s) : 0;
        sum += p[t];
    }
    memset(to, 0, (size_t)d * sizeof *to);
    for (int64_t t = 0; t < h * w; t++)
        for (int64_t i = 0; p[t] != 0 && i < d; i++) to[i] += p[t] / sum * qkv[t * 3 * all + 2 * all + i];
}

static void ref(const t_ref *r)
{
    const int64_t *c = r->c;
    for (int64_t n = 0; n < c[0]; n++)
        for (int64_t y = 0; y < c[1]; y++)
            for (int64_t x = 0; x < c[2]; x++)
                for (int64_t head = 0; head < c[3]; head++) token(r, n, y, x, head);
}

KD_TEST_OP(attention, cases, .build = build, .ref = ref)

// What UNets ask for: a factor, guided-diffusion's old order of features, dropout; and cross-attention -------------------

static const int64_t unet[][8] = { /* N, H, W, heads, d, keys (0: self), heads first, dropout 1/1000 */
    { 1, 1, 1, 1, 1, 0, 0, 0 }, { 2, 3, 5, 2, 4, 0, 0, 0 }, { 2, 3, 5, 3, 4, 0, 1, 0 }, { 2, 9, 9, 2, 24, 0, 1, 0 },
    { 3, 4, 5, 2, 8, 0, 0, 250 }, { 2, 9, 8, 1, 16, 0, 1, 100 }, { 1, 2, 2, 1, 3, 1, 0, 0 }, { 2, 3, 4, 2, 5, 7, 0, 0 },
    { 2, 9, 8, 2, 16, 70, 0, 0 }, { 3, 3, 3, 2, 8, 5, 0, 200 } };

/// Every third key of the sequence is padding, the first never.
static void fill_padding(kd_val *p, int64_t keys)
{
    for (int64_t i = 0; p && i < kd_count(p); i++) ((float *)p->host)[i] = i % keys % 3 == 2;
}

static kd_val *build_unet(t_build *b)
{
    const int64_t *c = b->c, all = c[3] * c[4];
    const double d = 1.5;
    const kd_attn a = { .heads = c[3], .order = c[6] ? KD_QKV_HEADS : KD_QKV_PARTS, .factor = 1 / sqrt((double)c[4]),
                  .dropout = (double)c[7] / 1000 };
    kd_val *q = t_input(b, T_IMAGES, KD_SHAPE(c[0], c[1], c[2], c[5] ? all : 3 * all), NORMAL(.1, d));
    kd_val *kv = c[5] ? t_input(b, T_IMAGES, KD_SHAPE(c[0], c[5], 2 * all), NORMAL(.1, d)) : NULL;
    kd_val *index = c[7] ? t_input(b, T_IMAGES, KD_SHAPE(c[0]), INDEX(100000)) : NULL;
    kd_val *rng = c[7] ? t_rng(b) : NULL;
    if (!c[5]) return kd_attention(b->g, q, index, rng, a);
    kd_val *padding = kd_const(b->g, "padding", KD_SHAPE(c[0], c[5]), NULL);
    fill_padding(padding, c[5]);
    return kd_cross_attention(b->g, q, kv, padding, index, rng, a);
}

/// Feature i of part (0 q, 1 k, 2 v) of a head of a token.
static double part_of(const t_ref *r, int64_t n, int64_t token, int64_t head, int part, int64_t i)
{
    const int64_t *c = r->c, d = c[4], all = c[3] * d;
    if (c[5] && part) return r->in[1][(n * c[5] + token) * 2 * all + (part - 1) * all + head * d + i];
    if (c[5]) return r->in[0][(n * c[1] * c[2] + token) * all + head * d + i];
    return r->in[0][(n * c[1] * c[2] + token) * 3 * all + (c[6] ? (head * 3 + part) * d : part * all + head * d) + i];
}

static void pixel(const t_ref *r, int64_t n, int64_t q, int64_t head)
{
    const int64_t *c = r->c, d = c[4], tokens = c[1] * c[2], keys = c[5] ? c[5] : tokens, row = (keys + 63) / 64 * 64;
    double p[256], sum = 0, *to = r->y + ((n * tokens + q) * c[3] + head) * d;
    for (int64_t t = 0; t < keys; t++) {
        double s = 0;
        for (int64_t i = 0; i < d; i++) s += part_of(r, n, q, head, 0, i) * part_of(r, n, t, head, 1, i) / sqrt((double)d);
        sum += p[t] = exp(s - (c[5] && t % 3 == 2 ? 10000 : 0));
    }
    memset(to, 0, (size_t)d * sizeof *to);
    for (int64_t t = 0; t < keys; t++) {
        const double rate = (double)c[7] / 1000, *index = r->in[c[5] ? 2 : 1];
        if (rate > 0) {
            const kd_rng rng = kd_rng_of(T_SEED, KD_RNG_DROPOUT, kd_rng_node("layer"), (uint64_t)index[n], T_STEP);
            p[t] *= (double)kd_rng_uniform(&rng, (uint64_t)((head * tokens + q) * row + t)) < rate ? 0 : 1 / (1 - rate);
        }
        for (int64_t i = 0; i < d; i++) to[i] += p[t] / sum * part_of(r, n, t, head, 2, i);
    }
}

static void ref_unet(const t_ref *r)
{
    const int64_t *c = r->c;
    for (int64_t i = 0; i < c[0] * c[1] * c[2] * c[3]; i++) pixel(r, i / c[3] / (c[1] * c[2]), i / c[3] % (c[1] * c[2]), i % c[3]);
}

KD_TEST_OP(attention_unet, unet, .build = build_unet, .ref = ref_unet)
