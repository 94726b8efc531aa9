// The keys of a config, by its network.
#include "model/config_parts.h"
#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const char *const top_keys[] = { "model", "dataset", "optimizer", "lr_sched", "ema_sched" };
static const char *const v2_keys[] = {
    "patch_size", "depths", "widths", "d_ffs", "self_attns", "mapping_width", "mapping_depth", "mapping_d_ff",
    "mapping_cond_dim", "mapping_dropout_rate", "augment_wrapper", "skip_stages", "has_variance", NULL };
static const char *const v1_keys[] = {
    "patch_size", "depth", "width", "d_ff", "augment_wrapper", "skip_stages", "has_variance", NULL };
static const char *const image_v1_keys[] = {
    "patch_size", "mapping_out", "depths", "channels", "self_attn_depths", "cross_attn_depths", "cross_cond_dim",
    "unet_cond_dim", "mapping_cond_dim", "augment_wrapper", "skip_stages", "has_variance", NULL };
static const char *const common_keys[] = {
    "type", "input_channels", "input_size", "dropout_rate", "augment_prob", "loss_config", "loss_weighting", "loss_scales",
    "sigma_data", "sigma_min", "sigma_max", "sigma_sample_density", "wrapper", "quantize",
    "noise_schedule", "diffusion_steps", "beta_start", "beta_end" };
static const char *const attn_keys[] = { "type", "d_head", "kernel_size", "window_size" };
static const char *const density_keys[] = {
    "type", "mean", "std", "loc", "scale", "std_1", "std_2", "scale_1", "scale_2", "min_value", "max_value", "image_d",
    "noise_d_low", "noise_d_high" };
static const char *const dataset_keys[] = {
    "type", "location", "num_classes", "cond_dropout_rate", "image_key", "class_key", "get_dataset", "config" };
static const char *const optimizer_keys[] = { "type", "lr", "betas", "eps", "weight_decay", "momentum", "nesterov" };
static const char *const lr_keys[] = { "type", "warmup", "inv_gamma", "power", "min_lr", "num_steps", "decay" };
static const char *const ema_keys[] = { "type", "power", "max_value" };

static bool is_known(const char *key, const char *const *known, int n)
{
    int i = 0;
    while (i < n && strcmp(known[i], key))
        i++;
    return i < n;
}

const char *const kd_model_type_names[] = { "image_transformer_v2", "image_transformer_v1", "image_v1", "guided_diffusion", "toy_mixture" };

static int check(const kd_json *object, const char *const *known, int n, kd_str *unknown, kd_err *err)
{
    if (!unknown)
        return kd_json_known(object, known, n, err);
    KD_TRY(kd_json_object(object, err));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object->v, key, value) {
        if (is_known(key, known, n))
            continue;
        char path[256];
        const kd_json at = kd_json_at(object, key);
        KD_TRY(kd_str_printf(unknown, err, "%s%s", unknown->n ? ", " : "", kd_json_path(&at, path, sizeof path)));
    }
    return 0;
}

/// An object that may be missing.
static int check_at(const kd_json *o, const char *key, const char *const *known, int n, kd_str *unknown, kd_err *err)
{
    const kd_json j = kd_json_at(o, key);
    return j.v ? check(&j, known, n, unknown, err) : 0;
}

static int check_model(const kd_json *model, kd_model_type type, kd_str *unknown, kd_err *err)
{
    const char *const *own[] = { v2_keys, v1_keys, image_v1_keys, kd_guided_keys }, *known[64];       // by kd_model_type
    int n = 0;
    for (int i = 0; i < COUNT(common_keys); i++)
        known[n++] = common_keys[i];
    for (const char *const *key = own[type]; *key; key++)
        known[n++] = *key;
    return check(model, known, n, unknown, err);
}

int kd_config_check_keys(const kd_json *top, kd_model_type *type, kd_str *unknown, kd_err *err)
{
    int t;
    KD_TRY(check(top, top_keys, COUNT(top_keys), unknown, err));
    const kd_json model = kd_json_at(top, "model");
    KD_TRY(kd_json_object(&model, err));
    KD_TRY(kd_config_choice(&model, "type", kd_model_type_names, 4, &t, err));
    *type = (kd_model_type)t;
    KD_TRY(check_model(&model, *type, unknown, err));
    if (*type == KD_MODEL_TRANSFORMER_V2 && kd_config_has(&model, "self_attns")) {
        const kd_json attns = kd_json_at(&model, "self_attns");
        size_t n;
        KD_TRY(kd_json_array(&attns, &n, err));
        for (size_t i = 0; i < n; i++) {
            const kd_json attn = kd_json_item(&attns, i);
            KD_TRY(check(&attn, attn_keys, COUNT(attn_keys), unknown, err));
        }
    }
    KD_TRY(check_at(&model, "sigma_sample_density", density_keys, COUNT(density_keys), unknown, err));
    KD_TRY(check_at(top, "dataset", dataset_keys, COUNT(dataset_keys), unknown, err));
    KD_TRY(check_at(top, "optimizer", optimizer_keys, COUNT(optimizer_keys), unknown, err));
    KD_TRY(check_at(top, "lr_sched", lr_keys, COUNT(lr_keys), unknown, err));
    return check_at(top, "ema_sched", ema_keys, COUNT(ema_keys), unknown, err);
}
