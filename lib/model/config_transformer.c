// The model section of transformers, version 2 and 1.
#include "model/config_parts.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static int read_self_attn(kd_level *level, const kd_json *attn, kd_err *err)
{
    static const char *const names[] = { "none", "global", "neighborhood", "shifted-window" };   // kd_self_attn_type
    int type;
    KD_TRY(kd_config_choice(attn, "type", names, COUNT(names), &type, err));
    level->self_attn = (kd_self_attn_type)type;
    level->d_head = 64;
    level->size = level->self_attn == KD_SELF_NEIGHBORHOOD ? 7 : 0;
    if (level->self_attn == KD_SELF_NONE)
        return 0;
    if (kd_config_has(attn, "d_head"))
        KD_TRY(kd_config_int(attn, "d_head", 1, KD_MAX_WIDTH, &level->d_head, err));
    if (level->self_attn == KD_SELF_NEIGHBORHOOD && kd_config_has(attn, "kernel_size"))
        KD_TRY(kd_config_int(attn, "kernel_size", 1, KD_MAX_SIZE, &level->size, err));
    if (level->self_attn == KD_SELF_SHIFTED_WINDOW)
        KD_TRY(kd_config_int(attn, "window_size", 1, KD_MAX_SIZE, &level->size, err));
    return 0;
}

/// A list with one value for each level.
static int list_of(const kd_json *model, const char *key, const char *what, int levels, kd_json *list, kd_err *err)
{
    size_t n;
    *list = kd_json_at(model, key);
    KD_TRY(kd_json_array(list, &n, err));
    if (n != (size_t)levels)
        return kd_json_fail(list, err, "expected %d %s, one a level as in widths, got %zu", levels, what, n);
    return 0;
}

static int read_levels(kd_transformer_v2 *c, const kd_json *m, kd_err *err)
{
    int64_t depth[KD_MAX_LEVELS], width[KD_MAX_LEVELS], d_ff[KD_MAX_LEVELS];
    kd_json list, attns, rates;
    const kd_json widths = kd_json_at(m, "widths");
    const int n = c->levels = (int)json_array_size(widths.v);            // 1..KD_MAX_LEVELS: kd_config_fill has seen to it
    KD_TRY(kd_config_ints(m, "widths", n, 1, KD_MAX_WIDTH, width, err));
    KD_TRY(list_of(m, "depths", "integers", n, &list, err));
    KD_TRY(kd_config_ints(m, "depths", n, 0, KD_MAX_DEPTH, depth, err));
    KD_TRY(list_of(m, "d_ffs", "integers", n, &list, err));
    KD_TRY(kd_config_ints(m, "d_ffs", n, 1, KD_MAX_FF, d_ff, err));
    KD_TRY(list_of(m, "self_attns", "objects", n, &attns, err));
    KD_TRY(list_of(m, "dropout_rate", "numbers", n, &rates, err));
    for (int i = 0; i < n; i++) {
        kd_level *level = &c->level[i];
        const kd_json attn = kd_json_item(&attns, i), rate = kd_json_item(&rates, i);
        level->depth = depth[i], level->width = width[i], level->d_ff = d_ff[i];
        KD_TRY(read_self_attn(level, &attn, err));
        KD_TRY(kd_json_rate(&rate, &level->dropout, err));
    }
    return 0;
}

/// Keys that other networks have and these are merely told.
static int read_others(const kd_config *c, const kd_json *m, kd_err *err)
{
    bool augment_wrapper, has_variance;
    int64_t skip_stages;
    KD_TRY(kd_config_bool(m, "augment_wrapper", &augment_wrapper, err));
    KD_TRY(kd_config_int(m, "skip_stages", 0, INT64_MAX, &skip_stages, err));
    KD_TRY(kd_config_bool(m, "has_variance", &has_variance, err));
    const kd_json j = kd_json_at(m, "has_variance");
    if (has_variance)
        return kd_json_fail(&j, err, "an %s has no variance output: set it to false", kd_model_type_names[c->type]);
    return 0;
}

int kd_config_read_v2(kd_config *c, const kd_json *m, kd_err *err)
{
    kd_transformer_v2 *t = &c->v2;
    KD_TRY(kd_config_ints(m, "patch_size", 2, 1, KD_MAX_SIZE, t->patch, err));
    KD_TRY(read_levels(t, m, err));
    KD_TRY(kd_config_int(m, "mapping_width", 1, KD_MAX_WIDTH, &t->mapping_width, err));
    KD_TRY(kd_config_int(m, "mapping_depth", 0, KD_MAX_DEPTH, &t->mapping_depth, err));
    KD_TRY(kd_config_int(m, "mapping_d_ff", 1, KD_MAX_FF, &t->mapping_d_ff, err));
    KD_TRY(kd_config_int(m, "mapping_cond_dim", 0, KD_MAX_WIDTH, &c->mapping_cond_dim, err));
    KD_TRY(kd_config_rate(m, "mapping_dropout_rate", &t->mapping_dropout, err));
    c->aug_cond = c->no_class = true;
    return read_others(c, m, err);
}

int kd_config_read_v1(kd_config *c, const kd_json *m, kd_err *err)
{
    kd_transformer_v1 *t = &c->v1;
    KD_TRY(kd_config_ints(m, "patch_size", 2, 1, KD_MAX_SIZE, t->patch, err));
    KD_TRY(kd_config_int(m, "depth", 0, KD_MAX_DEPTH, &t->depth, err));
    KD_TRY(kd_config_int(m, "width", 1, KD_MAX_WIDTH, &t->width, err));
    KD_TRY(kd_config_int(m, "d_ff", 1, KD_MAX_FF, &t->d_ff, err));
    KD_TRY(kd_config_rate(m, "dropout_rate", &t->dropout, err));
    c->aug_cond = c->no_class = true;
    return read_others(c, m, err);
}
