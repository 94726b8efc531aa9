// CLIP's image encoder. Radford et al. 2021, arXiv:2103.00020; names as in OpenAI's and open_clip's state dicts, below "visual.".
// Features are the image embedding as the network gives it, not normalised to length 1: clean-fid and Kynkaanniemi et al. 2022
// (arXiv:2203.06026) take Frechet distances of that.
#include "base/memory.h"
#include "model/vit.h"
#include "op/unet.h"
#include <stdio.h>
#include <string.h>

static const double EPS = 1e-5;

static kd_val *attention(kd_net *m, kd_val *x, const kd_vit *v)
{
    kd_val *qkv = kd_vit_linear(m, "attn.in_proj_weight", "attn.in_proj_bias", kd_vit_norm(m, "ln_1", x, EPS), 3 * v->width, NULL);
    return kd_vit_linear(m, "attn.out_proj.weight", "attn.out_proj.bias", kd_vit_attention(m, qkv, v), v->width, x);
}

static kd_val *mlp(kd_net *m, kd_val *x, const kd_vit *v)
{
    kd_val *h = kd_vit_linear(m, "mlp.c_fc.weight", "mlp.c_fc.bias", kd_vit_norm(m, "ln_2", x, EPS), v->mlp, NULL);
    h = kd_activate(m->g, h, v->quick_gelu ? KD_ACT_QUICK_GELU : KD_ACT_GELU);
    return kd_vit_linear(m, "mlp.c_proj.weight", "mlp.c_proj.bias", h, v->width, x);
}

static void forward(kd_net *m, const kd_feature_net *f, kd_val *x, kd_feature_out *out)
{
    const kd_vit *v = &f->vit;
    kd_val *first = kd_net_param(m, "class_embedding", KD_SHAPE(v->width), KD_INIT_ZERO, 0, KD_TAG_BUFFER);
    kd_val *pos = kd_net_param(m, "positional_embedding", KD_SHAPE(1 + v->grid * v->grid, v->width), KD_INIT_ZERO, 0, KD_TAG_BUFFER);
    x = kd_tokens(m->g, kd_vit_patches(m, "conv1.weight", NULL, x, v), first, pos);
    x = kd_vit_norm(m, "ln_pre", x, EPS);
    for (int64_t i = 0; i < v->layers; i++) {
        kd_scope_pushf(m->g, "transformer.resblocks.%lld", (long long)i);
        x = mlp(m, attention(m, x, v), v);
        kd_scope_pop(m->g);
    }
    x = kd_vit_norm(m, "ln_post", kd_vit_first(m, x), EPS);
    kd_val *proj = kd_net_param(m, "proj", KD_SHAPE(f->d, v->width), KD_INIT_ZERO, 0, KD_TAG_BUFFER);
    out->pool = kd_linear(m->g, x, proj, NULL, NULL);
}

// Weights ----------------------------------------------------------------------------------------------------------------

// OpenAI's weights were trained with quick GELU, open_clip's own with GELU, and their tensors look the same, but for three
// numbers that OpenAI's files have.
static int activation(kd_vit *v, const kd_raw *r, kd_err *err)
{
    const bool openai = kd_frame_get(r->frame, "input_resolution");
    const char *says = r->activation ? r->activation : openai ? "quick_gelu" : NULL;
    if (openai && strcmp(says, "quick_gelu"))
        return kd_fail(err, KD_EUSAGE, "%s: OpenAI's weights, which take quick_gelu", r->file);
    if (!says)
        return kd_fail(err, KD_EUSAGE, "%s: CLIP's weights do not say their activation: kd-init --from %s --activation quick_gelu "
                       "(OpenAI's) or gelu (open_clip's own, as LAION's) makes a file that does", r->file, r->file);
    v->quick_gelu = !strcmp(says, "quick_gelu");
    return v->quick_gelu || !strcmp(says, "gelu") ? 0 : kd_fail(err, KD_EUSAGE, "%s: unknown activation %.40s", r->file, says);
}

static void name(kd_feature_net *f)
{
    char letter[48], size[24] = "";
    if (f->size != 224) snprintf(size, sizeof size, "-%lld", (long long)f->size);
    snprintf(f->name, sizeof f->name, "clip-vit-%.30s-%lld%s%s", kd_vit_letter(&f->vit, letter), (long long)f->vit.patch, size,
             f->vit.quick_gelu ? "" : " (gelu)");
}

static int shape(kd_feature_net *f, const kd_raw *r, kd_err *err)
{
    static const double mean[3] = { 0.48145466, 0.4578275, 0.40821073 }, deviation[3] = { 0.26862954, 0.26130258, 0.27577711 };
    kd_vit *v = &f->vit;
    *v = (kd_vit){ .width = kd_raw_axis(r, "class_embedding", 0), .layers = kd_vit_count(r, "transformer.resblocks.#.ln_1.weight"),
                   .mlp = kd_raw_axis(r, "transformer.resblocks.0.mlp.c_fc.weight", 0), .patch = kd_raw_axis(r, "conv1.weight", 3),
                   .grid = kd_vit_side(kd_raw_axis(r, "positional_embedding", 0) - 1) };
    KD_TRY(kd_vit_check(v, r, err));
    KD_TRY(activation(v, r, err));
    f->size = v->grid * v->patch;
    f->d = kd_raw_axis(r, "proj", 1);
    if (f->d < 1) return kd_fail(err, KD_EUSAGE, "%s: no matrix %sproj: not the weights of %s", r->file, r->prefix, r->what);
    kd_vit_pixels(f, mean, deviation);
    name(f);
    return 0;
}

// The file has proj as [width,d].
static int take_proj(kd_feature_net *f, kd_raw *r, float *to, kd_err *err)
{
    const int64_t n = f->vit.width, d = f->d;
    float *raw = kd_alloc((size_t)(n * d) * sizeof *raw);
    int code = raw ? kd_raw_get(r, "proj", KD_SHAPE(n, d), raw, err) : kd_fail_memory(err, "a feature network");
    for (int64_t i = 0; !code && i < n * d; i++) to[i % d * n + i / d] = raw[i];
    kd_free(raw);
    return code;
}

static int fill(kd_feature_net *f, kd_raw *r, kd_err *err)
{
    const char *act = f->vit.quick_gelu ? "quick_gelu" : "gelu";
    kd_hash_add(r->hash, act, strlen(act) + 1);
    for (int i = 0; i < f->params->n; i++) {
        const kd_param_info *p = &f->params->p[i];
        float *to = f->w + p->offset;
        KD_TRY(strcmp(p->name, "proj") ? kd_raw_get(r, p->name, p->shape, to, err) : take_proj(f, r, to, err));
    }
    return 0;
}

static bool passes(const char *name)
{
    (void)name;
    return false;
}

const kd_feature_kind kd_feature_clip = { "clip", "CLIP's image encoder", "ln_pre.weight", shape, forward, fill, passes };
