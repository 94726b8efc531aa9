// k-diffusion's first transformer: one level of global attention over patches. Peer: k_diffusion/models/
// image_transformer_v1.py, whose names the parameters keep. No linear layer has a bias, all heads are 64 wide. Tokens are
// [N,H,W,C], conditions [N,C].
#include "model/net.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include "op/unet.h"

enum { AUG_COND = 9, D_HEAD = 64, MAPPING_BLOCKS = 2 };
static const float EPS = 1e-6f;

const char *const kd_image_transformer_v1_modules[] = {
    "time_emb", "time_in_proj", "aug_emb", "aug_in_proj", "class_emb", "mapping", "in_proj", "blocks", "out_norm", "out_proj", NULL };

// Layers -----------------------------------------------------------------------------------------------------------

static kd_val *weight(kd_net *m, const char *layer, int64_t out, int64_t in, kd_init init, unsigned tags)
{
    char name[64];
    snprintf(name, sizeof name, "%s.weight", layer);
    return kd_net_param(m, name, KD_SHAPE(out, in), init, 0, tags);
}

/// x W^T + res (NULL: none)
static kd_val *linear(kd_net *m, const char *name, kd_val *x, int64_t out, kd_init init, unsigned tags, kd_val *res)
{
    return x ? kd_linear(m->g, x, weight(m, name, out, kd_last(x), init, tags), NULL, res) : NULL;
}

static kd_val *fourier(kd_net *m, const char *name, kd_val *x, int64_t features)
{
    return kd_fourier(m->g, x, weight(m, name, features / 2, kd_last(x), KD_INIT_NORMAL, KD_TAG_BUFFER));
}

static kd_val *rms_norm(kd_net *m, const char *name, kd_val *x, unsigned tags)
{
    return x ? kd_rms_norm(m->g, x, kd_net_param(m, name, KD_SHAPE(kd_last(x)), KD_INIT_ONE, 0, tags), 0, EPS) : NULL;
}

/// RMS norm with the scale 1 + cond W^T, one for each image.
static kd_val *ada_rms_norm(kd_net *m, kd_val *x, kd_val *cond)
{
    if (!x)
        return NULL;
    kd_val *s = linear(m, "norm.linear", cond, kd_last(x), KD_INIT_ZERO, KD_TAG_DECAY | KD_TAG_MAPPING, NULL);
    return kd_rms_norm(m->g, x, s, 1, EPS);
}

static kd_val *dropout(kd_net *m, kd_val *x, double rate)
{
    return m->train && rate > 0 ? kd_dropout(m->g, x, m->index, rate) : x;
}

static void begin(kd_net *m, const char *name)
{
    kd_scope_push(m->g, name);
    if (m->checkpointing)
        kd_block_begin(m->g);
}

static void end(kd_net *m)
{
    if (m->checkpointing)
        kd_block_end(m->g);
    kd_scope_pop(m->g);
}

// Blocks -----------------------------------------------------------------------------------------------------------

/// Attention with queries and keys scaled to one length and turned by position, at learnt frequencies.
static kd_val *self_attention(kd_net *m, const kd_transformer_v1 *t, kd_val *x, kd_val *pos, kd_val *cond)
{
    const int64_t heads = t->width / D_HEAD;
    const kd_attn how = { .kind = KD_ATTN_GLOBAL, .heads = heads, .factor = 1 / sqrt(D_HEAD) };
    const float most = (float)log(100);
    begin(m, "self_attn");
    kd_val *h = ada_rms_norm(m, x, cond);
    h = linear(m, "qkv_proj", h, 3 * t->width, KD_INIT_FAN_IN, KD_TAG_DECAY, NULL);
    kd_val *scale = kd_net_bounded(m, "qk_norm.scale", KD_SHAPE(heads), KD_INIT_VALUE, (float)log(10), 0, most);
    kd_val *fh = kd_net_param(m, "pos_emb.freqs_h", KD_SHAPE(heads, D_HEAD / 4), KD_INIT_LOG_ROPE, 0, 0);
    kd_val *fw = kd_net_param(m, "pos_emb.freqs_w", KD_SHAPE(heads, D_HEAD / 4), KD_INIT_LOG_ROPE, 0, 0);
    // a file's scale may be above the bound too: the peer cuts it in its forward pass, and lets the gradient pass
    h = kd_qk_norm_rope_v1(m->g, h, kd_clamp_max(m->g, scale, most), kd_rope_table_v1(m->g, fh, fw, pos));
    h = kd_attention(m->g, h, how);
    h = dropout(m, h, t->dropout);
    h = linear(m, "out_proj", h, t->width, KD_INIT_ZERO, KD_TAG_DECAY, x);
    end(m);
    return h;
}

