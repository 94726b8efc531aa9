// Hourglass diffusion transformer: Crowson et al. 2024, "Scalable High-Resolution Pixel-Space Image Synthesis with
// Hourglass Diffusion Transformers", arXiv:2401.11605. Peer: k_diffusion/models/image_transformer_v2.py, whose names the
// parameters keep. No linear layer has a bias. Tokens are [N,H,W,C], conditions [N,C].
#include "model/layers.h"
#include <assert.h>

const char *const kd_image_transformer_v2_modules[] = {
    "patch_in", "time_emb", "time_in_proj", "aug_emb", "aug_in_proj", "class_emb", "mapping_cond_in_proj", "mapping",
    "down_levels", "up_levels", "mid_level", "merges", "splits", "out_norm", "patch_out", NULL };

// Blocks -----------------------------------------------------------------------------------------------------------

/// Attention with queries and keys scaled to one length and rotated by position. `shifted`: the layer's windows are.
static kd_val *self_attention(kd_net *m, const kd_level *l, kd_val *x, kd_val *pos, kd_val *cond, bool shifted)
{
    static const kd_attn_kind kinds[] = { [KD_SELF_GLOBAL] = KD_ATTN_GLOBAL, [KD_SELF_NEIGHBORHOOD] = KD_ATTN_NEIGHBORHOOD,
                                          [KD_SELF_SHIFTED_WINDOW] = KD_ATTN_WINDOW };
    const int64_t heads = l->width / l->d_head;
    const kd_attn how = { .kind = kinds[l->self_attn], .heads = heads, .size = l->size, .shift = shifted ? l->size / 2 : 0 };
    kd_layer_begin(m, "self_attn");
    kd_val *h = kd_layer_ada_rms_norm(m, x, cond);
    h = kd_layer_linear(m, "qkv_proj", h, 3 * l->width, KD_INIT_FAN_IN, KD_TAG_DECAY, NULL);
    kd_val *scale = kd_net_param(m, "scale", KD_SHAPE(heads), KD_INIT_VALUE, 10, 0);
    kd_val *freqs = kd_net_param(m, "pos_emb.freqs", KD_SHAPE(heads, l->d_head / 8), KD_INIT_ROPE, 0, KD_TAG_BUFFER);
    h = kd_qk_norm_rope(m->g, h, scale, kd_rope_table(m->g, freqs, pos));
    h = kd_attention(m->g, h, NULL, NULL, how);
    h = kd_layer_dropout(m, h, l->dropout);
    h = kd_layer_linear(m, "out_proj", h, l->width, KD_INIT_ZERO, KD_TAG_DECAY, x);
    kd_layer_end(m);
    return h;
}

static kd_val *feed_forward(kd_net *m, const kd_level *l, kd_val *x, kd_val *cond)
{
    kd_layer_begin(m, "ff");
    kd_val *h = kd_layer_ada_rms_norm(m, x, cond);
    h = kd_layer_geglu(m, h, l->d_ff, 0);
    h = kd_layer_dropout(m, h, l->dropout);
    h = kd_layer_linear(m, "down_proj", h, l->width, KD_INIT_ZERO, KD_TAG_DECAY, x);
    kd_layer_end(m);
    return h;
}

/// The layers of one level, numbered from `first` on: in odd ones windows are shifted.
static kd_val *level(kd_net *m, const kd_level *l, int64_t first, kd_val *x, kd_val *pos, kd_val *cond)
{
    for (int64_t i = 0; i < l->depth; i++) {
        kd_scope_pushf(m->g, "%d", (int)i);
        if (l->self_attn != KD_SELF_NONE)
            x = self_attention(m, l, x, pos, cond, (first + i) % 2);
        x = feed_forward(m, l, x, cond);
        kd_scope_pop(m->g);
    }
    return x;
}

// Mapping network --------------------------------------------------------------------------------------------------

static kd_val *mapping_block(kd_net *m, const kd_config *c, kd_val *x)
{
    kd_val *h = kd_layer_rms_norm(m, "norm.scale", x, KD_TAG_MAPPING);
    h = kd_layer_geglu(m, h, c->v2.mapping_d_ff, KD_TAG_MAPPING);
    h = kd_layer_dropout(m, h, c->v2.mapping_dropout);
    return kd_layer_linear(m, "down_proj", h, c->v2.mapping_width, KD_INIT_ZERO, KD_TAG_DECAY | KD_TAG_MAPPING, x);
}

