// k-diffusion's JSON configs: read, checked, defaults filled in. Peer: k_diffusion/config.py load_config.
#ifndef KD_CONFIG_H
#define KD_CONFIG_H
#include "base/err.h"
#include "model/steps.h"
#include <stdbool.h>
#include <stdint.h>

enum { KD_MAX_LEVELS = 16, KD_MAX_RES_BLOCKS = 16 };

/// guided_diffusion: OpenAI's UNetModel, which no config of k-diffusion names; the others are k-diffusion's own.
/// toy_mixture: no network at all (model/toy.h).
typedef enum { KD_MODEL_TRANSFORMER_V2, KD_MODEL_TRANSFORMER_V1, KD_MODEL_IMAGE_V1, KD_MODEL_GUIDED, KD_MODEL_TOY_MIXTURE } kd_model_type;
extern const char *const kd_model_type_names[];                // as the config's model.type

typedef enum { KD_SELF_NONE, KD_SELF_GLOBAL, KD_SELF_NEIGHBORHOOD, KD_SELF_SHIFTED_WINDOW } kd_self_attn_type;

typedef struct kd_level {
    int64_t depth, width, d_ff;
    kd_self_attn_type self_attn;
    int64_t d_head, size;              // size: kernel_size or window_size
    double dropout;
} kd_level;

typedef struct kd_transformer_v2 {
    int64_t patch[2];                  // h, w
    int levels; kd_level level[KD_MAX_LEVELS];
    int64_t mapping_width, mapping_depth, mapping_d_ff;
    double mapping_dropout;
} kd_transformer_v2;

typedef struct kd_transformer_v1 {
    int64_t patch[2], depth, width, d_ff;
    double dropout;
} kd_transformer_v1;

typedef struct kd_stage { int64_t depth, channels; bool self_attn, cross_attn; } kd_stage;
typedef struct kd_image_v1_config {
    int64_t patch, mapping_out, skip_stages;
    int stages; kd_stage stage[KD_MAX_LEVELS];
    bool augment_wrapper;              // names begin with "inner_model.", and aug_cond leads the mapping condition
    double dropout;
} kd_image_v1_config;

typedef struct kd_guided_config {
    int64_t model_channels, out_channels, res_blocks;
    int levels; int64_t width[KD_MAX_LEVELS];                  // features: channel_mult * model_channels
    bool attention[KD_MAX_LEVELS];                             // a level attends
    int64_t heads, heads_upsample, head_channels;              // head_channels > 0 counts, else the numbers of heads
    bool conv_resample, scale_shift, resblock_updown, new_attention_order;
    double dropout, max_period;        // max_period: of the time embedding
} kd_guided_config;

/// How a network becomes a denoiser (peer: k_diffusion/layers.py Denoiser, k_diffusion/external.py):
/// karras  preconditioned; the network is told sigma
/// v       it gives v and is told 2/pi atan(sigma)
/// eps     it gives the noise and is told a step of a discrete schedule (OpenAI's, CompVis')
/// vd      v, with a discrete schedule
typedef enum { KD_WRAP_KARRAS, KD_WRAP_V, KD_WRAP_EPS, KD_WRAP_VD } kd_wrapper_type;
extern const char *const kd_wrapper_names[];                   // as the config's model.wrapper

typedef enum { KD_DENSITY_LOGNORMAL, KD_DENSITY_LOGLOGISTIC, KD_DENSITY_LOGUNIFORM, KD_DENSITY_V_DIFFUSION,
               KD_DENSITY_SPLIT_LOGNORMAL, KD_DENSITY_COSINE_INTERPOLATED, KD_DENSITY_STEPS } kd_density_type;
/// Parameters with the defaults of k_diffusion/config.py make_sample_density filled in; unused ones are 0.
typedef struct kd_density {
    kd_density_type type;
    const kd_steps *steps;             // steps: each of the discrete schedule's levels as likely; the config's
    double loc, scale, scale_2;        // split-lognormal: scale is scale_1
    double min_value, max_value;
    double image_d, noise_d_low, noise_d_high;
    double sigma_data;
} kd_density;

