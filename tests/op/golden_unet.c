// Operations of UNets and of transformer v1 against the peers' own results in float64 (tests/golden/ops.safetensors, as golden.c).
// The file's images are N C H W: they are carried over, and every comparison is made in our layout.
#include "tests/op/test.h"
#include "base/memory.h"
#include "op/unet.h"
#include "tests/support/golden.h"
#include <stdlib.h>

static const double TOL = 1e-6;

typedef struct peer {
    t_run *t;
    kd_frame *f;
    const char *op;
    kd_graph *g;
    kd_val *in[KD_MAX_IN];
    float *data[KD_MAX_IN];
    const char *grad[KD_MAX_IN];           // the peer's name of the input's gradient
    int n;
} peer;

static const kd_tensor *tensor(const peer *p, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", p->op, name);
    const kd_tensor *x = kd_frame_get(p->f, full);
    t_check(p->t, x != NULL, "%s is not in the file", full);
    return x;
}

/// A tensor's values; of [N,C,..] with channels last, if asked.
static double *values(const peer *p, const char *name, bool channels_last)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", p->op, name);
    int64_t n;
    double *x = golden_f64(p->f, full, &n);
    if (!channels_last) return x;
    const int64_t *s = tensor(p, name)->shape.d, c = s[1], places = n / (s[0] * c);
    double *y = malloc((size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) y[(i / (c * places) * places + i % places) * c + i / places % c] = x[i];
    free(x);
    return y;
}

static float *floats(const peer *p, const char *name, bool channels_last)
{
    const int64_t n = kd_tensor_count(tensor(p, name));
    double *x = values(p, name, channels_last);
    float *y = kd_alloc((size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) y[i] = (float)x[i];
    free(x);
    return y;
}

static void begin(peer *p, const char *op)
{
    p->op = op, p->n = 0;
    p->g = kd_graph_new();
}

/// An input with values of its own, which the peer frees.
static kd_val *input(peer *p, const char *name, kd_shape shape, float *data, const char *grad)
{
    p->data[p->n] = data, p->grad[p->n] = grad;
    return p->in[p->n++] = kd_input(p->g, name, KD_F32, shape);
}

/// The peer's x [N,C,H,W] as [N,H,W,C]; [N,C,T] as [N,1,T,C].
static kd_val *image(peer *p, const char *name, const char *grad)
{
    const kd_shape *s = &tensor(p, name)->shape;
    const kd_shape to = s->n == 4 ? KD_SHAPE(s->d[0], s->d[2], s->d[3], s->d[1]) : KD_SHAPE(s->d[0], 1, s->d[2], s->d[1]);
    return input(p, name, to, floats(p, name, true), grad);
}

static kd_val *plain(peer *p, const char *name, const char *grad)
{
    return input(p, name, tensor(p, name)->shape, floats(p, name, false), grad);
}

static void compare(const peer *p, const char *name, const float *got, bool channels_last)
{
    char what[96];
    snprintf(what, sizeof what, "%s.%s", p->op, name);
    double *want = values(p, name, channels_last);
    t_close(p->t, what, got, want, kd_tensor_count(tensor(p, name)), TOL);
    free(want);
}

/// Runs y and the gradients that have a name, and compares. Inputs of four axes are images; image_out: y is one too.
static void finish(peer *p, kd_val *y, bool image_out)
{
    kd_val *wrt[KD_MAX_IN], *out[KD_MAX_IN + 1] = { y };
    float *to[KD_MAX_IN + 1];
    const char *name[KD_MAX_IN + 1] = { "out" };
    bool last[KD_MAX_IN + 1] = { image_out };
    const int n = p->n;
    int k = 0;
    for (int i = 0; i < n; i++) {
        if (!p->grad[i]) continue;
        wrt[k++] = p->in[i], name[k] = p->grad[i], last[k] = p->in[i]->shape.n == 4;
    }
    kd_err err = { 0 };
    if (y) kd_grad(p->g, y, input(p, "dy", y->shape, floats(p, "v", image_out), NULL), wrt, k, out + 1);
    if (kd_graph_error(p->g, &err)) {
        t_check(p->t, false, "%s: %s", p->op, err.msg);
        return;
    }
    for (int i = 0; i <= k; i++) to[i] = kd_alloc((size_t)kd_count(out[i]) * sizeof(float));
    if (!t_run_graph(p->t, p->g, p->in, (const void *const *)p->data, p->n, out, to, k + 1))
        for (int i = 0; i <= k; i++) compare(p, name[i], to[i], last[i]);
    for (int i = 0; i <= k; i++) kd_free(to[i]);
    for (int i = 0; i < p->n; i++) kd_free(p->data[i]);
}

static void networks(peer *p)
{
    begin(p, "down2d");
    finish(p, kd_resample(p->g, image(p, "x", "grad.x"), KD_FIR_DOWN), true);
    begin(p, "up2d");
    finish(p, kd_resample(p->g, image(p, "x", "grad.x"), KD_FIR_UP), true);

    begin(p, "adagn");
    kd_val *x = image(p, "x", "grad.x"), *cond = plain(p, "cond", "grad.cond"), *w = plain(p, "weight", "grad.weight");
    kd_val *ada = kd_linear(p->g, cond, w, plain(p, "bias", "grad.bias"), NULL);
    finish(p, kd_group_norm(p->g, x, NULL, NULL, ada, 2, 1e-5, KD_ACT_NONE), true);

    begin(p, "groupnorm32");
    x = image(p, "x", "grad.x"), w = plain(p, "weight", "grad.weight");
    finish(p, kd_group_norm(p->g, x, w, plain(p, "bias", "grad.bias"), NULL, 32, 1e-5, KD_ACT_NONE), true);

    begin(p, "silu");
    finish(p, kd_activate(p->g, plain(p, "x", "grad.x"), KD_ACT_SILU), false);
    begin(p, "gelu");
    finish(p, kd_activate(p->g, plain(p, "x", "grad.x"), KD_ACT_GELU), false);

    begin(p, "qkv_new_order");
    x = image(p, "qkv", "grad.qkv");
    finish(p, kd_attention(p->g, x, NULL, NULL, (kd_attn){ .heads = 2, .factor = .5 }), true);
    begin(p, "qkv_old_order");
    x = image(p, "qkv", "grad.qkv");
    finish(p, kd_attention(p->g, x, NULL, NULL, (kd_attn){ .heads = 2, .factor = .5, .order = KD_QKV_HEADS }), true);
}

static void timesteps(peer *p, const char *name, int64_t dim, double max_period)
{
    kd_val *y;
    begin(p, "t_emb");
    y = kd_timestep_embedding(p->g, plain(p, "t", NULL), dim, max_period);
    float *got = kd_alloc((size_t)kd_count(y) * sizeof *got);
    if (!t_run_graph(p->t, p->g, p->in, (const void *const *)p->data, 1, &y, &got, 1)) compare(p, name, got, false);
    kd_free(got);
    kd_free(p->data[0]);
}

// Transformer v1: queries alone; keys and values are 0 ----------------------------------------------------------------

enum { PARTS = 3 };

/// [n, heads, tokens, d] into the queries of [n, tokens, PARTS, heads, d], and back.
static void queries(float *qkv, double *theirs, const int64_t *s, bool back)
{
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3]; i++) {
        const int64_t k = i % s[3], token = i / s[3] % s[2], head = i / s[3] / s[2] % s[1], n = i / s[3] / s[2] / s[1];
        float *const ours = qkv + ((n * s[2] + token) * PARTS * s[1] + head) * s[3] + k;
        if (back) theirs[i] = (double)*ours;
        else *ours = (float)theirs[i];
    }
}

