// OpenAI's UNet. Dhariwal & Nichol 2021, "Diffusion Models Beat GANs on Image Synthesis", arXiv:2105.05233; peer:
// guided_diffusion/unet.py UNetModel, whose names the parameters keep. Images are [N,H,W,C], the embedding of step and
// class is [N,4 model_channels].
#include "model/layers.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include "op/unet.h"

enum { GROUPS = 32 };
static const double EPS = 1e-5;

const char *const kd_guided_diffusion_modules[] = {
    "time_embed", "label_emb", "input_blocks", "middle_block", "output_blocks", "out", NULL };

/// What all blocks are told. emb: after its SiLU.
typedef struct told { kd_net *m; const kd_guided_config *u; kd_val *emb; } told;

// Layers. Each decays: one group of parameters, as in the peer's script -----------------------------------------------

static kd_val *param(kd_net *m, const char *layer, const char *what, kd_shape shape, kd_init init, float value)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", layer, what);
    return kd_net_param(m, name, shape, init, value, KD_TAG_DECAY);
}

static kd_val *linear(kd_net *m, const char *name, kd_val *x, int64_t out)
{
    if (!x)
        return NULL;
    kd_val *w = param(m, name, "weight", KD_SHAPE(out, kd_last(x)), KD_INIT_FAN_IN, 0);
    return kd_linear(m->g, x, w, param(m, name, "bias", KD_SHAPE(out), KD_INIT_FAN_IN, (float)kd_last(x)), NULL);
}

/// A convolution of 3x3 pixels, + res (NULL: none)
static kd_val *conv3(kd_net *m, const char *name, kd_val *x, int64_t out, int64_t stride, kd_init init, kd_val *res)
{
    if (!x)
        return NULL;
    kd_val *w = param(m, name, "weight", KD_SHAPE(out, kd_last(x), 3, 3), init, 0);
    kd_val *b = param(m, name, "bias", KD_SHAPE(out), init, (float)(9 * kd_last(x)));
    return kd_conv2d(m->g, x, w, b, res, (kd_conv){ stride, 1, 1 });
}

/// act(norm(x)); ada: NULL, or scale and shift of each image
static kd_val *norm(kd_net *m, const char *name, kd_val *x, kd_val *ada, kd_act act)
{
    if (!x)
        return NULL;
    kd_val *w = param(m, name, "weight", KD_SHAPE(kd_last(x)), KD_INIT_ONE, 0);
    kd_val *b = param(m, name, "bias", KD_SHAPE(kd_last(x)), KD_INIT_ZERO, 0);
    return kd_group_norm(m->g, x, w, b, ada, GROUPS, EPS, act);
}

// Blocks -----------------------------------------------------------------------------------------------------------

typedef enum { KEEP, DOWN, UP } resizing;

static kd_val *resized(kd_net *m, kd_val *x, resizing how)
{
    return how == KEEP ? x : kd_resample(m->g, x, how == DOWN ? KD_MEAN_DOWN : KD_NEAREST_UP);
}

/// Two convolutions with the embedding between them: added, or as scale and shift of the second norm. Beside them the
/// input, through a 1x1 convolution where the number of channels changes. `how` resizes both.
static kd_val *residual(const told *t, kd_val *x, int64_t out, resizing how)
{
    kd_net *m = t->m;
    if (!x)
        return NULL;
    const int64_t in = kd_last(x);
    const bool ada = t->u->scale_shift;
    kd_val *h = resized(m, norm(m, "in_layers.0", x, NULL, KD_ACT_SILU), how);
    h = conv3(m, "in_layers.2", h, out, 1, KD_INIT_FAN_IN, NULL);
    kd_val *e = linear(m, "emb_layers.1", t->emb, ada ? 2 * out : out);
    h = norm(m, "out_layers.0", ada ? h : kd_add_image(m->g, h, e), ada ? e : NULL, KD_ACT_SILU);
    if (m->train && t->u->dropout > 0)
        h = kd_dropout(m->g, h, m->index, m->rng, t->u->dropout);
    x = resized(m, x, how);
    if (in == out)
        return conv3(m, "out_layers.3", h, out, 1, KD_INIT_ZERO, x);
    h = conv3(m, "out_layers.3", h, out, 1, KD_INIT_ZERO, NULL);
    kd_val *w = param(m, "skip_connection", "weight", KD_SHAPE(out, in, 1, 1), KD_INIT_FAN_IN, 0);
    return kd_linear(m->g, x, w, param(m, "skip_connection", "bias", KD_SHAPE(out), KD_INIT_FAN_IN, (float)in), h);
}

static kd_val *attention(const told *t, kd_val *x, int64_t heads)
{
    kd_net *m = t->m;
    if (!x)
        return NULL;
    const int64_t c = kd_last(x);
    if (t->u->head_channels > 0)
        heads = c / t->u->head_channels;
    const kd_attn how = { .kind = KD_ATTN_GLOBAL, .heads = heads, .factor = 1 / sqrt((double)(c / heads)),
                          .order = t->u->new_attention_order ? KD_QKV_PARTS : KD_QKV_HEADS };
    kd_val *h = norm(m, "norm", x, NULL, KD_ACT_NONE);
    kd_val *w = param(m, "qkv", "weight", KD_SHAPE(3 * c, c, 1), KD_INIT_FAN_IN, 0);          // a 1-D convolution in the file
    h = kd_linear(m->g, h, w, param(m, "qkv", "bias", KD_SHAPE(3 * c), KD_INIT_FAN_IN, (float)c), NULL);
    h = kd_attention(m->g, h, NULL, NULL, how);
    w = param(m, "proj_out", "weight", KD_SHAPE(c, c, 1), KD_INIT_ZERO, 0);
    return kd_linear(m->g, h, w, param(m, "proj_out", "bias", KD_SHAPE(c), KD_INIT_ZERO, 0), x);
}

