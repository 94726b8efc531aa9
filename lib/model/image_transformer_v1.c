// k-diffusion's first transformer: one level of global attention over patches. Peer: k_diffusion/models/
// image_transformer_v1.py, whose names the parameters keep. No linear layer has a bias, all heads are 64 wide. Tokens are
// [N,H,W,C], conditions [N,C].
#include "model/layers.h"
#include "op/unet.h"
#include <math.h>

enum { D_HEAD = 64, MAPPING_BLOCKS = 2 };

const char *const kd_image_transformer_v1_modules[] = {
    "time_emb", "time_in_proj", "aug_emb", "aug_in_proj", "class_emb", "mapping", "in_proj", "blocks", "out_norm", "out_proj", NULL };

// Blocks -----------------------------------------------------------------------------------------------------------

/// Attention with queries and keys scaled to one length and turned by position, at learnt frequencies.
static kd_val *self_attention(kd_net *m, const kd_transformer_v1 *t, kd_val *x, kd_val *pos, kd_val *cond)
{
    const int64_t heads = t->width / D_HEAD;
    const kd_attn how = { .kind = KD_ATTN_GLOBAL, .heads = heads, .factor = 1 / sqrt(D_HEAD) };
    const float most = (float)log(100);
    kd_layer_begin(m, "self_attn");
    kd_val *h = kd_layer_ada_rms_norm(m, x, cond);
    h = kd_layer_linear(m, "qkv_proj", h, 3 * t->width, KD_INIT_FAN_IN, KD_TAG_DECAY, NULL);
    kd_val *scale = kd_net_bounded(m, "qk_norm.scale", KD_SHAPE(heads), KD_INIT_VALUE, (float)log(10), 0, most);
    kd_val *fh = kd_net_param(m, "pos_emb.freqs_h", KD_SHAPE(heads, D_HEAD / 4), KD_INIT_LOG_ROPE, 0, 0);
    kd_val *fw = kd_net_param(m, "pos_emb.freqs_w", KD_SHAPE(heads, D_HEAD / 4), KD_INIT_LOG_ROPE, 0, 0);
    // a file's scale may be above the bound too: the peer cuts it in its forward pass, and lets the gradient pass
    h = kd_qk_norm_rope_v1(m->g, h, kd_clamp(m->g, scale, -INFINITY, most), kd_rope_table_v1(m->g, fh, fw, pos));
    h = kd_attention(m->g, h, NULL, NULL, how);
    h = kd_layer_dropout(m, h, t->dropout);
    h = kd_layer_linear(m, "out_proj", h, t->width, KD_INIT_ZERO, KD_TAG_DECAY, x);
    kd_layer_end(m);
    return h;
}

/// x + down(GEGLU(up(norm(x)))). tags: of the mapping network, whose norms do not depend on a condition (NULL).
static kd_val *feed_forward(kd_net *m, const kd_transformer_v1 *t, kd_val *x, kd_val *cond, unsigned tags)
{
    kd_val *h = cond ? kd_layer_ada_rms_norm(m, x, cond) : kd_layer_rms_norm(m, "norm.scale", x, tags);
    h = kd_layer_geglu(m, h, t->d_ff, tags);
    h = kd_layer_dropout(m, h, t->dropout);
    return kd_layer_linear(m, "down_proj", h, t->width, KD_INIT_ZERO, KD_TAG_DECAY | tags, x);
}

static kd_val *mapping(kd_net *m, const kd_transformer_v1 *t, kd_val *x)
{
    kd_scope_push(m->g, "mapping");
    x = kd_layer_rms_norm(m, "in_norm.scale", x, KD_TAG_MAPPING);
    for (int i = 0; i < MAPPING_BLOCKS; i++) {
        kd_scope_pushf(m->g, "blocks.%d", i);
        x = feed_forward(m, t, x, NULL, KD_TAG_MAPPING);
        kd_scope_pop(m->g);
    }
    x = kd_layer_rms_norm(m, "out_norm.scale", x, KD_TAG_MAPPING);
    kd_scope_pop(m->g);
    return x;
}

kd_net_out kd_image_transformer_v1(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    const kd_transformer_v1 *t = &c->v1;
    const int64_t p = t->patch[0], q = t->patch[1];
    kd_val *pos = kd_axial_positions(m->g, c->size[0] / p, c->size[1] / q, (double)p / (double)q);
    kd_val *cond = mapping(m, t, kd_layer_embeddings(m, c, in, t->width));
    kd_val *x = kd_layer_linear(m, "in_proj", kd_pixel_unshuffle(m->g, in->x, p, q), t->width, KD_INIT_FAN_IN, 0, NULL);
    for (int64_t i = 0; i < t->depth; i++) {
        kd_scope_pushf(m->g, "blocks.%d", (int)i);
        x = self_attention(m, t, x, pos, cond);
        kd_layer_begin(m, "ff");
        x = feed_forward(m, t, x, cond, 0);
        kd_layer_end(m);
        kd_scope_pop(m->g);
    }
    x = kd_layer_linear(m, "out_proj", kd_layer_rms_norm(m, "out_norm.scale", x, 0), c->channels * p * q, KD_INIT_ZERO, 0, NULL);
    x = kd_pixel_shuffle(m->g, x, p, q);
    return (kd_net_out){ .f = x, .whole = x };
}
