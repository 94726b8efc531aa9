// The parameters of a network: declared by building it once, put into k-diffusion's groups and order, given first values.
#include "base/io.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/net.h"
#include "model/toy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = KD_ALIGN / sizeof(float) };    // elements

const kd_param_info *kd_params_find(const kd_params *ps, const char *name)
{
    for (int i = 0; i < ps->n; i++)
        if (!strcmp(ps->p[i].name, name))
            return &ps->p[i];
    return NULL;
}

void kd_params_free(kd_params *ps)
{
    if (!ps)
        return;
    for (int i = 0; i < ps->n; i++)
        free(ps->p[i].name);
    free(ps->p);
    kd_free(ps);
}

// Order and layout -------------------------------------------------------------------------------------------------

typedef struct place { int group, module, index, declared; kd_param_info info; } place;

static const char WRAPPER[] = "inner_model.";        // in front of all names of an image_v1 in its augment wrapper

/// "down_levels.1.0.ff.up_proj.weight": module 8 of the list, index 1. The up levels, for one, are met from the inside out.
static place place_of(const kd_param_info *p, int declared, const char *const *modules)
{
    const char *name = p->name + (strncmp(p->name, WRAPPER, sizeof WRAPPER - 1) ? 0 : sizeof WRAPPER - 1);
    int module = 0;
    size_t n = 0;
    for (; modules[module]; module++) {
        n = strlen(modules[module]);
        if (!strncmp(modules[module], name, n) && (name[n] == '.' || !name[n]))
            break;
    }
    const int index = modules[module] && name[n] ? atoi(name + n + 1) : 0;       // 0 if what follows is a word
    return (place){ p->group < 0 ? 4 : p->group, module, index, declared, *p };
}

static int compare(const void *x, const void *y)
{
    const place *a = x, *b = y;
    return a->group != b->group ? a->group - b->group : a->module != b->module ? a->module - b->module
         : a->index != b->index ? a->index - b->index : a->declared - b->declared;
}

static int sort(kd_params *ps, const char *const *modules, kd_err *err)
{
    place *places = kd_alloc((size_t)ps->n * sizeof *places);
    if (!places)
        return kd_fail_memory(err, "a model's parameters");
    for (int i = 0; i < ps->n; i++)
        places[i] = place_of(&ps->p[i], i, modules);
    qsort(places, (size_t)ps->n, sizeof *places, compare);
    for (int i = 0; i < ps->n; i++)
        ps->p[i] = places[i].info;
    kd_free(places);
    return 0;
}

static void lay_out(kd_params *ps)
{
    int64_t offset = 0;
    int i = 0;
    for (int group = 0; group < 5; group++) {
        for (; i < ps->n && (ps->p[i].group == group || group == 4); i++) {
            kd_param_info *p = &ps->p[i];
            p->offset = offset;
            offset += (p->count + ALIGN - 1) / ALIGN * ALIGN;
            if (group < 4)
                ps->n_trained += p->count;
        }
        ps->group_end[group] = offset;
    }
    ps->trained = ps->group_end[3];
    ps->total = offset;
}

static const char *const *modules_of(const kd_config *c)
{
    switch (c->type) {
    case KD_MODEL_TRANSFORMER_V2: return kd_image_transformer_v2_modules;
    case KD_MODEL_TRANSFORMER_V1: return kd_image_transformer_v1_modules;
    case KD_MODEL_IMAGE_V1:       return kd_image_v1_modules;
    case KD_MODEL_GUIDED:         return kd_guided_diffusion_modules;
    case KD_MODEL_TOY_MIXTURE:    return kd_toy_modules;
    }
    return NULL;
}

/// Builds the network for one image; building is declaring.
static int declare_all(kd_params *ps, const kd_config *c, kd_err *err)
{
    kd_graph *g = kd_graph_new();
    if (!g)
        return kd_fail_memory(err, "a graph");
    kd_net m = { .g = g, .params = ps, .declare = true };
    kd_net_in in = kd_net_conditions(g, c, 1, 1);
    in.x = kd_input(g, "x", KD_F32, KD_SHAPE(1, c->size[0], c->size[1], c->channels));
    const kd_val *out = kd_net_forward(&m, c, &in).f;
    int code = kd_graph_error(g, err);
    if (!code && (!out || m.out_of_memory))
        code = kd_fail_memory(err, "a graph");
    kd_graph_free(g);
    return code;
}

int kd_params_of(kd_params **out, const kd_config *c, kd_err *err)
{
    kd_params *ps = kd_alloc(sizeof *ps);
    *out = NULL;
    int code = ps ? (c->type == KD_MODEL_TOY_MIXTURE ? kd_toy_params : declare_all)(ps, c, err)
                  : kd_fail_memory(err, "a model's parameters");
    if (!code)
        code = sort(ps, modules_of(c), err);
    if (code) {
        kd_params_free(ps);
        return code;
    }
    lay_out(ps);
    *out = ps;
    return 0;
}