/// A change of size between two levels, layer `i` of its block.
static kd_val *resize(const told *t, kd_val *x, resizing how, int i)
{
    if (!x)
        return NULL;
    const int64_t c = kd_last(x);
    kd_layer_begin(t->m, "%d", i);
    if (t->u->resblock_updown)
        x = residual(t, x, c, how);
    else if (!t->u->conv_resample)
        x = resized(t->m, x, how);
    else if (how == DOWN)
        x = conv3(t->m, "op", x, c, 2, KD_INIT_FAN_IN, NULL);
    else
        x = conv3(t->m, "conv", resized(t->m, x, UP), c, 1, KD_INIT_FAN_IN, NULL);
    kd_layer_end(t->m);
    return x;
}

/// Layers 0 and 1 of a block: residual and, at a level that has it, attention. Returns how many these are in *n.
static kd_val *layers(const told *t, kd_val *x, int level, int64_t heads, int *n)
{
    kd_layer_begin(t->m, "%d", 0);
    x = residual(t, x, t->u->width[level], KEEP);
    kd_layer_end(t->m);
    *n = 1;
    if (!t->u->attention[level])
        return x;
    kd_layer_begin(t->m, "%d", (*n)++);
    x = attention(t, x, heads);
    kd_layer_end(t->m);
    return x;
}

static kd_val *middle(const told *t, kd_val *x)
{
    const int64_t c = t->u->width[t->u->levels - 1];
    kd_scope_push(t->m->g, "middle_block");
    for (int i = 0; i < 3; i++) {
        kd_layer_begin(t->m, "%d", i);
        x = i == 1 ? attention(t, x, t->u->heads) : residual(t, x, c, KEEP);
        kd_layer_end(t->m);
    }
    kd_scope_pop(t->m->g);
    return x;
}

/// Down: skip receives the input of each connection, in order; its number is returned.
static int input_blocks(const told *t, kd_val *x, kd_val **skip)
{
    const kd_guided_config *u = t->u;
    kd_graph *g = t->m->g;
    int n = 0, ignored;
    kd_scope_push(g, "input_blocks.0");
    skip[n++] = conv3(t->m, "0", x, u->width[0], 1, KD_INIT_FAN_IN, NULL);
    kd_scope_pop(g);
    for (int level = 0; level < u->levels; level++) {
        for (int64_t k = 0; k < u->res_blocks; k++, n++) {
            kd_scope_pushf(g, "input_blocks.%d", n);
            skip[n] = layers(t, skip[n - 1], level, u->heads, &ignored);
            kd_scope_pop(g);
        }
        if (level == u->levels - 1)
            break;
        kd_scope_pushf(g, "input_blocks.%d", n);
        skip[n] = resize(t, skip[n - 1], DOWN, 0);
        kd_scope_pop(g);
        n++;
    }
    return n;
}

static kd_val *output_blocks(const told *t, kd_val *x, kd_val *const *skip, int n)
{
    const kd_guided_config *u = t->u;
    int block = 0, next;
    for (int level = u->levels - 1; level >= 0; level--)
        for (int64_t k = 0; k <= u->res_blocks; k++) {
            kd_scope_pushf(t->m->g, "output_blocks.%d", block++);
            x = layers(t, kd_concat(t->m->g, x, skip[--n]), level, u->heads_upsample, &next);
            if (level && k == u->res_blocks)
                x = resize(t, x, UP, next);
            kd_scope_pop(t->m->g);
        }
    return x;
}

// The network ------------------------------------------------------------------------------------------------------

static kd_val *embedding(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    const kd_guided_config *u = &c->guided;
    const int64_t width = 4 * u->model_channels;
    kd_val *e = kd_timestep_embedding(m->g, in->c_noise, u->model_channels, u->max_period);
    e = kd_activate(m->g, linear(m, "time_embed.0", e, width), KD_ACT_SILU);
    e = linear(m, "time_embed.2", e, width);
    if (c->classes) {
        assert(in->class_cond);
        kd_val *table = param(m, "label_emb", "weight", KD_SHAPE(c->classes, width), KD_INIT_NORMAL, 0);
        e = kd_add(m->g, e, kd_embedding(m->g, table, in->class_cond));
    }
    return kd_activate(m->g, e, KD_ACT_SILU);                // that of each block's emb_layers
}

kd_net_out kd_guided_diffusion(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    const kd_guided_config *u = &c->guided;
    const told t = { m, u, embedding(m, c, in) };
    kd_val *skip[(KD_MAX_RES_BLOCKS + 1) * KD_MAX_LEVELS];
    const int n = input_blocks(&t, in->x, skip);
    kd_val *x = output_blocks(&t, middle(&t, skip[n - 1]), skip, n);
    x = norm(m, "out.0", x, NULL, KD_ACT_SILU);
    x = conv3(m, "out.2", x, u->out_channels, 1, KD_INIT_ZERO, NULL);
    if (!c->learn_sigma)
        return (kd_net_out){ .f = x, .whole = x };
    return (kd_net_out){ .whole = x, .f = kd_slice(m->g, x, 0, c->channels), .range = kd_slice(m->g, x, c->channels, c->channels) };
}
