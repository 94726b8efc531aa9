// k-diffusion's UNet. Peer: k_diffusion/models/image_v1.py and layers.py, whose names the parameters keep. Images are
// [N,H,W,C]; cond is [N,mapping_out]. Group norms are adaptive: their scale and shift come from cond. The attention is
// that of Dhariwal & Nichol 2021, arXiv:2105.05233; the resampling that of Karras et al. 2020, arXiv:1912.04958.
#include "model/layers.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "op/unet.h"

enum { AUG_COND = 9, GROUP = 32, HEAD = 64 };            // channels of a norm's group, of a head
static const double EPS = 1e-5;

const char *const kd_image_v1_modules[] = {
    "timestep_embed", "mapping_cond", "mapping", "proj_in", "proj_out", "u_net.d_blocks", "u_net.u_blocks", NULL };

/// What all layers are told.
typedef struct told { kd_net *m; const kd_image_v1_config *u; kd_val *cond, *cross, *padding; bool drops; } told;

// Layers -----------------------------------------------------------------------------------------------------------

/// Only weights of the mapping network and of the u_net decay, none of the biases.
static kd_val *param(kd_net *m, const char *layer, const char *what, kd_shape shape, kd_init init, float value, bool decay)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", layer, what);
    return kd_net_param(m, name, shape, init, value, decay ? KD_TAG_DECAY : 0);
}

/// x W^T + b
static kd_val *linear(kd_net *m, const char *name, kd_val *x, int64_t out, kd_init init)
{
    if (!x)
        return NULL;
    kd_val *w = param(m, name, "weight", KD_SHAPE(out, kd_last(x)), init, 0, true);
    kd_val *b = param(m, name, "bias", KD_SHAPE(out), init == KD_INIT_ZERO ? init : KD_INIT_FAN_IN, (float)kd_last(x), false);
    return kd_linear(m->g, x, w, b, NULL);
}

/// A convolution of side k that keeps the image's size, + res (NULL: none)
static kd_val *conv(kd_net *m, const char *name, kd_val *x, int64_t out, int64_t k, kd_init init, bool decay, kd_val *res)
{
    if (!x)
        return NULL;
    kd_val *w = param(m, name, "weight", KD_SHAPE(out, kd_last(x), k, k), init, 0, decay);
    kd_val *b = param(m, name, "bias", KD_SHAPE(out), init, (float)(kd_last(x) * k * k), false);
    return kd_conv2d(m->g, x, w, b, res, KD_CONV_SAME(k));
}

static int64_t parts(int64_t channels, int64_t per) { return channels / per > 1 ? channels / per : 1; }

/// act((1 + scale) norm(x) + shift), scale and shift from cond.
static kd_val *ada_group_norm(const told *t, const char *name, kd_val *x, kd_act act)
{
    if (!x)
        return NULL;
    char mapper[64];
    snprintf(mapper, sizeof mapper, "%s.mapper", name);
    kd_val *ada = linear(t->m, mapper, t->cond, 2 * kd_last(x), KD_INIT_ZERO);
    return kd_group_norm(t->m->g, x, NULL, NULL, ada, parts(kd_last(x), GROUP), EPS, act);
}

/// Whole channels of an image fall out, not single elements. Each dropout has a name, and so draws, of its own.
static kd_val *dropout(const told *t, const char *name, kd_val *x)
{
    if (!t->drops)
        return x;
    kd_scope_push(t->m->g, name);
    x = kd_dropout_channels(t->m->g, x, t->m->index, t->m->rng, t->u->dropout);
    kd_scope_pop(t->m->g);
    return x;
}

// Blocks -----------------------------------------------------------------------------------------------------------

/// Two convolutions beside a skip connection, which is a 1x1 convolution where the number of channels changes.
static kd_val *residual(const told *t, kd_val *x, int64_t mid, int64_t out)
{
    kd_net *m = t->m;
    if (!x)
        return NULL;
    kd_val *same = kd_last(x) == out ? x : NULL;
    kd_val *h = ada_group_norm(t, "main.0", x, KD_ACT_GELU);
    h = dropout(t, "main.3", conv(m, "main.2", h, mid, 3, KD_INIT_FAN_IN, true, NULL));
    h = ada_group_norm(t, "main.4", h, KD_ACT_GELU);
    h = dropout(t, "main.7", conv(m, "main.6", h, out, 3, KD_INIT_ZERO, true, t->drops ? NULL : same));
    if (same)
        return t->drops ? kd_add(m->g, h, x) : h;
    kd_val *w = param(m, "skip", "weight", KD_SHAPE(out, kd_last(x), 1, 1), KD_INIT_ORTHOGONAL, 0, true);
    return kd_linear(m->g, x, w, NULL, h);
}

