// Layers that several networks have.
#include "model/layers.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

enum { AUG_COND = 9 };                                  // features of the augmentation condition
static const float EPS = 1e-6f;

void kd_layer_begin(kd_net *m, const char *fmt, ...)
{
    char name[64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    kd_scope_push(m->g, name);
    if (m->checkpointing)
        kd_block_begin(m->g);
}

void kd_layer_end(kd_net *m)
{
    if (m->checkpointing)
        kd_block_end(m->g);
    kd_scope_pop(m->g);
}

kd_val *kd_layer_weight(kd_net *m, const char *layer, int64_t out, int64_t in, kd_init init, unsigned tags)
{
    char name[64];
    snprintf(name, sizeof name, "%s.weight", layer);
    return kd_net_param(m, name, KD_SHAPE(out, in), init, 0, tags);
}

kd_val *kd_layer_linear(kd_net *m, const char *name, kd_val *x, int64_t out, kd_init init, unsigned tags, kd_val *res)
{
    return x ? kd_linear(m->g, x, kd_layer_weight(m, name, out, kd_last(x), init, tags), NULL, res) : NULL;
}

kd_val *kd_layer_geglu(kd_net *m, kd_val *x, int64_t d_ff, unsigned tags)
{
    if (!x)
        return NULL;
    return kd_linear_geglu(m->g, x, kd_layer_weight(m, "up_proj", 2 * d_ff, kd_last(x), KD_INIT_FAN_IN, KD_TAG_DECAY | tags));
}

kd_val *kd_layer_rms_norm(kd_net *m, const char *name, kd_val *x, unsigned tags)
{
    return x ? kd_rms_norm(m->g, x, kd_net_param(m, name, KD_SHAPE(kd_last(x)), KD_INIT_ONE, 0, tags), 0, EPS) : NULL;
}

kd_val *kd_layer_ada_rms_norm(kd_net *m, kd_val *x, kd_val *cond)
{
    if (!x)
        return NULL;
    kd_val *s = kd_layer_linear(m, "norm.linear", cond, kd_last(x), KD_INIT_ZERO, KD_TAG_DECAY | KD_TAG_MAPPING, NULL);
    return kd_rms_norm(m->g, x, s, 1, EPS);
}

kd_val *kd_layer_dropout(kd_net *m, kd_val *x, double rate)
{
    return m->train && rate > 0 ? kd_dropout(m->g, x, m->index, m->rng, rate) : x;
}

static kd_val *fourier(kd_net *m, const char *name, kd_val *x, int64_t features)
{
    return x ? kd_fourier(m->g, x, kd_layer_weight(m, name, features / 2, kd_last(x), KD_INIT_NORMAL, KD_TAG_BUFFER)) : NULL;
}

kd_val *kd_layer_embeddings(kd_net *m, const kd_config *c, const kd_net_in *in, int64_t width)
{
    if (!in->x)
        return NULL;
    // a missing augmentation condition is one of zeros, whose features are not zero: cos 0 = 1
    kd_val *aug = in->aug_cond ? in->aug_cond : kd_const(m->g, "aug_cond", KD_SHAPE(in->x->shape.d[0], AUG_COND), NULL);
    kd_val *e = kd_layer_linear(m, "time_in_proj", fourier(m, "time_emb", in->c_noise, width), width, KD_INIT_FAN_IN, 0, NULL);
    e = kd_layer_linear(m, "aug_in_proj", fourier(m, "aug_emb", aug, width), width, KD_INIT_FAN_IN, 0, e);
    if (c->classes) {
        assert(in->class_cond);
        kd_val *table = kd_layer_weight(m, "class_emb", c->classes + 1, width, KD_INIT_NORMAL, 0);
        e = kd_add(m->g, e, kd_embedding(m->g, table, in->class_cond));
    }
    return e;
}
