// DINOv2's vision transformer. Oquab et al. 2023, arXiv:2304.07193; names as in Facebook's state dicts. Features are the class token
// after the last norm (x_norm_clstoken), as dgm-eval and EDM2 take them for FD-DINOv2.
// LayerScale, a factor for each feature of what a branch adds, is in the weight and bias before it; position embeddings are those of
// the image's grid (below).
#include "base/memory.h"
#include "model/vit.h"
#include "op/unet.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double EPS = 1e-6;

static kd_val *attention(kd_net *m, kd_val *x, const kd_vit *v)
{
    kd_val *qkv = kd_vit_linear(m, "attn.qkv.weight", "attn.qkv.bias", kd_vit_norm(m, "norm1", x, EPS), 3 * v->width, NULL);
    return kd_vit_linear(m, "attn.proj.weight", "attn.proj.bias", kd_vit_attention(m, qkv, v), v->width, x);
}

static kd_val *mlp(kd_net *m, kd_val *x, const kd_vit *v)
{
    kd_val *h = kd_vit_linear(m, "mlp.fc1.weight", "mlp.fc1.bias", kd_vit_norm(m, "norm2", x, EPS), v->mlp, NULL);
    return kd_vit_linear(m, "mlp.fc2.weight", "mlp.fc2.bias", kd_activate(m->g, h, KD_ACT_GELU), v->width, x);
}

static void forward(kd_net *m, const kd_feature_net *f, kd_val *x, kd_feature_out *out)
{
    const kd_vit *v = &f->vit;
    kd_val *first = kd_net_param(m, "cls_token", KD_SHAPE(1, 1, v->width), KD_INIT_ZERO, 0, KD_TAG_BUFFER);
    kd_val *pos = kd_net_param(m, "pos_embed", KD_SHAPE(1, 1 + v->grid * v->grid, v->width), KD_INIT_ZERO, 0, KD_TAG_BUFFER);
    x = kd_tokens(m->g, kd_vit_patches(m, "patch_embed.proj.weight", "patch_embed.proj.bias", x, v), first, pos);
    for (int64_t i = 0; i < v->layers; i++) {
        kd_scope_pushf(m->g, "blocks.%lld", (long long)i);
        x = mlp(m, attention(m, x, v), v);
        kd_scope_pop(m->g);
    }
    out->pool = kd_vit_norm(m, "norm", kd_vit_first(m, x), EPS);
}

// Weights ----------------------------------------------------------------------------------------------------------------

enum { SIDE = 224 };                                     // pixels, as dgm-eval and EDM2 take them; the weights were trained with 518

static int shape(kd_feature_net *f, const kd_raw *r, kd_err *err)
{
    static const double mean[3] = { 0.485, 0.456, 0.406 }, deviation[3] = { 0.229, 0.224, 0.225 };      // ImageNet's
    char letter[48];
    kd_vit *v = &f->vit;
    if (kd_raw_has(r, "register_tokens") || kd_raw_has(r, "reg_token"))
        return kd_fail(err, KD_EUSAGE, "%s: DINOv2 with registers: the field's distances take the weights without", r->file);
    if (kd_raw_has(r, "blocks.0.mlp.w12.weight"))
        return kd_fail(err, KD_EUSAGE, "%s: DINOv2 with SwiGLU (vitg14): vits14, vitb14 and vitl14 are known", r->file);
    *v = (kd_vit){ .width = kd_raw_axis(r, "cls_token", 2), .layers = kd_vit_count(r, "blocks.#.norm1.weight"),
                   .mlp = kd_raw_axis(r, "blocks.0.mlp.fc1.weight", 0), .patch = kd_raw_axis(r, "patch_embed.proj.weight", 3) };
    v->grid = v->patch ? SIDE / v->patch : 0;
    KD_TRY(kd_vit_check(v, r, err));
    f->size = v->grid * v->patch;
    f->d = v->width;
    kd_vit_pixels(f, mean, deviation);
    const bool known = *kd_vit_letter(v, letter) != 'w';                        // "vits14", but "vit-w32x2-14"
    snprintf(f->name, sizeof f->name, known ? "dinov2-vit%.30s%lld" : "dinov2-vit-%.30s-%lld", kd_vit_letter(v, letter),
             (long long)v->patch);
    return 0;
}

