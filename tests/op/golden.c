// Single operations against k-diffusion's own results in float64: tests/golden/ops.safetensors holds for each operation its
// inputs, out, v, and the gradient of sum(out * v). Tensors that are laid out otherwise than our ops are carried over.
#include "tests/op/test.h"
#include "base/memory.h"
#include "cpu/kernels/vmath.h"
#include "formats/safetensors.h"

static const double TOL = 1e-6;

typedef struct golden {
    t_run *t;
    kd_frame *f;
    const char *op;
    kd_graph *g;
    kd_val *in[KD_MAX_IN];
    const void *data[KD_MAX_IN];
    const char *name[KD_MAX_IN];
    int n;
} golden;

static const kd_tensor *tensor(const golden *z, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", z->op, name);
    const kd_tensor *x = kd_frame_get(z->f, full);
    t_check(z->t, x != NULL, "%s is not in the file", full);
    return x;
}

static void begin(golden *z, const char *op)
{
    z->op = op, z->n = 0;
    z->g = kd_graph_new();
}

static kd_val *input(golden *z, const char *name, kd_shape shape, const void *data)
{
    z->name[z->n] = name, z->data[z->n] = data;
    return z->in[z->n++] = kd_input(z->g, name, KD_F32, shape);
}

static kd_val *arg(golden *z, const char *name)
{
    const kd_tensor *x = tensor(z, name);
    return input(z, name, x->shape, x->data);
}

static void close_to(const golden *z, const char *name, const float *got, const double *want, int64_t n)
{
    char what[96];
    snprintf(what, sizeof what, "%s.%s", z->op, name);
    t_close(z->t, what, got, want, n, TOL);
}

/// Runs y and, with gradients, those of the first n_grad inputs for dy. out[0] is y, out[1 + k] the gradient of input k.
static void evaluate(golden *z, kd_val *y, const float *dy, int n_grad, float *out[])
{
    kd_val *outs[1 + KD_MAX_IN] = { y }, *wrt[KD_MAX_IN];
    kd_err err = { 0 };
    if (n_grad) {
        memcpy(wrt, z->in, sizeof wrt);
        kd_grad(z->g, y, input(z, "v", y->shape, dy), wrt, n_grad, outs + 1);
    }
    if (kd_graph_error(z->g, &err)) {
        t_check(z->t, false, "%s: %s", z->op, err.msg);
        return;
    }
    for (int k = 0; k < 1 + n_grad; k++) out[k] = kd_alloc((size_t)kd_count(outs[k]) * sizeof(float));
    t_run_graph(z->t, z->g, z->in, z->data, z->n, outs, out, 1 + n_grad);
}

/// For operations that are laid out as ours.
static void finish(golden *z, kd_val *y, int n_grad)
{
    float *out[1 + KD_MAX_IN] = { 0 };
    const kd_tensor *want = tensor(z, "out");
    evaluate(z, y, tensor(z, "v")->data, n_grad, out);
    close_to(z, "out", out[0], want->data, kd_tensor_count(want));
    for (int k = 0; k < n_grad; k++) {
        char name[64];
        snprintf(name, sizeof name, "grad.%s", z->name[k]);
        want = tensor(z, name);
        close_to(z, name, out[1 + k], want->data, kd_tensor_count(want));
    }
    for (int k = 0; k < 1 + n_grad; k++) kd_free(out[k]);
}

static void plain(golden *z)
{
    begin(z, "rms_norm");
    kd_val *x = arg(z, "x");
    finish(z, kd_rms_norm(z->g, x, arg(z, "scale"), 0, 1e-6f), 2);

    begin(z, "linear_geglu");
    x = arg(z, "x");
    finish(z, kd_linear_geglu(z->g, x, arg(z, "weight")), 2);

    begin(z, "fourier");
    x = arg(z, "x");
    finish(z, kd_fourier(z->g, x, arg(z, "weight")), 0);

    begin(z, "token_merge");
    x = arg(z, "x");
    finish(z, kd_linear(z->g, kd_patch_merge(z->g, x, 2, 3), arg(z, "weight"), NULL, NULL), 2);

    begin(z, "token_split");
    x = arg(z, "x");
    kd_val *w = arg(z, "weight"), *skip = arg(z, "skip"), *fac = arg(z, "fac");
    finish(z, kd_lerp(z->g, skip, kd_patch_split(z->g, kd_linear(z->g, x, w, NULL, NULL), 2, 2), fac), 4);
}

