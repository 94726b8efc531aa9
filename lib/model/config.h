// k-diffusion's JSON configs: read, checked, defaults filled in. Peer: k_diffusion/config.py load_config.
#ifndef KD_CONFIG_H
#define KD_CONFIG_H
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { KD_MAX_LEVELS = 16 };

typedef enum { KD_MODEL_TRANSFORMER_V2, KD_MODEL_TOY_MIXTURE } kd_model_type;        // later: UNets, transformer v1, ...
typedef enum { KD_SELF_NONE, KD_SELF_GLOBAL, KD_SELF_NEIGHBORHOOD, KD_SELF_SHIFTED_WINDOW } kd_self_attn_type;

typedef struct kd_level {
    int64_t depth, width, d_ff;
    kd_self_attn_type self_attn;
    int64_t d_head, size;              // size: kernel_size or window_size
    double dropout;
} kd_level;

typedef enum { KD_DENSITY_LOGNORMAL, KD_DENSITY_LOGLOGISTIC, KD_DENSITY_LOGUNIFORM, KD_DENSITY_V_DIFFUSION,
               KD_DENSITY_SPLIT_LOGNORMAL, KD_DENSITY_COSINE_INTERPOLATED } kd_density_type;
/// Parameters with the defaults of k_diffusion/config.py make_sample_density filled in; unused ones are 0.
typedef struct kd_density {
    kd_density_type type;
    double loc, scale, scale_2;        // split-lognormal: scale is scale_1
    double min_value, max_value;
    double image_d, noise_d_low, noise_d_high;
    double sigma_data;
} kd_density;

typedef enum { KD_LOSS_KARRAS, KD_LOSS_SIMPLE } kd_loss_type;
typedef enum { KD_WEIGHT_KARRAS, KD_WEIGHT_SOFT_MIN_SNR, KD_WEIGHT_SNR } kd_weight_type;

typedef struct kd_config {
    char *path;                        // for messages
    // model
    kd_model_type type;
    int64_t channels, size[2], patch[2];                       // input_channels, input_size (h, w), patch_size (h, w)
    int levels; kd_level level[KD_MAX_LEVELS];
    int64_t mapping_width, mapping_depth, mapping_d_ff, mapping_cond_dim;
    double mapping_dropout;
    int64_t components; bool per_pixel;                        // toy_mixture: model/toy.h
    double augment_prob, sigma_data, sigma_min, sigma_max;
    kd_loss_type loss; kd_weight_type weighting; int64_t loss_scales;
    kd_density density; bool has_density;                      // inference configs may lack it
    // dataset
    char *dataset_type, *dataset_location;                     // "imagefolder", ...; location may be NULL
    int64_t classes; double cond_dropout;                      // num_classes (without the "no class" row), cond_dropout_rate
    // optimizer
    bool sgd; double lr, beta1, beta2, eps, weight_decay, momentum; bool nesterov;
    // schedules
    enum { KD_LR_CONSTANT, KD_LR_INVERSE, KD_LR_EXPONENTIAL } lr_type;
    double lr_warmup, lr_inv_gamma, lr_power, lr_min, lr_num_steps, lr_decay;
    double ema_power, ema_max;
    char *json;                        // the filled-in config as k-diffusion's converter writes it: 4-space indent
} kd_config;

/// Reads a config file, or the `config` metadata of a model or checkpoint file (told by its content). Every key is
/// checked: unknown ones are KD_EUSAGE with their path and the nearest known name; wrong types and values say what was
/// expected and found; sizes that do not fit (width and d_head, d_head and 8, kernel and level, window and level, image
/// and patch, odd grids before a merge) are refused with the numbers and the nearest good ones. `adam8bit`: KD_EUSAGE with
/// the reason. Other model types than the peer's image_transformer_v2: KD_EUSAGE, not supported yet.
int kd_config_load(kd_config **c, const char *path, kd_err *err);
/// The same from text. foreign (the metadata of a model): unknown keys are not errors but are listed in *warning (one line,
/// caller frees; NULL if none), and how it was trained (adam8bit, any dataset type) does not matter.
int kd_config_parse(kd_config **c, const char *json, const char *path, bool foreign, char **warning, kd_err *err);
void kd_config_free(kd_config *c);

/// Which kd-prep command stands for the config's dataset where kd-train cannot read it itself (huggingface, custom, pickled
/// cifar10): one sentence without a name before it; free() it. NULL if it can be read.
char *kd_config_dataset_hint(const kd_config *c);

/// Names of the first model key in which two configs differ ("model.depths: [2, 4] here, [2, 2] there"), or NULL. free() it.
char *kd_config_model_difference(const kd_config *a, const kd_config *b);

#endif
