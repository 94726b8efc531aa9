// The model section of a filled-in config.
#include "model/config_parts.h"
#include <math.h>
#include <stdio.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
enum { MAX_SIZE = 1 << 16, MAX_WIDTH = 1 << 16, MAX_DEPTH = 1 << 10, MAX_FF = 1 << 20 };

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
        KD_TRY(kd_config_int(attn, "d_head", 1, MAX_WIDTH, &level->d_head, err));
    if (level->self_attn == KD_SELF_NEIGHBORHOOD && kd_config_has(attn, "kernel_size"))
        KD_TRY(kd_config_int(attn, "kernel_size", 1, MAX_SIZE, &level->size, err));
    if (level->self_attn == KD_SELF_SHIFTED_WINDOW)
        KD_TRY(kd_config_int(attn, "window_size", 1, MAX_SIZE, &level->size, err));
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

/// A dropout rate: below 1.
static int read_rate(const kd_json *j, double *to, kd_err *err)
{
    KD_TRY(kd_json_num(j, 0, 1, to, err));
    return *to < 1 ? 0 : kd_json_fail(j, err, "expected a rate below 1");
}

static int read_levels(kd_config *c, const kd_json *m, kd_err *err)
{
    int64_t depth[KD_MAX_LEVELS], width[KD_MAX_LEVELS], d_ff[KD_MAX_LEVELS];
    kd_json list, attns, rates;
    const kd_json widths = kd_json_at(m, "widths");
    const int n = c->levels = (int)json_array_size(widths.v);            // 1..KD_MAX_LEVELS: kd_config_fill has seen to it
    KD_TRY(kd_config_ints(m, "widths", n, 1, MAX_WIDTH, width, err));
    KD_TRY(list_of(m, "depths", "integers", n, &list, err));
    KD_TRY(kd_config_ints(m, "depths", n, 0, MAX_DEPTH, depth, err));
    KD_TRY(list_of(m, "d_ffs", "integers", n, &list, err));
    KD_TRY(kd_config_ints(m, "d_ffs", n, 1, MAX_FF, d_ff, err));
    KD_TRY(list_of(m, "self_attns", "objects", n, &attns, err));
    KD_TRY(list_of(m, "dropout_rate", "numbers", n, &rates, err));
    for (int i = 0; i < n; i++) {
        kd_level *level = &c->level[i];
        const kd_json attn = kd_json_item(&attns, i), rate = kd_json_item(&rates, i);
        level->depth = depth[i], level->width = width[i], level->d_ff = d_ff[i];
        KD_TRY(read_self_attn(level, &attn, err));
        KD_TRY(read_rate(&rate, &level->dropout, err));
    }
    return 0;
}

/// The first of two spellings of a key that is given; the second if none is.
static const char *either(const kd_json *o, const char *a, const char *b) { return kd_config_has(o, a) ? a : b; }

static int optional(const kd_json *o, const char *key, double fallback, double *to, kd_err *err)
{
    *to = fallback;
    return kd_config_has(o, key) ? kd_config_num(o, key, -INFINITY, INFINITY, to, err) : 0;
}

static int ordered(const kd_json *o, const kd_density *d, bool positive, kd_err *err)
{
    if (positive && !(d->min_value > 0))
        return kd_json_fail(o, err, "min_value must be above 0, got %.9g", d->min_value);
    if (!(d->min_value < d->max_value))
        return kd_json_fail(o, err, "min_value must be below max_value, got %.9g and %.9g", d->min_value, d->max_value);
    return 0;
}

/// Peer: k_diffusion/config.py make_sample_density.
static int read_density(kd_config *c, const kd_json *o, kd_err *err)
{
    enum { LOGNORMAL, LOGLOGISTIC, LOGUNIFORM, V_DIFFUSION, SPLIT, COSINE_INTERPOLATED, COSINE };   // as in kd_density_type
    static const char *const names[] = { "lognormal", "loglogistic", "loguniform", "v-diffusion", "split-lognormal",
                                         "cosine-interpolated", "cosine" };
    kd_density *d = &c->density;
    const double longest = fmax(c->size[0], c->size[1]);
    int type;
    KD_TRY(kd_config_choice(o, "type", names, COUNT(names), &type, err));
    d->type = type == COSINE ? KD_DENSITY_V_DIFFUSION : (kd_density_type)type;
    d->sigma_data = c->sigma_data;
    switch (d->type) {
    case KD_DENSITY_LOGNORMAL:
        KD_TRY(kd_config_num(o, either(o, "mean", "loc"), -INFINITY, INFINITY, &d->loc, err));
        return kd_config_positive(o, either(o, "std", "scale"), &d->scale, err);
    case KD_DENSITY_SPLIT_LOGNORMAL:
        KD_TRY(kd_config_num(o, either(o, "mean", "loc"), -INFINITY, INFINITY, &d->loc, err));
        KD_TRY(kd_config_positive(o, either(o, "std_1", "scale_1"), &d->scale, err));
        return kd_config_positive(o, either(o, "std_2", "scale_2"), &d->scale_2, err);
    case KD_DENSITY_LOGLOGISTIC:
        KD_TRY(optional(o, "loc", log(c->sigma_data), &d->loc, err));
        d->scale = 0.5;
        if (kd_config_has(o, "scale"))
            KD_TRY(kd_config_positive(o, "scale", &d->scale, err));
        KD_TRY(optional(o, "min_value", 0, &d->min_value, err));
        KD_TRY(optional(o, "max_value", INFINITY, &d->max_value, err));
        if (d->min_value < 0)
            return kd_json_fail(o, err, "min_value must not be below 0, got %.9g", d->min_value);
        return ordered(o, d, false, err);
    case KD_DENSITY_LOGUNIFORM:
        KD_TRY(optional(o, "min_value", c->sigma_min, &d->min_value, err));
        KD_TRY(optional(o, "max_value", c->sigma_max, &d->max_value, err));
        return ordered(o, d, true, err);
    case KD_DENSITY_V_DIFFUSION:
        KD_TRY(optional(o, "min_value", 1e-3, &d->min_value, err));
        KD_TRY(optional(o, "max_value", 1e3, &d->max_value, err));
        return ordered(o, d, true, err);
    case KD_DENSITY_COSINE_INTERPOLATED:
        KD_TRY(optional(o, "min_value", fmin(c->sigma_min, 1e-3), &d->min_value, err));
        KD_TRY(optional(o, "max_value", fmax(c->sigma_max, 1e3), &d->max_value, err));
        d->image_d = d->noise_d_high = longest;
        d->noise_d_low = 32;
        if (kd_config_has(o, "image_d"))
            KD_TRY(kd_config_positive(o, "image_d", &d->image_d, err));
        if (kd_config_has(o, "noise_d_low"))
            KD_TRY(kd_config_positive(o, "noise_d_low", &d->noise_d_low, err));
        if (kd_config_has(o, "noise_d_high"))
            KD_TRY(kd_config_positive(o, "noise_d_high", &d->noise_d_high, err));
        return ordered(o, d, true, err);
    }
    return 0;
}