/// The peer drops attention probabilities at the rate of its channels, when sampling too; here in training only.
static kd_attn attention(const told *t, int64_t channels)
{
    const int64_t heads = parts(channels, HEAD);
    return (kd_attn){ .kind = KD_ATTN_GLOBAL, .heads = heads, .factor = 1 / sqrt((double)(channels / heads)),
                      .dropout = t->drops ? t->u->dropout : 0 };
}

static kd_val *self_attention(const told *t, kd_val *x)
{
    if (!x)
        return NULL;
    const int64_t c = kd_last(x);
    kd_val *h = ada_group_norm(t, "norm_in", x, KD_ACT_NONE);
    h = conv(t->m, "qkv_proj", h, 3 * c, 1, KD_INIT_FAN_IN, true, NULL);
    h = kd_attention(t->m->g, h, t->m->index, t->m->rng, attention(t, c));
    return conv(t->m, "out_proj", h, c, 1, KD_INIT_ZERO, true, x);
}

/// Queries from the image, keys and values from a sequence of conditions.
static kd_val *cross_attention(const told *t, kd_val *x)
{
    if (!x)
        return NULL;
    kd_net *m = t->m;
    const int64_t c = kd_last(x), enc = kd_last(t->cross);
    kd_val *w = param(m, "norm_enc", "weight", KD_SHAPE(enc), KD_INIT_ONE, 0, true);
    kd_val *b = param(m, "norm_enc", "bias", KD_SHAPE(enc), KD_INIT_ZERO, 0, false);
    kd_val *q = ada_group_norm(t, "norm_dec", x, KD_ACT_NONE);
    q = conv(m, "q_proj", q, c, 1, KD_INIT_FAN_IN, true, NULL);
    kd_val *kv = linear(m, "kv_proj", kd_layer_norm(m->g, t->cross, w, b, EPS), 2 * c, KD_INIT_FAN_IN);
    kd_val *h = kd_cross_attention(m->g, q, kv, t->padding, m->index, m->rng, attention(t, c));
    return conv(m, "out_proj", h, c, 1, KD_INIT_ZERO, true, x);
}

/// Its kernel is fixed, and still in the peer's files.
static kd_val *resample(const told *t, kd_val *x, kd_resampling how, int i)
{
    kd_scope_pushf(t->m->g, "%d", i);
    kd_net_param(t->m, "kernel", KD_SHAPE(4, 4), KD_INIT_FIR, how == KD_FIR_UP ? 4 : 1, KD_TAG_BUFFER);
    x = kd_resample(t->m->g, x, how);
    kd_scope_pop(t->m->g);
    return x;
}

/// The layers of a stage, numbered from `i` on; the next number is returned in it. The last layer has `out` channels.
static kd_val *layers(const told *t, const kd_stage *s, kd_val *x, int64_t out, int *i)
{
    for (int64_t k = 0; k < s->depth; k++) {
        kd_layer_begin(t->m, "%d", (*i)++);
        x = residual(t, x, s->channels, k < s->depth - 1 ? s->channels : out);
        kd_layer_end(t->m);
        if (s->self_attn) {
            kd_layer_begin(t->m, "%d", (*i)++);
            x = self_attention(t, x);
            kd_layer_end(t->m);
        }
        if (s->cross_attn) {
            kd_layer_begin(t->m, "%d", (*i)++);
            x = cross_attention(t, x);
            kd_layer_end(t->m);
        }
    }
    return x;
}

static kd_val *down_block(const told *t, int stage, kd_val *x)
{
    const kd_stage *s = &t->u->stage[stage];
    int i = 1;                                           // 0 is the downsampling, or nothing
    kd_scope_pushf(t->m->g, "u_net.d_blocks.%d", stage);
    if (stage > t->u->skip_stages)
        x = resample(t, x, KD_FIR_DOWN, 0);
    x = layers(t, s, x, s->channels, &i);
    kd_scope_pop(t->m->g);
    return x;
}

/// x and, but at the deepest stage, what left the stage on the way down.
static kd_val *up_block(const told *t, int stage, kd_val *x)
{
    const kd_stage *s = &t->u->stage[stage];
    int i = 0;
    kd_scope_pushf(t->m->g, "u_net.u_blocks.%d", t->u->stages - 1 - stage);
    x = layers(t, s, x, t->u->stage[stage ? stage - 1 : 0].channels, &i);
    if (stage > t->u->skip_stages)
        x = resample(t, x, KD_FIR_UP, i);
    kd_scope_pop(t->m->g);
    return x;
}