typedef enum { KD_LOSS_KARRAS, KD_LOSS_SIMPLE } kd_loss_type;
typedef enum { KD_WEIGHT_KARRAS, KD_WEIGHT_SOFT_MIN_SNR, KD_WEIGHT_SNR } kd_weight_type;

typedef struct kd_config {
    char *path;                        // for messages
    bool guessed;                      // nobody wrote it: it was made from the names and shapes of weights (guess.h)
    // model
    kd_model_type type;
    union {                            // by type
        kd_transformer_v2 v2;
        kd_transformer_v1 v1;
        kd_image_v1_config image_v1;
        kd_guided_config guided;
        struct { int64_t components; bool per_pixel; };        // toy_mixture
    };
    int64_t channels, size[2];                                 // of an image; size is (h, w)
    int64_t classes;                                           // 0: none
    bool no_class;                                             // class number `classes` means "no class": guidance can use it
    bool aug_cond;                                             // takes an augmentation condition of 9 numbers
    int64_t mapping_cond_dim, unet_cond_dim, cross_cond_dim;   // of other conditions; 0: none
    bool has_variance;                                         // gives a log variance for each image too
    bool learn_sigma;                                          // gives a variance for each pixel: twice the channels
    kd_wrapper_type wrapper; bool quantize;                    // quantize: the nearest step stands for a noise level
    kd_steps *steps;                                           // the discrete schedule; NULL for karras and v
    bool rescale_timesteps, rescale_learned_sigmas;            // guided_diffusion: told 1000/n of a step's number; the bound of a
                                                               // learned variance counts n/1000 times. n: steps
    double augment_prob, sigma_data, sigma_min, sigma_max;
    kd_loss_type loss; kd_weight_type weighting; int64_t loss_scales;
    kd_density density; bool has_density;                      // inference configs may lack it
    // dataset
    char *dataset_type, *dataset_location;                     // "imagefolder", ...; location may be NULL
    double cond_dropout;                                       // cond_dropout_rate: how often training gives no class
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
/// and patch, odd grids before a merge, channels and groups or heads) are refused with the numbers and the nearest good ones.
/// `adam8bit`: KD_EUSAGE with the reason. formats/config.md lists what is beyond k-diffusion's own keys.
int kd_config_load(kd_config **c, const char *path, kd_err *err);
/// The same from text. foreign (the metadata of a model): unknown keys are not errors but are listed in *warning (one line,
/// caller frees; NULL if none), and how it was trained (adam8bit, any dataset type) does not matter.
int kd_config_parse(kd_config **c, const char *json, const char *path, bool foreign, char **warning, kd_err *err);
void kd_config_free(kd_config *c);

/// Which kd-prep command stands for the config's dataset where kd-train cannot read it itself (huggingface, custom, pickled
/// cifar10): one sentence without a name before it; free() it. NULL if it can be read.
char *kd_config_dataset_hint(const kd_config *c);

/// A condition that the network needs and no stream of images carries: mapping_cond, unet_cond or cross_cond; NULL if none.
/// k-diffusion's scripts have no data for these either.
const char *kd_config_condition(const kd_config *c);

/// The same config with another model.wrapper, the plain loss where others than karras have no choice of it, and nothing about
/// steps where there are none. Where the config had its sigma_min and sigma_max from its steps, these levels are then written out.
/// said    set to a sentence about that, to be freed, or NULL
/// errors  as kd_config_parse
int kd_config_wrap(kd_config **wrapped, const kd_config *c, const char *wrapper, char **said, kd_err *err);

/// Names the first key in which two configs differ in the network or in what its weights mean ("model.depths: [2, 4] here,
/// [2, 2] there"), or NULL. free() it. What only training or a sampler's range depends on may differ.
char *kd_config_model_difference(const kd_config *a, const kd_config *b);
/// The i-th of the other keys of model and dataset that training reads and in which they differ ("model.augment_prob 0.5, was 0.0",
/// `was` for b), or NULL. free() it. (Of the optimizer and the schedules the struct says it all; of the data their hash.)
char *kd_config_training_change(const kd_config *a, const kd_config *b, int i);

#endif
