// k-diffusion's defaults. Peer: k_diffusion/config.py load_config. The order of keys is that of the peer's merged config,
// which its converter writes into inference files: what all networks have, then the network's own.
#include "model/config_parts.h"
#include <math.h>
#include <string.h>

#define COMMON(dropout) \
    "{ \"model\": { \"sigma_data\": 1.0, \"dropout_rate\": " dropout ", \"augment_prob\": 0.0, \"loss_config\": \"karras\"," \
    "    \"loss_weighting\": \"karras\", \"loss_scales\": 1, "
#define SECTIONS(optimizer) \
    "  \"dataset\": { \"type\": \"imagefolder\", \"num_classes\": 0, \"cond_dropout_rate\": 0.1 }," \
    "  \"optimizer\": { \"type\": \"adamw\", " optimizer " }," \
    "  \"lr_sched\": { \"type\": \"constant\", \"warmup\": 0.0 }," \
    "  \"ema_sched\": { \"type\": \"inverse\", \"power\": 0.6667, \"max_value\": 0.9999 } }"
#define TRANSFORMER "\"lr\": 0.0005, \"betas\": [0.9, 0.99], \"eps\": 1e-8, \"weight_decay\": 0.0001"

static const char *const defaults[] = {
    [KD_MODEL_TRANSFORMER_V2] = COMMON("null")
    "    \"mapping_width\": 256, \"mapping_depth\": 2, \"mapping_d_ff\": null, \"mapping_cond_dim\": 0,"
    "    \"mapping_dropout_rate\": 0.0, \"d_ffs\": null, \"self_attns\": null, \"augment_wrapper\": false,"
    "    \"skip_stages\": 0, \"has_variance\": false }," SECTIONS(TRANSFORMER),
    [KD_MODEL_TRANSFORMER_V1] = COMMON("0.0")
    "    \"d_ff\": 0, \"augment_wrapper\": false, \"skip_stages\": 0, \"has_variance\": false }," SECTIONS(TRANSFORMER),
    [KD_MODEL_IMAGE_V1] = COMMON("0.0")
    "    \"patch_size\": 1, \"augment_wrapper\": true, \"mapping_cond_dim\": 0, \"unet_cond_dim\": 0, \"cross_cond_dim\": 0,"
    "    \"cross_attn_depths\": null, \"skip_stages\": 0, \"has_variance\": false },"
    SECTIONS("\"lr\": 0.0001, \"betas\": [0.95, 0.999], \"eps\": 1e-6, \"weight_decay\": 0.001"),
    // as guided-diffusion's training script has them; its optimizer decays no weight, and no class is ever left out
    [KD_MODEL_GUIDED] =
    "{ \"model\": { \"sigma_data\": 1.0, \"augment_prob\": 0.0, \"loss_config\": \"karras\", \"loss_weighting\": \"karras\","
    "    \"loss_scales\": 1, \"wrapper\": \"eps\", \"quantize\": false },"
    SECTIONS("\"lr\": 0.0001, \"betas\": [0.9, 0.999], \"eps\": 1e-8, \"weight_decay\": 0.0"),
};

/// What Python's `not x` means for the values that stand for "compute it": missing, null, false, 0, [].
static bool is_empty(const json_t *v)
{
    return !v || json_is_null(v) || json_is_false(v) || (json_is_number(v) && json_number_value(v) == 0) ||
           (json_is_array(v) && !json_array_size(v));
}

/// A null of the user's where the default is a truth value is one too: false.
void kd_config_drop_nulls(json_t *own, const json_t *base)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(own, next, key, value) {
        const json_t *d = json_object_get(base, key);
        if (json_is_null(value) && d && !json_is_null(d) && !json_is_boolean(d))
            json_object_del(own, key);
        else if (json_is_object(d))
            kd_config_drop_nulls(value, d);
    }
}

/// Where everything left out has its default.
static void drop_all_nulls(json_t *o)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(o, next, key, value)
        if (json_is_null(value))
            json_object_del(o, key);
}

static void take_nulls_for_defaults(json_t *own, const json_t *base)
{
    const json_t *model = json_object_get(own, "model"), *attns = json_object_get(model, "self_attns");
    kd_config_drop_nulls(own, base);
    drop_all_nulls(json_object_get(model, "sigma_sample_density"));
    for (size_t i = 0; i < json_array_size(attns); i++)
        drop_all_nulls(json_array_get(attns, i));
}

/// Appends; the list is NULL once memory ran out.
static json_t *append(json_t *list, json_t *item)
{
    if (!json_array_append_new(list, item))
        return list;
    json_decref(list);
    return NULL;
}

static json_t *repeat(double x, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        list = append(list, json_real(x));
    return list;
}