/// One run: y, the gradient of the first input and of those that follow. dy is the queries' alone.
static void run_queries(peer *p, kd_val *y, float *dy, int n_grad, float *to[])
{
    kd_val *out[KD_MAX_IN] = { y }, *wrt[KD_MAX_IN];
    memcpy(wrt, p->in, sizeof wrt);
    kd_grad(p->g, y, input(p, "dy", y->shape, dy, NULL), wrt, n_grad, out + 1);
    for (int k = 0; k <= n_grad; k++) to[k] = kd_alloc((size_t)kd_count(out[k]) * sizeof(float));
    t_run_graph(p->t, p->g, p->in, (const void *const *)p->data, p->n, out, to, n_grad + 1);
}

static void compare_queries(const peer *p, const char *name, float *qkv, const int64_t *s)
{
    const int64_t n = s[0] * s[1] * s[2] * s[3];
    double *got = malloc((size_t)n * sizeof *got);
    float *rounded = kd_alloc((size_t)n * sizeof *rounded);
    queries(qkv, got, s, true);
    for (int64_t i = 0; i < n; i++) rounded[i] = (float)got[i];
    compare(p, name, rounded, false);
    free(got);
    kd_free(rounded);
}

/// Scaling alone: all positions 0.
static void qk_norm_v1(peer *p)
{
    begin(p, "v1_qk_norm");
    const int64_t *s = tensor(p, "x")->shape.d, all = PARTS * s[0] * s[1] * s[2] * s[3];
    float *qkv = kd_alloc((size_t)all * sizeof *qkv), *dy = kd_alloc((size_t)all * sizeof *dy), *to[3];
    double *x = values(p, "x", false), *v = values(p, "v", false);
    queries(qkv, x, s, false);
    queries(dy, v, s, false);
    kd_val *in = input(p, "qkv", KD_SHAPE(s[0], 1, s[2], PARTS * s[1] * s[3]), qkv, NULL), *scale = plain(p, "scale", NULL);
    kd_val *freqs = kd_const(p->g, "freqs", KD_SHAPE(s[1], s[3] / 4), NULL), *pos = kd_const(p->g, "pos", KD_SHAPE(s[2], 2), NULL);
    run_queries(p, kd_qk_norm_rope_v1(p->g, in, scale, kd_rope_table_v1(p->g, freqs, freqs, pos)), dy, 2, to);
    compare_queries(p, "out", to[0], s);
    compare_queries(p, "grad.x", to[1], s);
    compare(p, "grad.scale", to[2], false);
    free(x), free(v);
    for (int k = 0; k < 3; k++) kd_free(to[k]), kd_free(p->data[k]);
}

