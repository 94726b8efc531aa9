// image_transformer_v2 from its weights: levels, depths, widths, heads; k-diffusion's default attention.
#include "model/guess_private.h"
#include <inttypes.h>
#include <stdio.h>

typedef struct v2 {
    int levels; int64_t depth[KD_MAX_LEVELS], width[KD_MAX_LEVELS], d_ff[KD_MAX_LEVELS], heads[KD_MAX_LEVELS];
    int64_t channels, patch;
} v2;

static int measure_level(const kd_guess *g, v2 *m, int i, kd_err *err)
{
    char at[64], prefix[80];
    snprintf(at, sizeof at, i + 1 < m->levels ? "down_levels.%d" : "mid_level", i);
    snprintf(prefix, sizeof prefix, "%s.", at);
    m->depth[i] = kd_guess_count(g, prefix);
    m->width[i] = i ? kd_guess_size(g, 0, "merges.%d.proj.weight", i - 1) : kd_guess_size(g, 0, "patch_in.proj.weight");
    m->d_ff[i] = m->depth[i] ? kd_guess_size(g, 0, "%s.0.ff.up_proj.weight", at) / 2 : 3 * m->width[i];
    m->heads[i] = kd_guess_size(g, 0, "%s.0.self_attn.scale", at);
    if (!m->width[i] || !m->d_ff[i] || (m->heads[i] && m->width[i] % m->heads[i]))
        return kd_guess_cannot(g, err, "a level's weights are missing, or their shapes do not fit each other");
    return 0;
}

static int measure(const kd_guess *g, v2 *m, kd_err *err)
{
    m->levels = kd_guess_count(g, "merges.") + 1;                      // levels themselves may be empty
    if (m->levels > KD_MAX_LEVELS)
        return kd_guess_cannot(g, err, "too many levels");
    if (!kd_guess_patch(kd_guess_size(g, 1, "patch_in.proj.weight"), &m->channels, &m->patch))
        return kd_guess_cannot(g, err, "neither 1 nor 3 channels and a square patch fit patch_in.proj.weight");
    for (int i = 0; i < m->levels; i++)
        KD_TRY(measure_level(g, m, i, err));
    return 0;
}

// Attention as k-diffusion's default has it: neighborhoods, and everywhere on the coarsest level.
static int add_attention(kd_guess *g, const v2 *m, kd_err *err)
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

static mapping measure_mapping(const kd_guess *g)
{
    const int64_t rows = kd_guess_size(g, 0, "class_emb.weight");             // the last one is "no class"
    return (mapping){ .width = kd_guess_size(g, 0, "time_in_proj.weight"), .depth = kd_guess_count(g, "mapping.blocks."),
                      .d_ff = kd_guess_size(g, 0, "mapping.blocks.0.up_proj.weight") / 2, .classes = rows ? rows - 1 : 0,
                      .cond = kd_guess_size(g, 1, "mapping_cond_in_proj.weight") };
}

static int write_config(kd_guess *g, const v2 *m, const mapping *n, int64_t size, kd_err *err)
{
    kd_str *c = &g->config;
    const int64_t two[2] = { size, size }, patch[2] = { m->patch, m->patch };
    KD_TRY(kd_str_printf(c, err, "{\"model\": {\"type\": \"image_transformer_v2\", \"input_channels\": %" PRId64 ", ", m->channels));
    KD_TRY(kd_guess_list(c, "\"input_size\": ", two, 2, err));
    KD_TRY(kd_guess_list(c, "\"patch_size\": ", patch, 2, err));
    KD_TRY(kd_guess_list(c, "\"depths\": ", m->depth, m->levels, err));
    KD_TRY(kd_guess_list(c, "\"widths\": ", m->width, m->levels, err));
    KD_TRY(kd_guess_list(c, "\"d_ffs\": ", m->d_ff, m->levels, err));
    KD_TRY(add_attention(g, m, err));
    KD_TRY(kd_str_printf(c, err, "\"mapping_width\": %" PRId64 ", \"mapping_depth\": %" PRId64 ", \"mapping_d_ff\": %" PRId64
                         ", \"mapping_cond_dim\": %" PRId64 ", ", n->width, n->depth, n->d_ff, n->cond));
    return kd_str_printf(c, err, "\"sigma_data\": 0.5, \"sigma_min\": 0.01, \"sigma_max\": 80}, \"dataset\": {\"num_classes\": %" PRId64
                         "}}", n->classes);
}

int kd_guess_transformer_v2(kd_guess *g, kd_err *err)
{
    v2 m = {0};
    KD_TRY(measure(g, &m, err));
    const mapping n = measure_mapping(g);
    const int64_t size = (m.patch << (m.levels - 1)) * 16;              // 16 x 16 tokens on the coarsest level
    KD_TRY(write_config(g, &m, &n, size, err));
    KD_TRY(kd_str_printf(&g->told, err, "image_transformer_v2, "));
    KD_TRY(kd_guess_list(&g->told, "depths ", m.depth, m.levels, err));
    KD_TRY(kd_guess_list(&g->told, "widths ", m.width, m.levels, err));
    KD_TRY(kd_guess_list(&g->told, "d_ffs ", m.d_ff, m.levels, err));
    KD_TRY(kd_guess_list(&g->told, "heads ", m.heads, m.levels, err));
    KD_TRY(kd_str_printf(&g->told, err, "mapping width %" PRId64 " and depth %" PRId64 ", %" PRId64 " classes", n.width, n.depth,
                         n.classes));
    return kd_str_printf(&g->taken, err, "%d channel%s in patches of %" PRId64 ", input_size [%" PRId64 ", %" PRId64
                         "], %ssigma_data 0.5, sigma_min 0.01, sigma_max 80", (int)m.channels, m.channels == 1 ? "" : "s", m.patch, size,
                         size, m.levels > 1 ? "neighborhood attention of 7 on all levels but the last, " : "");
}