// PyTorch's bicubic without antialiasing: Keys' cubic with a = -3/4, over the border its last value.
static double cubic(double x)
{
    const double a = -0.75;
    x = fabs(x);
    return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

typedef struct tap { int64_t at[4]; double w[4]; } tap;

// Place i of n, of m. Facebook's code asks for a factor (n + 0.1) / m, so that rounding cannot cost it the last place, and PyTorch
// takes that for the distance of places too: they lie a little closer than m / n.
static tap tap_of(int64_t i, int64_t n, int64_t m)
{
    const double at = ((double)i + 0.5) * (double)m / ((double)n + 0.1) - 0.5, whole = floor(at);
    tap t;
    for (int k = 0; k < 4; k++) {
        const int64_t j = (int64_t)whole + k - 1;
        t.at[k] = j < 0 ? 0 : j < m ? j : m - 1;
        t.w[k] = cubic(at - whole - (k - 1));
    }
    return t;
}

// raw [m,m,c] to [n,n,c]
static void interpolate(float *to, int64_t n, const float *raw, int64_t m, int64_t c)
{
    for (int64_t y = 0; y < n; y++)
        for (int64_t x = 0; x < n; x++) {
            const tap h = tap_of(y, n, m), w = tap_of(x, n, m);
            for (int64_t i = 0; i < c; i++) {
                double sum = 0;
                for (int k = 0; k < 16; k++) sum += h.w[k / 4] * w.w[k % 4] * (double)raw[(h.at[k / 4] * m + w.at[k % 4]) * c + i];
                to[(y * n + x) * c + i] = (float)sum;
            }
        }
}

static int take_positions(kd_feature_net *f, kd_raw *r, float *to, kd_err *err)
{
    const int64_t places = kd_raw_axis(r, "pos_embed", 1), m = kd_vit_side(places - 1), n = f->vit.grid, c = f->vit.width;
    if (!m && places)
        return kd_fail(err, KD_EUSAGE, "%s: pos_embed has %lld places: expected one and a square", r->file, (long long)places);
    float *raw = kd_alloc((size_t)((1 + m * m) * c) * sizeof *raw);
    int code = raw ? kd_raw_get(r, "pos_embed", KD_SHAPE(1, 1 + m * m, c), raw, err) : kd_fail_memory(err, "a feature network");
    if (!code && m == n) memcpy(to, raw, (size_t)((1 + m * m) * c) * sizeof *raw);
    else if (!code) {
        memcpy(to, raw, (size_t)c * sizeof *raw);
        interpolate(to + c, n, raw + c, m, c);
    }
    kd_free(raw);
    return code;
}

// The layer `name` of the present block, "blocks.3.attn.proj" or so, and the factors of its results.
static int take_scaled(kd_feature_net *f, kd_raw *r, int64_t block, const char *layer, int scale, kd_err *err)
{
    char name[80], gamma_name[80];
    const int64_t rows = f->vit.width;
    float *gamma = kd_alloc((size_t)rows * sizeof *gamma);
    snprintf(gamma_name, sizeof gamma_name, "blocks.%lld.ls%d.gamma", (long long)block, scale);
    int code = gamma ? kd_raw_get(r, gamma_name, KD_SHAPE(rows), gamma, err) : kd_fail_memory(err, "a feature network");
    for (int k = 0; !code && k < 2; k++) {
        snprintf(name, sizeof name, "blocks.%lld.%s.%s", (long long)block, layer, k ? "bias" : "weight");
        const kd_param_info *p = kd_params_find(f->params, name);
        float *w = f->w + p->offset;
        code = kd_raw_get(r, name, p->shape, w, err);
        for (int64_t i = 0; !code && i < p->count; i++) w[i] *= gamma[i / (p->count / rows)];
    }
    kd_free(gamma);
    return code;
}

static bool scaled(const char *name) { return strstr(name, ".attn.proj.") || strstr(name, ".mlp.fc2."); }

static int fill(kd_feature_net *f, kd_raw *r, kd_err *err)
{
    for (int i = 0; i < f->params->n; i++) {
        const kd_param_info *p = &f->params->p[i];
        float *to = f->w + p->offset;
        if (!strcmp(p->name, "pos_embed")) KD_TRY(take_positions(f, r, to, err));
        else if (!scaled(p->name)) KD_TRY(kd_raw_get(r, p->name, p->shape, to, err));
    }
    for (int64_t i = 0; i < f->vit.layers; i++) {
        KD_TRY(take_scaled(f, r, i, "attn.proj", 1, err));
        KD_TRY(take_scaled(f, r, i, "mlp.fc2", 2, err));
    }
    return 0;
}

static bool passes(const char *name) { return !strcmp(name, "mask_token"); }       // of training

const kd_feature_kind kd_feature_dinov2 = { "dinov2", "DINOv2", "blocks.0.ls1.gamma", shape, forward, fill, passes };