/// x + down(GEGLU(up(norm(x)))). tags: of the mapping network, whose norms do not depend on a condition (NULL).
static kd_val *feed_forward(kd_net *m, const kd_transformer_v1 *t, kd_val *x, kd_val *cond, unsigned tags)
{
    kd_val *h = cond ? ada_rms_norm(m, x, cond) : rms_norm(m, "norm.scale", x, tags);
    if (!h)
        return NULL;
    h = kd_linear_geglu(m->g, h, weight(m, "up_proj", 2 * t->d_ff, t->width, KD_INIT_FAN_IN, KD_TAG_DECAY | tags));
    h = dropout(m, h, t->dropout);
    return linear(m, "down_proj", h, t->width, KD_INIT_ZERO, KD_TAG_DECAY | tags, x);
}

static kd_val *mapping(kd_net *m, const kd_transformer_v1 *t, kd_val *x)
{
    kd_scope_push(m->g, "mapping");
    x = rms_norm(m, "in_norm.scale", x, KD_TAG_MAPPING);
    for (int i = 0; i < MAPPING_BLOCKS; i++) {
        kd_scope_pushf(m->g, "blocks.%d", i);
        x = feed_forward(m, t, x, NULL, KD_TAG_MAPPING);
        kd_scope_pop(m->g);
    }
    x = rms_norm(m, "out_norm.scale", x, KD_TAG_MAPPING);
    kd_scope_pop(m->g);
    return x;
}

/// What the noise level, the augmentation and the class say, for all norms of the network.
static kd_val *conditioning(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    const int64_t width = c->v1.width;
    kd_val *aug = in->aug_cond ? in->aug_cond : kd_const(m->g, "aug_cond", KD_SHAPE(in->x->shape.d[0], AUG_COND), NULL);
    if (!aug)
        return NULL;
    kd_val *e = linear(m, "time_in_proj", fourier(m, "time_emb", in->c_noise, width), width, KD_INIT_FAN_IN, 0, NULL);
    e = linear(m, "aug_in_proj", fourier(m, "aug_emb", aug, width), width, KD_INIT_FAN_IN, 0, e);
    if (c->classes) {
        assert(in->class_cond);
        kd_val *table = weight(m, "class_emb", c->classes + 1, width, KD_INIT_NORMAL, 0);
        e = kd_add(m->g, e, kd_embedding(m->g, table, in->class_cond));
    }
    return mapping(m, &c->v1, e);
}

kd_net_out kd_image_transformer_v1(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    const kd_transformer_v1 *t = &c->v1;
    const int64_t p = t->patch[0], q = t->patch[1];
    kd_val *pos = kd_axial_positions(m->g, c->size[0] / p, c->size[1] / q, (double)p / (double)q);
    kd_val *cond = conditioning(m, c, in);
    kd_val *x = linear(m, "in_proj", kd_pixel_unshuffle(m->g, in->x, p, q), t->width, KD_INIT_FAN_IN, 0, NULL);
    for (int64_t i = 0; i < t->depth; i++) {
        kd_scope_pushf(m->g, "blocks.%d", (int)i);
        x = self_attention(m, t, x, pos, cond);
        begin(m, "ff");
        x = feed_forward(m, t, x, cond, 0);
        end(m);
        kd_scope_pop(m->g);
    }
    x = linear(m, "out_proj", rms_norm(m, "out_norm.scale", x, 0), c->channels * p * q, KD_INIT_ZERO, 0, NULL);
    x = kd_pixel_shuffle(m->g, x, p, q);
    return (kd_net_out){ .f = x, .whole = x };
}
