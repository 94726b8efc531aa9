// What network files share: parameters by name, positions, the choice of the network.
#include "model/net.h"
#include "base/memory.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool kd_params_declare(kd_params *ps, const char *name, kd_shape shape, kd_init init, float value, unsigned tags)
{
    assert(!kd_params_find(ps, name) && "a parameter is declared once");
    if (ps->n == ps->room) {
        const int room = ps->room ? 2 * ps->room : 64;
        kd_param_info *p = kd_realloc(ps->p, (size_t)room * sizeof *p);
        if (!p)
            return false;
        ps->p = p, ps->room = room;
    }
    char *copy = kd_strdup(name);
    if (!copy)
        return false;
    const int group = tags & KD_TAG_BUFFER ? -1 : (tags & KD_TAG_MAPPING ? 2 : 0) + (tags & KD_TAG_DECAY ? 0 : 1);
    ps->p[ps->n++] = (kd_param_info){ .name = copy, .shape = shape, .init = init, .init_value = value, .tags = tags,
                                      .most = INFINITY, .group = group, .count = kd_shape_count(&shape) };
    return true;
}

kd_val *kd_net_param(kd_net *m, const char *leaf, kd_shape shape, kd_init init, float value, unsigned tags)
{
    const char *name = kd_scope_name(m->g, leaf);
    if (!name)
        return NULL;
    if (m->declare) {
        m->out_of_memory |= !kd_params_declare(m->params, name, shape, init, value, tags);
        return kd_param(m->g, name, shape);
    }
    const kd_param_info *info = kd_params_find(m->params, name);
    assert(info && kd_shape_same(&info->shape, &shape) && "the parameters are those of another config");
    kd_val **v = &m->leaf[info - m->params->p];
    if (!*v)
        *v = kd_param(m->g, name, shape);
    return *v;
}

kd_val *kd_net_bounded(kd_net *m, const char *leaf, kd_shape shape, kd_init init, float value, unsigned tags, float most)
{
    const int n = m->params->n;
    kd_val *v = kd_net_param(m, leaf, shape, init, value, tags);
    if (m->declare && m->params->n > n)
        m->params->p[n].most = most;
    return v;
}

kd_val *kd_axial_positions(kd_graph *g, int64_t h, int64_t w, double aspect)
{
    float *const pos = kd_alloc((size_t)(2 * h * w) * sizeof *pos + 1);
    if (!pos)
        return kd_no_memory(g, "positions");
    const double longer = fmax((double)h * aspect, (double)w);
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++) {
            pos[2 * (y * w + x)] = (float)((double)(2 * y + 1 - h) * aspect / longer);
            pos[2 * (y * w + x) + 1] = (float)((double)(2 * x + 1 - w) / longer);
        }
    kd_val *const v = kd_const(g, kd_scope_name(g, "pos"), KD_SHAPE(h * w, 2), pos);
    kd_free(pos);
    return v;
}

kd_net_in kd_net_conditions(kd_graph *g, const kd_config *c, int64_t n, int64_t len)
{
    kd_net_in in = { .c_noise = kd_input(g, "c_noise", KD_F32, KD_SHAPE(n, 1)) };
    if (c->classes)
        in.class_cond = kd_input(g, "class_cond", KD_I64, KD_SHAPE(n));
    if (c->aug_cond)
        in.aug_cond = kd_input(g, "aug_cond", KD_F32, KD_SHAPE(n, 9));
    if (c->mapping_cond_dim)
        in.mapping_cond = kd_input(g, "mapping_cond", KD_F32, KD_SHAPE(n, c->mapping_cond_dim));
    if (c->unet_cond_dim)
        in.unet_cond = kd_input(g, "unet_cond", KD_F32, KD_SHAPE(n, c->size[0], c->size[1], c->unet_cond_dim));
    if (c->cross_cond_dim) {
        in.cross_cond = kd_input(g, "cross_cond", KD_F32, KD_SHAPE(n, len, c->cross_cond_dim));
        in.cross_padding = kd_input(g, "cross_cond_padding", KD_F32, KD_SHAPE(n, len));
    }
    return in;
}

double kd_net_time(const kd_config *c, double told) { return c->type == KD_MODEL_GUIDED ? told : log(told) / 4; }

static kd_net_out forward(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    switch (c->type) {
    case KD_MODEL_TRANSFORMER_V2: return kd_image_transformer_v2(m, c, in);
    case KD_MODEL_TRANSFORMER_V1: return kd_image_transformer_v1(m, c, in);
    case KD_MODEL_IMAGE_V1:       return kd_image_v1(m, c, in);
    case KD_MODEL_GUIDED:         return kd_guided_diffusion(m, c, in);
    case KD_MODEL_TOY_MIXTURE:    break;               // has no network: kd_denoise solves it (diffusion/toy.h)
    }
    return (kd_net_out){ 0 };
}

kd_net_out kd_net_forward(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    if (!in->x || !in->c_noise)
        return (kd_net_out){ 0 };
    const kd_dtype compute = kd_graph_compute_type(m->g);
    if (compute == KD_F32)
        return forward(m, c, in);
    kd_net_in cast = *in;
    cast.x = kd_cast(m->g, in->x, compute);
    cast.unet_cond = kd_cast(m->g, in->unet_cond, compute);
    cast.cross_cond = kd_cast(m->g, in->cross_cond, compute);
    const kd_net_out out = forward(m, c, &cast);
    return (kd_net_out){ .f = kd_cast(m->g, out.f, KD_F32), .logvar = kd_cast(m->g, out.logvar, KD_F32),
                         .range = kd_cast(m->g, out.range, KD_F32), .whole = kd_cast(m->g, out.whole, KD_F32) };
}