static kd_val *mapping(kd_net *m, const kd_config *c, kd_val *x)
{
    kd_scope_push(m->g, "mapping");
    x = kd_layer_rms_norm(m, "in_norm.scale", x, KD_TAG_MAPPING);
    for (int64_t i = 0; i < c->v2.mapping_depth; i++) {
        kd_scope_pushf(m->g, "blocks.%d", (int)i);
        x = mapping_block(m, c, x);
        kd_scope_pop(m->g);
    }
    x = kd_layer_rms_norm(m, "out_norm.scale", x, KD_TAG_MAPPING);
    kd_scope_pop(m->g);
    return x;
}

/// What the noise level and the conditions say, for all norms of the network.
static kd_val *conditioning(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    kd_val *e = kd_layer_embeddings(m, c, in, c->v2.mapping_width);
    if (c->mapping_cond_dim) {
        assert(in->mapping_cond);
        e = kd_layer_linear(m, "mapping_cond_in_proj", in->mapping_cond, c->v2.mapping_width, KD_INIT_FAN_IN, 0, e);
    }
    return mapping(m, c, e);
}

// Hourglass --------------------------------------------------------------------------------------------------------

/// Patches of p x q tokens to tokens of `out` features.
static kd_val *token_merge(kd_net *m, kd_val *x, int64_t out, int64_t p, int64_t q)
{
    return kd_layer_linear(m, "proj", kd_patch_merge(m->g, x, p, q), out, KD_INIT_FAN_IN, KD_TAG_DECAY, NULL);
}

/// Back to the finer level, mixed with what left it: skip + fac (x - skip).
static kd_val *token_split(kd_net *m, kd_val *x, kd_val *skip)
{
    if (!skip)
        return NULL;
    x = kd_layer_linear(m, "proj", x, 4 * kd_last(skip), KD_INIT_FAN_IN, KD_TAG_DECAY, NULL);
    kd_val *fac = kd_net_param(m, "fac", KD_SHAPE(1), KD_INIT_VALUE, 0.5f, 0);
    return kd_lerp(m->g, skip, kd_patch_split(m->g, x, 2, 2), fac);
}

kd_net_out kd_image_transformer_v2(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    kd_graph *g = m->g;
    const int mid = c->v2.levels - 1;
    const int64_t p = c->v2.patch[0], q = c->v2.patch[1];
    kd_val *skip[KD_MAX_LEVELS], *pos[KD_MAX_LEVELS], *x = in->x;

    kd_scope_push(g, "patch_in");
    x = token_merge(m, x, c->v2.level[0].width, p, q);
    kd_scope_pop(g);
    kd_val *cond = conditioning(m, c, in);

    for (int i = 0; i <= mid; i++) {
        if (i < mid)
            kd_scope_pushf(g, "down_levels.%d", i);
        else
            kd_scope_push(g, "mid_level");
        pos[i] = kd_axial_positions(g, c->size[0] / p >> i, c->size[1] / q >> i, 1);
        x = skip[i] = level(m, &c->v2.level[i], 0, x, pos[i], cond);
        kd_scope_pop(g);
        if (i == mid)
            break;
        kd_scope_pushf(g, "merges.%d", i);
        x = token_merge(m, x, c->v2.level[i + 1].width, 2, 2);
        kd_scope_pop(g);
    }
    for (int i = mid - 1; i >= 0; i--) {
        kd_scope_pushf(g, "splits.%d", i);
        x = token_split(m, x, skip[i]);
        kd_scope_pop(g);
        kd_scope_pushf(g, "up_levels.%d", i);
        x = level(m, &c->v2.level[i], c->v2.level[i].depth, x, pos[i], cond);      // layers are counted on from the way down
        kd_scope_pop(g);
    }

    x = kd_layer_rms_norm(m, "out_norm.scale", x, 0);
    kd_scope_push(g, "patch_out");
    x = kd_layer_linear(m, "proj", x, c->channels * p * q, KD_INIT_ZERO, KD_TAG_DECAY, NULL);
    x = kd_patch_split(g, x, p, q);
    kd_scope_pop(g);
    return (kd_net_out){ .f = x, .whole = x };
}