/// Neighborhood attention in all levels but the last, which attends globally.
static json_t *default_self_attns(size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        list = append(list, i + 1 < n ? json_pack("{s:s, s:i, s:i}", "type", "neighborhood", "d_head", 64, "kernel_size", 7)
                                      : json_pack("{s:s, s:i}", "type", "global", "d_head", 64));
    return list;
}

static json_t *triple(const json_t *width) { return json_integer(3 * json_integer_value(width)); }

static json_t *triples(const json_t *widths)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(widths); i++)
        list = append(list, triple(json_array_get(widths, i)));
    return list;
}

/// Values that follow from others. Widths are checked by now.
static int derive_v2(json_t *model, const char *file, kd_err *err)
{
    const json_t *widths = json_object_get(model, "widths");
    const size_t levels = json_array_size(widths);
    const json_t *dropout = json_object_get(model, "dropout_rate");
    int failed = 0;
    if (is_empty(json_object_get(model, "mapping_d_ff")))
        failed |= json_object_set_new(model, "mapping_d_ff", triple(json_object_get(model, "mapping_width")));
    if (is_empty(json_object_get(model, "d_ffs")))
        failed |= json_object_set_new(model, "d_ffs", triples(widths));
    if (is_empty(json_object_get(model, "self_attns")))
        failed |= json_object_set_new(model, "self_attns", default_self_attns(levels));
    if (!dropout || json_is_null(dropout) || json_is_number(dropout))       // the peer trips over the integer 0; we take it
        failed |= json_object_set_new(model, "dropout_rate", repeat(json_number_value(dropout), levels));
    return failed ? kd_fail_memory(err, file) : 0;
}

static int fill_v2(json_t *model, const kd_json *user, kd_err *err)
{
    int64_t width[KD_MAX_LEVELS], mapping_width;
    size_t levels;
    const kd_json widths = kd_json_at(user, "widths");
    KD_TRY(kd_json_array(&widths, &levels, err));
    if (levels < 1 || levels > KD_MAX_LEVELS)
        return kd_json_fail(&widths, err, "expected 1 to %d widths, one a level, got %zu", KD_MAX_LEVELS, levels);
    KD_TRY(kd_config_ints(user, "widths", levels, 1, KD_MAX_WIDTH, width, err));
    KD_TRY(kd_config_int(user, "mapping_width", 1, KD_MAX_WIDTH, &mapping_width, err));
    return derive_v2(model, user->file, err);
}

/// x rounded to a multiple of the largest power of two that keeps the error within 5 %. Peer: round_to_power_of_two.
static int64_t round_coarsely(double x)
{
    const int powers = (int)ceil(log2(x));
    for (int i = powers - 1; i >= 0; i--) {
        const double unit = ldexp(1, i), y = rint(x / unit) * unit;        // halves to even, as Python's round
        if (fabs((y - x) / x) <= 0.05)
            return (int64_t)y;
    }
    return (int64_t)rint(x);
}

static int fill_v1(json_t *model, const kd_json *user, kd_err *err)
{
    int64_t width;
    KD_TRY(kd_config_int(user, "width", 1, KD_MAX_WIDTH, &width, err));
    if (is_empty(json_object_get(model, "d_ff")) &&
        json_object_set_new(model, "d_ff", json_integer(round_coarsely((double)width * 8 / 3))))
        return kd_fail_memory(err, user->file);
    return 0;
}

static int derive(json_t *all, const kd_json *user, kd_model_type type, kd_err *err)
{
    const kd_json top = kd_json_top(all, user->file, user->code), model = kd_json_at(&top, "model");
    json_t *to = json_object_get(all, "model");
    switch (type) {
    case KD_MODEL_TRANSFORMER_V2: return fill_v2(to, &model, err);
    case KD_MODEL_TRANSFORMER_V1: return fill_v1(to, &model, err);
    case KD_MODEL_IMAGE_V1:       return 0;
    case KD_MODEL_GUIDED:         return kd_config_fill_guided(all, &top, err);
    case KD_MODEL_TOY_MIXTURE:    break;                   // has a reader of its own
    }
    return 0;
}

int kd_config_fill(json_t **filled, const kd_json *user, kd_model_type type, kd_err *err)
{
    json_t *all, *own;
    *filled = NULL;
    KD_TRY(kd_json_parse(&all, "defaults", KD_EFAIL, defaults[type], strlen(defaults[type]), err));
    own = json_deep_copy(user->v);
    take_nulls_for_defaults(own, all);
    int code = own && !json_object_update_recursive(all, own) ? 0 : kd_fail_memory(err, user->file);
    json_decref(own);
    if (!code)
        code = derive(all, user, type, err);
    if (code)
        json_decref(all);
    else
        *filled = all;
    return code;
}
