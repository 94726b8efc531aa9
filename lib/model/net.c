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
                                      .group = group, .count = kd_shape_count(&shape) };
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

kd_val *kd_axial_positions(kd_graph *g, int64_t h, int64_t w)
{
    kd_val *v = kd_const(g, kd_scope_name(g, "pos"), KD_SHAPE(h * w, 2), NULL);
    if (!v)
        return NULL;
    const double longer = h > w ? h : w;
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++) {
            v->host[2 * (y * w + x)] = (float)((double)(2 * y + 1 - h) / longer);
            v->host[2 * (y * w + x) + 1] = (float)((double)(2 * x + 1 - w) / longer);
        }
    return v;
}

kd_val *kd_net_forward(kd_net *m, const kd_config *c, const kd_net_in *in)
{
    switch (c->type) {
    case KD_MODEL_TRANSFORMER_V2: return kd_image_transformer_v2(m, c, in);
    case KD_MODEL_TOY_MIXTURE:    break;               // has no network: kd_denoise solves it (diffusion/toy.h)
    }
    return NULL;
}