/// The first skip_stages stages are in the file, but not run.
static void declare_skipped(const told *t)
{
    for (int i = 0; i < t->u->skip_stages; i++) {
        const int64_t before = t->u->stage[i ? i - 1 : 0].channels;
        down_block(t, i, kd_input(t->m->g, "skipped", KD_F32, KD_SHAPE(1, 1, 1, before)));
        up_block(t, i, kd_input(t->m->g, "skipped", KD_F32, KD_SHAPE(1, 1, 1, 2 * t->u->stage[i].channels)));
    }
}

static kd_val *u_net(const told *t, kd_val *x)
{
    kd_val *skip[KD_MAX_LEVELS];
    const int first = (int)t->u->skip_stages, last = t->u->stages - 1;
    for (int i = first; i <= last; i++)
        x = skip[i] = down_block(t, i, x);
    for (int i = last; i >= first; i--)
        x = up_block(t, i, i < last ? kd_concat(t->m->g, x, skip[i]) : x);
    if (t->m->declare)
        declare_skipped(t);
    return x;
}

// Conditions -------------------------------------------------------------------------------------------------------

/// mapping_cond, behind the augmentation's if the network is in its wrapper; NULL if there is neither.
static kd_val *mapping_input(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    assert(in->mapping_cond || !c->mapping_cond_dim);
    if (!c->image_v1.augment_wrapper)
        return in->mapping_cond;
    kd_val *aug = in->aug_cond ? in->aug_cond : kd_const(m->g, "aug_cond", KD_SHAPE(in->x->shape.d[0], AUG_COND), NULL);
    return in->mapping_cond ? kd_concat(m->g, aug, in->mapping_cond) : aug;
}

static kd_val *conditioning(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    const int64_t width = c->image_v1.mapping_out;
    kd_val *freqs = kd_net_param(m, "timestep_embed.weight", KD_SHAPE(width / 2, 1), KD_INIT_NORMAL, 0, KD_TAG_BUFFER);
    kd_val *e = kd_fourier(m->g, in->c_noise, freqs), *cond = mapping_input(m, c, in);
    if (cond) {
        kd_val *w = param(m, "mapping_cond", "weight", KD_SHAPE(width, kd_last(cond)), KD_INIT_FAN_IN, 0, true);
        e = kd_linear(m->g, cond, w, NULL, e);
    }
    e = kd_activate(m->g, linear(m, "mapping.0", e, width, KD_INIT_ORTHOGONAL), KD_ACT_GELU);
    return kd_activate(m->g, linear(m, "mapping.2", e, width, KD_INIT_ORTHOGONAL), KD_ACT_GELU);
}

// The network ------------------------------------------------------------------------------------------------------

/// One more channel behind the image's: its mean is the image's log variance.
static kd_net_out with_variance(kd_net *m, const kd_config *c, kd_val *x)
{
    const int64_t p = c->image_v1.patch, channels = c->channels * p * p;
    kd_val *f = kd_pixel_shuffle(m->g, kd_slice(m->g, x, 0, channels), p, p);
    return (kd_net_out){ .f = f, .whole = f, .logvar = kd_image_mean(m->g, kd_slice(m->g, x, channels, 1)) };
}

kd_net_out kd_image_v1(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    const kd_image_v1_config *u = &c->image_v1;
    const int64_t p = u->patch, channels = c->channels * p * p;
    const int64_t width = u->stage[u->skip_stages ? u->skip_stages - 1 : 0].channels;
    if (u->augment_wrapper)
        kd_scope_push(m->g, "inner_model");
    assert((in->unet_cond || !c->unet_cond_dim) && (in->cross_cond || !c->cross_cond_dim));
    const told t = { m, u, conditioning(m, c, in), in->cross_cond, in->cross_padding, m->train && u->dropout > 0 };

    kd_val *x = in->unet_cond ? kd_concat(m->g, in->x, in->unet_cond) : in->x;
    x = conv(m, "proj_in", p > 1 ? kd_pixel_unshuffle(m->g, x, p, p) : x, width, 1, KD_INIT_FAN_IN, false, NULL);
    x = u_net(&t, x);
    x = conv(m, "proj_out", x, channels + c->has_variance, 1, KD_INIT_ZERO, false, NULL);
    kd_net_out out = { 0 };
    if (c->has_variance)
        out = with_variance(m, c, x);
    else
        out.f = out.whole = p > 1 ? kd_pixel_shuffle(m->g, x, p, p) : x;
    if (u->augment_wrapper)
        kd_scope_pop(m->g);
    return out;
}