// First values -----------------------------------------------------------------------------------------------------

/// Frequencies from pi to 10 pi, evenly spaced in the logarithm over heads and angles; neighbours in frequency lie in
/// different heads. freqs [heads, d_head/8]
static void init_rope(float *to, const kd_shape *shape)
{
    const int64_t heads = shape->d[0], angles = shape->d[1];
    for (int64_t h = 0; h < heads; h++)
        for (int64_t j = 0; j < angles; j++)
            to[h * angles + j] = (float)(M_PI * exp((double)(j * heads + h) / (double)(heads * angles) * log(10)));
}

/// Angles of heads and positions are parameters here, as logarithms. freqs [heads, n]
static void init_log_rope(float *to, const kd_shape *shape)
{
    const int64_t heads = shape->d[0], n = shape->d[1];
    for (int64_t h = 0; h < heads; h++)
        for (int64_t j = 0; j < n; j++)
            to[h * n + j] = (float)(log(M_PI) + (n > 1 ? (double)j / (double)(n - 1) : 0) * log(5));
}

static void init_fir(float *to, float factor)
{
    static const float taps[] = { 1, 3, 3, 1 };
    for (int i = 0; i < 16; i++)
        to[i] = factor * taps[i / 4] * taps[i % 4] / 64;
}

/// Rows of a normal matrix made orthonormal one after another (modified Gram-Schmidt, twice, in double): its Q factor with
/// a positive diagonal of R, so as evenly distributed as the peer's. w [rows, cols]; columns instead if they are fewer.
static void init_orthogonal(float *to, const kd_param_info *p, const kd_rng *rng)
{
    const int64_t rows = p->shape.d[0], cols = p->count / rows, n = rows < cols ? rows : cols, m = rows < cols ? cols : rows;
    const int64_t across = rows < cols ? cols : 1, along = rows < cols ? 1 : cols;       // strides between vectors and in one
    double *q = kd_alloc((size_t)p->count * sizeof *q);
    kd_rng_normal(rng, to, 0, p->count);
    for (int64_t i = 0; q && i < n; i++) {
        double *v = q + i * m, norm = 0;
        for (int64_t k = 0; k < m; k++)
            v[k] = to[i * across + k * along];
        for (int64_t j = 0; j < 2 * i; j++) {
            const double *u = q + j % i * m;
            double dot = 0;
            for (int64_t k = 0; k < m; k++)
                dot += u[k] * v[k];
            for (int64_t k = 0; k < m; k++)
                v[k] -= dot * u[k];
        }
        for (int64_t k = 0; k < m; k++)
            norm += v[k] * v[k];
        for (int64_t k = 0; k < m; k++)
            v[k] /= sqrt(norm);
    }
    for (int64_t i = 0; q && i < n; i++)
        for (int64_t k = 0; k < m; k++)
            to[i * across + k * along] = (float)q[i * m + k];
    kd_free(q);
}

static void fill(float *to, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = value;
}

static void init(const kd_param_info *p, uint64_t seed, float *to)
{
    const uint64_t name = kd_hash_of(p->name, strlen(p->name)) & ((UINT64_C(1) << 40) - 1);
    const kd_rng rng = kd_rng_of(seed, KD_RNG_INIT, 0, name, 0);
    const double fan_in = p->init_value > 0 ? p->init_value : (double)p->count / (double)p->shape.d[0];
    const float bound = (float)(1 / sqrt(fan_in));
    switch (p->init) {
    case KD_INIT_ZERO: fill(to, p->count, 0); break;
    case KD_INIT_ONE: fill(to, p->count, 1); break;
    case KD_INIT_VALUE: fill(to, p->count, p->init_value); break;
    case KD_INIT_NORMAL: kd_rng_normal(&rng, to, 0, p->count); break;
    case KD_INIT_ORTHOGONAL: init_orthogonal(to, p, &rng); break;
    case KD_INIT_LOG_ROPE: init_log_rope(to, &p->shape); break;
    case KD_INIT_FIR: init_fir(to, p->init_value); break;
    case KD_INIT_ROPE: init_rope(to, &p->shape); break;
    case KD_INIT_FAN_IN:
        kd_rng_uniforms(&rng, to, 0, p->count);
        for (int64_t i = 0; i < p->count; i++)
            to[i] = (2 * to[i] - 1) * bound;
        break;
    }
}

void kd_params_init(const kd_params *ps, uint64_t seed, float *flat)
{
    for (int i = 0; i < ps->n; i++)
        init(&ps->p[i], seed, flat + ps->p[i].offset);
}