static void gelu(golden *z)
{
    z->op = "gelu";
    const kd_tensor *x = tensor(z, "x");
    const int64_t n = kd_tensor_count(x);
    const float *v = tensor(z, "v")->data;
    float *y = kd_alloc((size_t)n * 2 * sizeof *y), *dx = y + n;
    for (int64_t i = 0; i < n; i++) {
        y[i] = kd_vgelu(((float *)x->data)[i]);
        dx[i] = v[i] * kd_vgelu_grad(((float *)x->data)[i]);
    }
    close_to(z, "out", y, tensor(z, "out")->data, n);
    close_to(z, "grad.x", dx, tensor(z, "grad.x")->data, n);
    kd_free(y);
}

// Queries, keys and values in one array --------------------------------------------------------------------------------

/// Shape of one of q, k, v: [n,h,w,heads,d], or [n,heads,h,w,d] where heads come first.
typedef struct layout { int64_t n, h, w, heads, d; bool heads_first; } layout;

/// The head's place in our layout [n,h,w,parts,heads,d] and in theirs.
static void places(const layout *l, int64_t i, int parts, int part, int64_t *ours, int64_t *theirs)
{
    const int64_t head = i % l->heads, token = i / l->heads, x = token % l->w, y = token / l->w % l->h, n = token / l->w / l->h;
    *ours = ((token * parts + part) * l->heads + head) * l->d;
    *theirs = l->heads_first ? (((n * l->heads + head) * l->h + y) * l->w + x) * l->d : (token * l->heads + head) * l->d;
}

static int64_t heads_of(const layout *l) { return l->n * l->h * l->w * l->heads; }

static void carry(const layout *l, float *to, int parts, int part, const kd_tensor *from)
{
    for (int64_t i = 0, our, their; i < heads_of(l); i++) {
        places(l, i, parts, part, &our, &their);
        memcpy(to + our, (const float *)from->data + their, (size_t)l->d * sizeof *to);
    }
}

/// A part of our array against theirs.
static void compare(golden *z, const layout *l, const char *name, const float *ours, int parts, int part)
{
    const double *theirs = tensor(z, name)->data;
    const int64_t n = heads_of(l) * l->d;
    float *got = kd_alloc((size_t)n * sizeof *got);
    double *want = kd_alloc((size_t)n * sizeof *want);
    for (int64_t i = 0, our, their; i < heads_of(l); i++) {
        places(l, i, parts, part, &our, &their);
        memcpy(got + i * l->d, ours + our, (size_t)l->d * sizeof *got);
        memcpy(want + i * l->d, theirs + their, (size_t)l->d * sizeof *want);
    }
    close_to(z, name, got, want, n);
    kd_free(got);
    kd_free(want);
}

static void attend(golden *z, const char *op, bool heads_first, kd_attn a)
{
    begin(z, op);
    const kd_tensor *q = tensor(z, "q");
    const int64_t *s = q->shape.d;
    const layout l = heads_first ? (layout){ s[0], s[2], s[3], s[1], s[4], true } : (layout){ s[0], s[1], s[2], s[3], s[4], false };
    const int64_t count = kd_tensor_count(q);
    float *qkv = kd_alloc((size_t)count * 3 * sizeof *qkv), *v = kd_alloc((size_t)count * sizeof *v), *out[2] = { 0 };
    carry(&l, qkv, 3, 0, q);
    carry(&l, qkv, 3, 1, tensor(z, "kk"));
    carry(&l, qkv, 3, 2, tensor(z, "vv"));
    carry(&l, v, 1, 0, tensor(z, "v"));
    a.heads = l.heads;
    kd_val *x = input(z, "qkv", KD_SHAPE(l.n, l.h, l.w, 3 * l.heads * l.d), qkv);
    evaluate(z, kd_attention(z->g, x, NULL, NULL, a), v, 1, out);
    compare(z, &l, "out", out[0], 1, 0);
    compare(z, &l, "grad.q", out[1], 3, 0);
    compare(z, &l, "grad.kk", out[1], 3, 1);
    compare(z, &l, "grad.vv", out[1], 3, 2);
    kd_free(qkv), kd_free(v), kd_free(out[0]), kd_free(out[1]);
}

