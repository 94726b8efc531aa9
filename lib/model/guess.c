// Networks by the names and shapes of their weights: one row of `networks` for each kind.
#include "model/guess.h"
#include "base/json.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct guess {
    const kd_frame *f;
    const char *file;
    kd_str config;             // JSON as a user would write it
    kd_str told, taken;        // what shapes say, what they cannot
} guess;

// Size d of a weight, 0 if there is none of that name.
static int64_t size_of(const guess *g, int d, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int64_t size_of(const guess *g, int d, const char *fmt, ...)
{
    char name[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    const kd_tensor *t = kd_frame_get(g->f, name);
    return t && d < t->shape.n ? t->shape.d[d] : 0;
}

// How many numbered modules "prefix.0.", "prefix.1.", ... there are.
static int count_of(const guess *g, const char *prefix)
{
    int n = 0;
    for (int i = 0; i < g->f->n; i++) {
        const char *name = g->f->t[i].name;
        const size_t length = strlen(prefix);
        if (strncmp(name, prefix, length) || name[length] < '0' || name[length] > '9')
            continue;
        const long at = strtol(name + length, NULL, 10);
        if (at >= n && at < 10000)
            n = (int)at + 1;
    }
    return n;
}

static int64_t root_of(int64_t n)
{
    const int64_t r = n > 0 ? (int64_t)llround(sqrt((double)n)) : 0;
    return r * r == n ? r : 0;
}

static int cannot(const guess *g, kd_err *err, const char *why)
{
    return kd_fail(err, KD_EUSAGE, "%s: no config in it, and none can be guessed: %s; --config gives one", g->file, why);
}

// image_transformer_v2 -------------------------------------------------------------------------------------------

typedef struct v2 {
    int levels; int64_t depth[KD_MAX_LEVELS], width[KD_MAX_LEVELS], d_ff[KD_MAX_LEVELS], heads[KD_MAX_LEVELS];
    int64_t channels, patch;
} v2;

static int measure_level(const guess *g, v2 *m, int i, kd_err *err)
{
    char at[64], prefix[80];
    snprintf(at, sizeof at, i + 1 < m->levels ? "down_levels.%d" : "mid_level", i);
    snprintf(prefix, sizeof prefix, "%s.", at);
    m->depth[i] = count_of(g, prefix);
    m->width[i] = i ? size_of(g, 0, "merges.%d.proj.weight", i - 1) : size_of(g, 0, "patch_in.proj.weight");
    m->d_ff[i] = size_of(g, 0, "%s.0.ff.up_proj.weight", at) / 2;
    m->heads[i] = size_of(g, 0, "%s.0.self_attn.scale", at);
    if (!m->depth[i] || !m->width[i] || !m->d_ff[i] || (m->heads[i] && m->width[i] % m->heads[i]))
        return cannot(g, err, "a level's weights are missing, or their shapes do not fit each other");
    return 0;
}

// Channels times patch area is one number. Colour first, square patches.
static int measure(const guess *g, v2 *m, kd_err *err)
{
    const int64_t in = size_of(g, 1, "patch_in.proj.weight");
    m->levels = count_of(g, "down_levels.") + 1;
    if (m->levels > KD_MAX_LEVELS)
        return cannot(g, err, "too many levels");
    m->channels = in % 3 == 0 && root_of(in / 3) ? 3 : 1;
    m->patch = root_of(in / m->channels);
    if (!m->patch)
        return cannot(g, err, "neither 1 nor 3 channels and a square patch fit patch_in.proj.weight");
    for (int i = 0; i < m->levels; i++)
        KD_TRY(measure_level(g, m, i, err));
    return 0;
}

static int add_list(kd_str *s, const char *before, const int64_t *v, int n, kd_err *err)
{
    KD_TRY(kd_str_printf(s, err, "%s[", before));
    for (int i = 0; i < n; i++)
        KD_TRY(kd_str_printf(s, err, "%s%" PRId64, i ? ", " : "", v[i]));
    return kd_str_printf(s, err, "], ");
}

// Attention as k-diffusion's default has it: neighborhoods, and everywhere on the coarsest level.
static int add_attention(guess *g, const v2 *m, kd_err *err)
{
    KD_TRY(kd_str_printf(&g->config, err, "\"self_attns\": ["));
    for (int i = 0; i < m->levels; i++) {
        const char *comma = i ? ", " : "";
        const int64_t d_head = m->heads[i] ? m->width[i] / m->heads[i] : 0;
        if (!d_head)
            KD_TRY(kd_str_printf(&g->config, err, "%s{\"type\": \"none\"}", comma));
        else if (i + 1 < m->levels)
            KD_TRY(kd_str_printf(&g->config, err, "%s{\"type\": \"neighborhood\", \"d_head\": %" PRId64 ", \"kernel_size\": 7}", comma,
                                 d_head));
        else
            KD_TRY(kd_str_printf(&g->config, err, "%s{\"type\": \"global\", \"d_head\": %" PRId64 "}", comma, d_head));
    }
    return kd_str_printf(&g->config, err, "], ");
}

typedef struct mapping { int64_t width, depth, d_ff, cond, classes; } mapping;

static mapping measure_mapping(const guess *g)
{
    const int64_t rows = size_of(g, 0, "class_emb.weight");             // the last one is "no class"
    return (mapping){ .width = size_of(g, 0, "time_in_proj.weight"), .depth = count_of(g, "mapping.blocks."),
                      .d_ff = size_of(g, 0, "mapping.blocks.0.up_proj.weight") / 2, .classes = rows ? rows - 1 : 0,
                      .cond = size_of(g, 1, "mapping_cond_in_proj.weight") };
}

static int write_config(guess *g, const v2 *m, const mapping *n, int64_t size, kd_err *err)
{
    kd_str *c = &g->config;
    const int64_t two[2] = { size, size }, patch[2] = { m->patch, m->patch };
    KD_TRY(kd_str_printf(c, err, "{\"model\": {\"type\": \"image_transformer_v2\", \"input_channels\": %" PRId64 ", ", m->channels));
    KD_TRY(add_list(c, "\"input_size\": ", two, 2, err));
    KD_TRY(add_list(c, "\"patch_size\": ", patch, 2, err));
    KD_TRY(add_list(c, "\"depths\": ", m->depth, m->levels, err));
    KD_TRY(add_list(c, "\"widths\": ", m->width, m->levels, err));
    KD_TRY(add_list(c, "\"d_ffs\": ", m->d_ff, m->levels, err));
    KD_TRY(add_attention(g, m, err));
    KD_TRY(kd_str_printf(c, err, "\"mapping_width\": %" PRId64 ", \"mapping_depth\": %" PRId64 ", \"mapping_d_ff\": %" PRId64
                         ", \"mapping_cond_dim\": %" PRId64 ", ", n->width, n->depth, n->d_ff, n->cond));
    return kd_str_printf(c, err, "\"sigma_data\": 0.5, \"sigma_min\": 0.01, \"sigma_max\": 80}, \"dataset\": {\"num_classes\": %" PRId64
                         "}}", n->classes);
}

static int guess_v2(guess *g, kd_err *err)
{
    v2 m = {0};
    KD_TRY(measure(g, &m, err));
    const mapping n = measure_mapping(g);
    const int64_t size = (m.patch << (m.levels - 1)) * 16;              // 16 x 16 tokens on the coarsest level
    KD_TRY(write_config(g, &m, &n, size, err));
    KD_TRY(kd_str_printf(&g->told, err, "image_transformer_v2, "));
    KD_TRY(add_list(&g->told, "depths ", m.depth, m.levels, err));
    KD_TRY(add_list(&g->told, "widths ", m.width, m.levels, err));
    KD_TRY(add_list(&g->told, "d_ffs ", m.d_ff, m.levels, err));
    KD_TRY(add_list(&g->told, "heads ", m.heads, m.levels, err));
    KD_TRY(kd_str_printf(&g->told, err, "mapping width %" PRId64 " and depth %" PRId64 ", %" PRId64 " classes", n.width, n.depth,
                         n.classes));
    return kd_str_printf(&g->taken, err, "%d channel%s in patches of %" PRId64 ", input_size [%" PRId64 ", %" PRId64
                         "], %ssigma_data 0.5, sigma_min 0.01, sigma_max 80", (int)m.channels, m.channels == 1 ? "" : "s", m.patch, size,
                         size, m.levels > 1 ? "neighborhood attention of 7 on all levels but the last, " : "");
}

// The table ------------------------------------------------------------------------------------------------------

typedef struct network { const char *marker, *name; int (*guess)(guess *, kd_err *); } network;   // marker: a weight it always has
static const network networks[] = {
    { "patch_in.proj.weight", "k-diffusion's image_transformer_v2", guess_v2 },
    { "blocks.0.self_attn.qk_norm.scale", "k-diffusion's image_transformer_v1", NULL },
    { "input_blocks.0.0.weight", "guided-diffusion's UNet", NULL },
    { "u_net.d_blocks.0.0.main.0.weight", "k-diffusion's image_v1", NULL },
    { "inner_model.u_net.d_blocks.0.0.main.0.weight", "k-diffusion's image_v1", NULL } };

static int finish(guess *g, kd_config **c, char **said, kd_err *err)
{
    kd_str s = {0};
    KD_TRY(kd_config_parse(c, g->config.p, g->file, false, NULL, err));
    if (kd_str_printf(&s, err, "%s: no config in it: from names and shapes %s; not told by them, and taken: %s; --config says otherwise",
                      g->file, g->told.p, g->taken.p)) {
        kd_config_free(*c);
        *c = NULL;
        free(s.p);
        return err->code;
    }
    *said = s.p;
    return 0;
}

int kd_guess_config(kd_config **c, const kd_frame *weights, const char *file, char **said, kd_err *err)
{
    guess g = { .f = weights, .file = file };
    const network *n = NULL;
    *c = NULL;
    *said = NULL;
    for (size_t i = 0; i < sizeof networks / sizeof *networks && !n; i++)
        if (kd_frame_get(weights, networks[i].marker))
            n = &networks[i];
    if (!n)
        return cannot(&g, err, "its names are of no network known here");
    if (!n->guess)
        return kd_fail(err, KD_EUSAGE, "%s: no config in it; it looks like %s, whose config is not guessed: --config gives one", file,
                       n->name);
    if (!n->guess(&g, err))
        finish(&g, c, said, err);
    free(g.config.p);
    free(g.told.p);
    free(g.taken.p);
    return err->code;
}
