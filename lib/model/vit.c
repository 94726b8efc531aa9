// What vision transformers share.
#include "model/vit.h"
#include "op/unet.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static kd_val *param(kd_net *m, const char *name, kd_shape shape) { return kd_net_param(m, name, shape, KD_INIT_ZERO, 0, KD_TAG_BUFFER); }

kd_val *kd_vit_linear(kd_net *m, const char *weight, const char *bias, kd_val *x, int64_t out, kd_val *res)
{
    if (!x) return NULL;
    kd_val *w = param(m, weight, KD_SHAPE(out, kd_last(x))), *b = param(m, bias, KD_SHAPE(out));
    return kd_linear(m->g, x, w, b, res);
}

kd_val *kd_vit_norm(kd_net *m, const char *layer, kd_val *x, double eps)
{
    if (!x) return NULL;
    kd_scope_push(m->g, layer);
    kd_val *w = param(m, "weight", KD_SHAPE(kd_last(x))), *b = param(m, "bias", KD_SHAPE(kd_last(x)));
    x = kd_layer_norm(m->g, x, w, b, eps);
    kd_scope_pop(m->g);
    return x;
}

kd_val *kd_vit_patches(kd_net *m, const char *weight, const char *bias, kd_val *x, const kd_vit *v)
{
    kd_val *w = param(m, weight, KD_SHAPE(v->width, 3, v->patch, v->patch)), *b = bias ? param(m, bias, KD_SHAPE(v->width)) : NULL;
    return kd_conv2d(m->g, x, w, b, NULL, (kd_conv){ v->patch, 0, 0 });
}

kd_val *kd_vit_attention(kd_net *m, kd_val *qkv, const kd_vit *v)
{
    const double factor = 1 / sqrt((double)v->width / (double)v->heads);
    const kd_attn how = { .kind = KD_ATTN_GLOBAL, .heads = v->heads, .order = KD_QKV_PARTS, .factor = factor };
    return kd_attention(m->g, qkv, NULL, NULL, how);
}

kd_val *kd_vit_first(kd_net *m, kd_val *x)
{
    return x ? kd_slice(m->g, kd_patch_merge(m->g, x, 1, x->shape.d[2]), 0, kd_last(x)) : NULL;      // all tokens as one, cut
}

// Sizes and weights ----------------------------------------------------------------------------------------------------

int64_t kd_vit_count(const kd_raw *r, const char *name)
{
    const char *mark = strchr(name, '#');
    char each[128];
    for (int64_t n = 0;; n++) {
        snprintf(each, sizeof each, "%.*s%lld%s", (int)(mark - name), name, (long long)n, mark + 1);
        if (!kd_raw_has(r, each)) return n;
    }
}

int64_t kd_vit_side(int64_t n)
{
    const int64_t side = n > 0 ? llround(sqrt((double)n)) : 0;
    return side * side == n ? side : 0;
}

int kd_vit_check(kd_vit *v, const kd_raw *r, kd_err *err)
{
    enum { SIDE_MAX = 4096 };
    const bool narrow = v->width > 0 && v->width < 64, whole = v->width > 0 && v->width % 64 == 0;
    v->heads = narrow ? 1 : v->width / 64;
    if ((narrow || whole) && v->layers && v->mlp && v->patch && v->grid && v->patch <= SIDE_MAX && v->grid <= SIDE_MAX / v->patch) return 0;
    return kd_fail(err, KD_EUSAGE, "%s: sizes that %s cannot have: width %lld (at most 64, or a multiple of that), %lld layers of %lld "
                   "hidden features, %lldx%lld patches of %lldx%lld pixels", r->file, r->what, (long long)v->width,
                   (long long)v->layers, (long long)v->mlp, (long long)v->grid, (long long)v->grid, (long long)v->patch,
                   (long long)v->patch);
}

const char *kd_vit_letter(const kd_vit *v, char buf[48])
{
    static const struct { int64_t width, layers; const char *letter; } known[] = {
        { 384, 12, "s" }, { 768, 12, "b" }, { 1024, 24, "l" }, { 1280, 32, "h" } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].width == v->width && known[i].layers == v->layers) return known[i].letter;
    snprintf(buf, 48, "w%lldx%lld", (long long)v->width, (long long)v->layers);
    return buf;
}

void kd_vit_pixels(kd_feature_net *f, const double mean[3], const double deviation[3])
{
    for (int c = 0; c < 3; c++) f->mean[c] = (float)(255 * mean[c]), f->scale[c] = (float)(255 * deviation[c]);
}