/// Queries alone: keys and values are 0. Without turning: all angles 0.
static void scaled_queries(golden *z)
{
    begin(z, "cosine_sim_q");
    const kd_tensor *q = tensor(z, "q"), *scale = tensor(z, "scale"), *v = tensor(z, "v");
    const int64_t *s = q->shape.d, all = 3 * kd_tensor_count(q);
    const layout l = { s[0], 1, s[2], s[1], s[3], true };
    float *qkv = kd_alloc((size_t)all * sizeof *qkv), *dy = kd_alloc((size_t)all * sizeof *dy), *out[3] = { 0 };
    carry(&l, qkv, 3, 0, q);
    carry(&l, dy, 3, 0, v);
    kd_val *x = input(z, "qkv", KD_SHAPE(l.n, 1, l.w, 3 * l.heads * l.d), qkv), *sc = input(z, "scale", scale->shape, scale->data);
    kd_val *freqs = kd_const(z->g, "freqs", KD_SHAPE(l.heads, l.d / 8), NULL), *pos = kd_const(z->g, "pos", KD_SHAPE(l.w, 2), NULL);
    evaluate(z, kd_qk_norm_rope(z->g, x, sc, kd_rope_table(z->g, freqs, pos)), dy, 2, out);
    compare(z, &l, "out", out[0], 3, 0);
    compare(z, &l, "grad.q", out[1], 3, 0);
    close_to(z, "grad.scale", out[2], tensor(z, "grad.scale")->data, l.heads);
    kd_free(qkv), kd_free(dy), kd_free(out[0]), kd_free(out[1]), kd_free(out[2]);
}

/// Turning alone: the length that the scaling takes away is given back after it.
static void turned(golden *z)
{
    begin(z, "rope_v2");
    const kd_tensor *x = tensor(z, "x"), *theta = tensor(z, "theta");
    const int64_t *s = x->shape.d, n = kd_tensor_count(x);
    const layout l = { s[0], 1, s[2], s[1], s[3], true };
    float *qkv = kd_alloc((size_t)n * 3 * sizeof *qkv), *out[1] = { 0 };
    float *table = kd_alloc((size_t)kd_tensor_count(theta) * 2 * sizeof *table);
    float one[8];
    carry(&l, qkv, 3, 0, x);
    for (int64_t t = 0; t < l.w; t++)
        for (int64_t h = 0; h < l.heads; h++)
            for (int64_t i = 0; i < l.d / 4; i++) {
                const double angle = ((float *)theta->data)[(h * l.w + t) * (l.d / 4) + i];
                float *to = table + ((t * l.heads + h) * (l.d / 4) + i) * 2;
                to[0] = (float)cos(angle), to[1] = (float)sin(angle);
            }
    for (int i = 0; i < 8; i++) one[i] = 1;
    kd_val *v = input(z, "qkv", KD_SHAPE(l.n, 1, l.w, 3 * l.heads * l.d), qkv), *sc = input(z, "scale", KD_SHAPE(l.heads), one);
    evaluate(z, kd_qk_norm_rope(z->g, v, sc, input(z, "rope", KD_SHAPE(l.w, l.heads, l.d / 4, 2), table)), NULL, 0, out);
    for (int64_t token = 0; token < l.n * l.w; token++)
        for (int64_t h = 0; h < l.heads; h++) {
            const int64_t at = (token * 3 * l.heads + h) * l.d;
            double sum = 1e-6;
            for (int64_t i = 0; i < l.d; i++) sum += (double)qkv[at + i] * qkv[at + i];
            for (int64_t i = 0; i < l.d; i++) out[0][at + i] *= (float)sqrt(sum);
        }
    compare(z, &l, "out", out[0], 3, 0);
    kd_free(qkv), kd_free(table), kd_free(out[0]);
}

static void all(t_run *t)
{
    kd_err err = { 0 };
    golden z = { .t = t };
    if (kd_safetensors_load("tests/golden/ops.safetensors", &z.f, &err)) {
        t_check(t, false, "%s", err.msg);
        return;
    }
    plain(&z);
    gelu(&z);
    scaled_queries(&z);
    turned(&z);
    attend(&z, "natten_7x7_k7", false, (kd_attn){ .kind = KD_ATTN_NEIGHBORHOOD, .size = 7, .shift = 0 });
    attend(&z, "natten_6x9_k3", false, (kd_attn){ .kind = KD_ATTN_NEIGHBORHOOD, .size = 3, .shift = 0 });
    attend(&z, "natten_8x5_k5", false, (kd_attn){ .kind = KD_ATTN_NEIGHBORHOOD, .size = 5, .shift = 0 });
    attend(&z, "window_8x8_w4_s0", true, (kd_attn){ .kind = KD_ATTN_WINDOW, .size = 4, .shift = 0 });
    attend(&z, "window_8x8_w4_s2", true, (kd_attn){ .kind = KD_ATTN_WINDOW, .size = 4, .shift = 2 });
    attend(&z, "window_4x8_w4_s2", true, (kd_attn){ .kind = KD_ATTN_WINDOW, .size = 4, .shift = 2 });
    attend(&z, "window_6x6_w3_s1", true, (kd_attn){ .kind = KD_ATTN_WINDOW, .size = 3, .shift = 1 });
    kd_frame_free(z.f);
}

KD_TEST_FN(golden, all)