/// Turning alone, and the frequencies' gradients: what the scaling does to a query is undone in the result, and in dy.
static void rope_v1(peer *p)
{
    begin(p, "v1_rope");
    const int64_t *s = tensor(p, "x")->shape.d, d = s[3], all = PARTS * s[0] * s[1] * s[2] * d;
    float *qkv = kd_alloc((size_t)all * sizeof *qkv), *dy = kd_alloc((size_t)all * sizeof *dy), *to[4];
    float *one = kd_alloc((size_t)s[1] * sizeof *one), *pos = kd_alloc((size_t)s[2] * 2 * sizeof *pos);
    double *x = values(p, "x", false), *v = values(p, "v", false);
    for (int64_t i = 0; i < s[1]; i++) one[i] = (float)(log((double)d) / 2);       // k = 1
    for (int64_t t = 0; t < 6; t++) {              // 2x3 tokens, pixel aspect ratio 0.5: y within 1/3, x within 1
        pos[2 * t] = (float)(t / 3 ? 1. / 6 : -1. / 6);
        pos[2 * t + 1] = (float)((double)(t % 3 - 1) * 2 / 3);
    }
    for (int64_t i = 0; i < s[0] * s[1] * s[2]; i++) {
        double sum = 0;
        for (int64_t k = 0; k < d; k++) sum += x[i * d + k] * x[i * d + k] / (double)d;
        for (int64_t k = 0; k < d; k++) v[i * d + k] *= sqrt(sum + 1e-6);
    }
    queries(qkv, x, s, false);
    queries(dy, v, s, false);
    kd_val *h = plain(p, "freqs_h", NULL), *w = plain(p, "freqs_w", NULL);
    kd_val *in = input(p, "qkv", KD_SHAPE(s[0], 2, 3, PARTS * s[1] * d), qkv, NULL), *scale = input(p, "scale", KD_SHAPE(s[1]), one, NULL);
    kd_val *table = kd_rope_table_v1(p->g, h, w, input(p, "pos", KD_SHAPE(6, 2), pos, NULL));
    run_queries(p, kd_qk_norm_rope_v1(p->g, in, scale, table), dy, 2, to);
    for (int64_t token = 0; token < s[0] * s[2]; token++)
        for (int64_t head = 0; head < s[1]; head++) {
            float *const y = to[0] + (token * PARTS * s[1] + head) * d, *const q = qkv + (token * PARTS * s[1] + head) * d;
            double sum = 0;
            for (int64_t k = 0; k < d; k++) sum += (double)q[k] * (double)q[k] / (double)d;
            for (int64_t k = 0; k < d; k++) y[k] = (float)((double)y[k] * sqrt(sum + 1e-6));
        }
    compare_queries(p, "out", to[0], s);
    compare(p, "grad.freqs_h", to[1], false);
    compare(p, "grad.freqs_w", to[2], false);
    free(x), free(v);
    for (int k = 0; k < 3; k++) kd_free(to[k]);
    for (int k = 0; k < p->n; k++) kd_free(p->data[k]);
}

static void all(t_run *t)
{
    peer p = { .t = t, .f = golden_load("ops") };
    networks(&p);
    timesteps(&p, "max_period10000.dim32", 32, 10000);
    timesteps(&p, "max_period10000.dim17", 17, 10000);
    timesteps(&p, "max_period1000.dim32", 32, 1000);
    qk_norm_v1(&p);
    rope_v1(&p);
    kd_frame_free(p.f);
}

KD_TEST_FN(golden_unet, all)