static int read_loss(kd_config *c, const kd_json *m, kd_err *err)
{
    static const char *const losses[] = { "karras", "simple" };                     // kd_loss_type
    static const char *const weights[] = { "karras", "soft-min-snr", "snr" };       // kd_weight_type
    int loss, weighting;
    KD_TRY(kd_config_choice(m, "loss_config", losses, COUNT(losses), &loss, err));
    KD_TRY(kd_config_choice(m, "loss_weighting", weights, COUNT(weights), &weighting, err));
    c->loss = (kd_loss_type)loss, c->weighting = (kd_weight_type)weighting;
    return kd_config_int(m, "loss_scales", 1, 64, &c->loss_scales, err);
}

/// Keys that other networks have and this one is merely told.
static int read_others(const kd_json *m, kd_err *err)
{
    bool augment_wrapper, has_variance;
    int64_t skip_stages;
    KD_TRY(kd_config_bool(m, "augment_wrapper", &augment_wrapper, err));
    KD_TRY(kd_config_int(m, "skip_stages", 0, INT64_MAX, &skip_stages, err));
    KD_TRY(kd_config_bool(m, "has_variance", &has_variance, err));
    const kd_json j = kd_json_at(m, "has_variance");
    if (has_variance)
        return kd_json_fail(&j, err, "an image_transformer_v2 has no variance output: set it to false");
    return 0;
}

int kd_config_read_model(kd_config *c, const kd_json *top, kd_err *err)
{
    const kd_json m = kd_json_at(top, "model"), density = kd_json_at(&m, "sigma_sample_density"),
                  mapping_dropout = kd_json_at(&m, "mapping_dropout_rate");
    c->type = KD_MODEL_TRANSFORMER_V2;
    KD_TRY(kd_config_int(&m, "input_channels", 1, 1024, &c->channels, err));
    KD_TRY(kd_config_ints(&m, "input_size", 2, 1, MAX_SIZE, c->size, err));
    KD_TRY(kd_config_ints(&m, "patch_size", 2, 1, MAX_SIZE, c->patch, err));
    KD_TRY(read_levels(c, &m, err));
    KD_TRY(kd_config_int(&m, "mapping_width", 1, MAX_WIDTH, &c->mapping_width, err));
    KD_TRY(kd_config_int(&m, "mapping_depth", 0, MAX_DEPTH, &c->mapping_depth, err));
    KD_TRY(kd_config_int(&m, "mapping_d_ff", 1, MAX_FF, &c->mapping_d_ff, err));
    KD_TRY(kd_config_int(&m, "mapping_cond_dim", 0, MAX_WIDTH, &c->mapping_cond_dim, err));
    KD_TRY(read_rate(&mapping_dropout, &c->mapping_dropout, err));
    KD_TRY(kd_config_num(&m, "augment_prob", 0, 1, &c->augment_prob, err));
    KD_TRY(kd_config_positive(&m, "sigma_data", &c->sigma_data, err));
    KD_TRY(kd_config_positive(&m, "sigma_min", &c->sigma_min, err));
    KD_TRY(kd_config_positive(&m, "sigma_max", &c->sigma_max, err));
    if (c->sigma_min >= c->sigma_max) {
        const kd_json j = kd_json_at(&m, "sigma_min");
        return kd_json_fail(&j, err, "must be below sigma_max, got %.9g and %.9g", c->sigma_min, c->sigma_max);
    }
    KD_TRY(read_loss(c, &m, err));
    KD_TRY(read_others(&m, err));
    c->has_density = kd_json_given(&density);
    return c->has_density ? read_density(c, &density, err) : 0;
}
