// Configs: the peer's files filled in as the peer does, and a sentence for each way to get one wrong.
#include "model/config.h"
#include "base/json.h"
#include "base/memory.h"
#include "tests/support/fault.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char base[] =
    "{ \"model\": { \"type\": \"image_transformer_v2\", \"input_channels\": 3, \"input_size\": [32, 48],"
    "    \"patch_size\": [2, 2], \"depths\": [1, 2, 3], \"widths\": [64, 128, 128], \"self_attns\": ["
    "      {\"type\": \"neighborhood\", \"d_head\": 32, \"kernel_size\": 5},"
    "      {\"type\": \"shifted-window\", \"d_head\": 64, \"window_size\": 4},"
    "      {\"type\": \"global\"}],"
    "    \"sigma_data\": 0.5, \"sigma_min\": 1e-2, \"sigma_max\": 80,"
    "    \"sigma_sample_density\": {\"type\": \"cosine-interpolated\"} } }";

static const char one_level[] =
    "{ \"model\": { \"type\": \"image_transformer_v2\", \"input_channels\": 1, \"input_size\": [30, 28],"
    "    \"patch_size\": [4, 4], \"depths\": [1], \"widths\": [64], \"sigma_data\": 0.5, \"sigma_min\": 1e-2,"
    "    \"sigma_max\": 80 } }";

static const char unet[] =
    "{ \"model\": { \"type\": \"image_v1\", \"input_channels\": 3, \"input_size\": [32, 48], \"mapping_out\": 64,"
    "    \"depths\": [1, 2, 3], \"channels\": [64, 128, 128], \"self_attn_depths\": [false, true, true],"
    "    \"sigma_min\": 1e-2, \"sigma_max\": 80, \"sigma_sample_density\": {\"type\": \"cosine-interpolated\"} } }";

static const char first[] =
    "{ \"model\": { \"type\": \"image_transformer_v1\", \"input_channels\": 3, \"input_size\": [32, 48], \"patch_size\": [4, 4],"
    "    \"depth\": 2, \"width\": 128, \"sigma_min\": 1e-2, \"sigma_max\": 80 } }";

/// guided_diffusion in the scripts' words: the network that unet.cu trains.
static const char scripts[] =
    "{ \"model\": { \"type\": \"guided_diffusion\", \"image_size\": 64, \"num_channels\": 64, \"num_res_blocks\": 2,"
    "    \"attention_resolutions\": \"16,8\", \"num_head_channels\": 32 } }";

/// The same in the constructor's.
static const char constructor[] =
    "{ \"model\": { \"type\": \"guided_diffusion\", \"image_size\": 64, \"in_channels\": 3, \"model_channels\": 64, \"out_channels\": 3,"
    "    \"num_res_blocks\": 2, \"attention_resolutions\": [4, 8], \"channel_mult\": [1, 2, 3, 4], \"num_heads\": 4,"
    "    \"num_head_channels\": 32,"
    "    \"use_scale_shift_norm\": true } }";

/// Sets "model.self_attns[1].d_head" to a JSON text; NULL deletes it. Missing objects on the way are made.
static void edit(json_t *at, const char *path, const char *value)
{
    char key[64];
    for (;;) {
        const size_t n = strcspn(path, ".[");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        path += n;
        if (*path == '[') {
            at = json_object_get(at, key);
            char *end;
            const size_t index = strtoul(path + 1, &end, 10);
            path = end + 1;
            if (!*path) {
                json_array_set_new(at, index, json_loads(value, JSON_DECODE_ANY, NULL));
                return;
            }
            at = json_array_get(at, index);
        } else if (!*path) {
            if (value)
                json_object_set_new(at, key, json_loads(value, JSON_DECODE_ANY, NULL));
            else
                json_object_del(at, key);
            return;
        } else {
            if (!json_object_get(at, key))
                json_object_set_new(at, key, json_object());
            at = json_object_get(at, key);
        }
        if (*path == '.')
            path++;
    }
}

static char *edited(const char *from, const char *path, const char *value)
{
    json_t *root = json_loads(from, 0, NULL);
    assert_non_null(root);
    edit(root, path, value);
    char *text = json_dumps(root, 0);
    json_decref(root);
    return text;
}

static kd_config *parsed(const char *json)
{
    kd_config *c;
    kd_err err = {0};
    if (kd_config_parse(&c, json, "cfg.json", false, NULL, &err))
        fail_msg("%s", err.msg);
    return c;
}

static kd_config *parsed_edit(const char *path, const char *value)
{
    char *text = edited(base, path, value);
    kd_config *c = parsed(text);
    free(text);
    return c;
}

// Errors -----------------------------------------------------------------------------------------------------------

typedef struct mistake { const char *path, *value, *message; } mistake;
static const mistake wrong[] = {
    { "modle", "{}", "modle: unknown key (did you mean model?)" },
    { "model", "3", "model: expected an object, got 3" },
    { "model", NULL, "model: expected an object, got nothing" },
    { "model.type", NULL,
      "model.type: expected image_transformer_v2, image_transformer_v1, image_v1 or guided_diffusion, got nothing" },
    { "model.type", "\"image_transformer\"",
      "model.type: expected image_transformer_v2, image_transformer_v1, image_v1 or guided_diffusion, got \"image_transformer\"" },
    { "model.wrapper", "\"edm\"", "model.wrapper: expected karras, v, eps or vd, got \"edm\"" },
    { "model.diffusion_steps", "100", "model.diffusion_steps: steps are those of a discrete schedule: with wrapper eps or vd only" },
    { "model.quantize", "true", "model.quantize: there are no steps to choose from: with wrapper eps or vd only" },
    { "model.dephts", "[1]", "model.dephts: unknown key (did you mean depths?)" },
    { "model.xyz", "1", "model.xyz: unknown key" },
    { "model.self_attns[1].windowsize", "4", "model.self_attns[1].windowsize: unknown key (did you mean window_size?)" },
    { "model.sigma_sample_density.min", "4", "model.sigma_sample_density.min: unknown key" },
    { "dataset.num_class", "4", "dataset.num_class: unknown key (did you mean num_classes?)" },
    { "optimizer.beta", "4", "optimizer.beta: unknown key (did you mean betas?)" },
    { "lr_sched.warm_up", "4", "lr_sched.warm_up: unknown key (did you mean warmup?)" },
    { "ema_sched.max_val", "4", "ema_sched.max_val: unknown key (did you mean max_value?)" },
    { "dataset", "[]", "dataset: expected an object, got a list of 0" },

    { "model.input_channels", NULL, "model.input_channels: expected an integer 1 to 1024, got nothing" },
    { "model.input_channels", "2.5", "model.input_channels: expected an integer 1 to 1024, got 2.5" },
    { "model.input_size", "32", "model.input_size: expected a list, got 32" },
    { "model.input_size", "[32]", "model.input_size: expected 2 integers, got 1" },
    { "model.patch_size", "[0, 2]", "model.patch_size[0]: expected an integer 1 to 65536, got 0" },
    { "model.widths", NULL, "model.widths: expected a list, got nothing" },
    { "model.widths", "[]", "model.widths: expected 1 to 16 widths, one a level, got 0" },
    { "model.widths[2]", "\"128\"", "model.widths[2]: expected an integer 1 to 65536, got \"128\"" },
    { "model.depths", "[1, 2]", "model.depths: expected 3 integers, one a level as in widths, got 2" },
    { "model.depths[1]", "-1", "model.depths[1]: expected an integer 0 to 1024, got -1" },
    { "model.d_ffs", "[64]", "model.d_ffs: expected 3 integers, one a level as in widths, got 1" },
    { "model.d_ffs", "[64, 0, 64]", "model.d_ffs[1]: expected an integer 1 to 1048576, got 0" },
    { "model.dropout_rate", "[0.1, 0.1]", "model.dropout_rate: expected 3 numbers, one a level as in widths, got 2" },
    { "model.dropout_rate", "1.5", "model.dropout_rate[0]: expected a number 0 to 1, got 1.5" },
    { "model.dropout_rate", "1", "model.dropout_rate[0]: expected a rate below 1" },
    { "model.dropout_rate", "\"a\"", "model.dropout_rate: expected a list, got \"a\"" },
    { "model.self_attns", "[{\"type\": \"global\"}]",
      "model.self_attns: expected 3 objects, one a level as in widths, got 1" },
    { "model.self_attns[1]", "\"global\"", "model.self_attns[1]: expected an object, got \"global\"" },
    { "model.self_attns[1].type", "\"window\"",
      "model.self_attns[1].type: expected none, global, neighborhood or shifted-window, got \"window\"" },
    { "model.self_attns[1].type", NULL,
      "model.self_attns[1].type: expected none, global, neighborhood or shifted-window, got nothing" },
    { "model.self_attns[1].window_size", NULL,
      "model.self_attns[1].window_size: expected an integer 1 to 65536, got nothing" },
    { "model.mapping_width", "255", "model.mapping_width: 255 is not even: nearest 254 or 256" },
    { "model.mapping_depth", "-1", "model.mapping_depth: expected an integer 0 to 1024, got -1" },
    { "model.mapping_dropout_rate", "-0.1", "model.mapping_dropout_rate: expected a number 0 to 1, got -0.1" },
    { "model.augment_prob", "2", "model.augment_prob: expected a number 0 to 1, got 2" },
    { "model.sigma_data", "0", "model.sigma_data: expected a number above 0, got 0" },
    { "model.sigma_min", NULL, "model.sigma_min: expected a number, got nothing" },
    { "model.sigma_min", "80.0", "model.sigma_min: must be below sigma_max, got 80 and 80" },
    { "model.loss_config", "\"l2\"", "model.loss_config: expected karras or simple, got \"l2\"" },
    { "model.loss_weighting", "\"minsnr\"",
      "model.loss_weighting: expected karras, soft-min-snr or snr, got \"minsnr\"" },
    { "model.loss_scales", "0", "model.loss_scales: expected an integer 1 to 64, got 0" },
    { "model.has_variance", "true",
      "model.has_variance: an image_transformer_v2 has no variance output: set it to false" },
    { "model.has_variance", "\"no\"", "model.has_variance: expected true or false, got \"no\"" },
    { "model.sigma_sample_density.type", "\"normal\"",
      "model.sigma_sample_density.type: expected lognormal, loglogistic, loguniform, v-diffusion, split-lognormal, "
      "cosine-interpolated, steps or cosine, got \"normal\"" },
    { "model.sigma_sample_density", "{\"type\": \"lognormal\", \"scale\": 1}",
      "model.sigma_sample_density.loc: expected a number, got nothing" },
    { "model.sigma_sample_density", "{\"type\": \"lognormal\", \"mean\": 0, \"std\": 0}",
      "model.sigma_sample_density.std: expected a number above 0, got 0" },
    { "model.sigma_sample_density", "{\"type\": \"split-lognormal\", \"mean\": 0, \"std_1\": 1}",
      "model.sigma_sample_density.scale_2: expected a number, got nothing" },
    { "model.sigma_sample_density", "{\"type\": \"loguniform\", \"min_value\": 0}",
      "model.sigma_sample_density: min_value must be above 0, got 0" },
    { "model.sigma_sample_density", "{\"type\": \"loguniform\", \"min_value\": 90}",
      "model.sigma_sample_density: min_value must be below max_value, got 90 and 80" },
    { "model.sigma_sample_density", "{\"type\": \"loglogistic\", \"min_value\": -1}",
      "model.sigma_sample_density: min_value must not be below 0, got -1" },

    { "model.input_size", "[32, 47]",
      "model.input_size: width 47 is not a multiple of the patch width 2 times 2 for each merge: nearest 40 or 48" },
    { "model.input_size", "[36, 48]",
      "model.input_size: height 36 gives 9 tokens at level 1, an odd number before the 2x2 merge to level 2; with patch "
      "height 2 and 3 levels it must be a multiple of 8: nearest 32 or 40" },
    { "model.self_attns[0].d_head", "20", "model.self_attns[0].d_head: 20 is not a multiple of 8: nearest 16 or 24" },
    { "model.self_attns[0].d_head", "4", "model.self_attns[0].d_head: 4 is not a multiple of 8: nearest 8" },
    { "model.widths[1]", "100", "model.widths[1]: 100 is not a multiple of self_attns[1].d_head 64: nearest 64 or 128" },
    { "model.widths[2]", "32", "model.widths[2]: 32 is not a multiple of self_attns[2].d_head 64: nearest 64" },
    { "model.self_attns[0].kernel_size", "6", "model.self_attns[0].kernel_size: 6 is even: nearest 5 or 7" },
    { "model.self_attns[0].kernel_size", "16", "model.self_attns[0].kernel_size: 16 is even: nearest 15" },
    { "model.self_attns[0].kernel_size", "17",
      "model.self_attns[0].kernel_size: 17 is more than the 16x24 tokens of level 0: the largest that fits is 15" },
    { "model.self_attns[1].window_size", "3",
      "model.self_attns[1].window_size: 3 does not divide the 8x12 tokens of level 1: nearest 2 or 4" },
    { "model.self_attns[1].window_size", "100",
      "model.self_attns[1].window_size: 100 does not divide the 8x12 tokens of level 1: nearest 4" },

    { "dataset.type", "\"folder\"",
      "dataset.type: expected imagefolder, imagefolder-class, cifar10, mnist, huggingface or custom, got \"folder\"" },
    { "dataset.num_classes", "-1", "dataset.num_classes: expected an integer 0 to 10000000, got -1" },
    { "dataset.cond_dropout_rate", "\"x\"", "dataset.cond_dropout_rate: expected a number 0 to 1, got \"x\"" },
    { "dataset.location", "7", "dataset.location: expected a string, got 7" },
    { "optimizer.type", "\"adam\"", "optimizer.type: expected adamw, sgd or adam8bit, got \"adam\"" },
    { "optimizer.type", "\"adam8bit\"",
      "optimizer.type: adam8bit keeps its moments in 8 bits by a GPU library's own rounding, which this program does not "
      "do; \"adamw\" is the same update at full precision" },
    { "optimizer.lr", "-1", "optimizer.lr: expected a number of at least 0, got -1" },
    { "optimizer.betas", "[0.9]", "optimizer.betas: expected 2 numbers, got 1" },
    { "optimizer.betas", "[0.9, 1]", "optimizer.betas[1]: expected a number below 1" },
    { "optimizer", "{\"type\": \"sgd\", \"nesterov\": true}", "optimizer.nesterov: needs a momentum above 0" },
    { "lr_sched.type", "\"cosine\"", "lr_sched.type: expected constant, inverse or exponential, got \"cosine\"" },
    { "lr_sched.warmup", "1",
      "lr_sched.warmup: expected a number below 1 (the warm-up factor of a step, not a number of steps)" },
    { "lr_sched", "{\"type\": \"exponential\"}", "lr_sched.num_steps: expected a number, got nothing" },
    { "lr_sched", "{\"type\": \"inverse\", \"inv_gamma\": 0}", "lr_sched.inv_gamma: expected a number above 0, got 0" },
    { "ema_sched.type", "\"power\"", "ema_sched.type: expected inverse, got \"power\"" },
    { "ema_sched.max_value", "1.1", "ema_sched.max_value: expected a number 0 to 1, got 1.1" },
};

static const mistake wrong_unet[] = {
    { "model.chanels", "[1]", "model.chanels: unknown key (did you mean channels?)" },
    { "model.patch_size", "[2, 2]", "model.patch_size: expected an integer 1 to 65536, got a list of 2" },
    { "model.mapping_out", NULL, "model.mapping_out: expected an integer 1 to 65536, got nothing" },
    { "model.mapping_out", "63", "model.mapping_out: 63 is not even: nearest 62 or 64" },
    { "model.channels", "[]", "model.channels: expected 1 to 16 numbers of channels, one a stage, got 0" },
    { "model.depths", "[1]", "model.depths: expected 3 integers, one a stage as in channels, got 1" },
    { "model.depths[0]", "0", "model.depths[0]: expected an integer 1 to 1024, got 0" },
    { "model.self_attn_depths", "[true]", "model.self_attn_depths: expected 3 truth values, one a stage as in channels, got 1" },
    { "model.self_attn_depths[1]", "[]", "model.self_attn_depths[1]: expected true or false, got a list of 0" },
    { "model.cross_cond_dim", "8", "model.cross_attn_depths: expected a list, got null" },
    { "model.skip_stages", "3", "model.skip_stages: expected fewer than the 3 stages, got 3" },
    { "model.dropout_rate", "1", "model.dropout_rate: expected a rate below 1" },
    { "model.input_size[1]", "46",
      "model.input_size: width 46 is not a multiple of 4, patch_size 1 and 2 for each of 2 halvings: nearest 44 or 48" },
    { "model.input_size", "[4, 8]",
      "model.input_size: height 4 leaves one pixel at the deepest stage: it takes 8 or more" },
    { "model.channels[0]", "100", "model.channels[0]: 100 channels do not divide into 3 groups: a multiple of 32 does" },
    { "model.channels[0]", "56",
      "model.channels[0]: 112 channels do not divide into 3 groups (with those of the skip connection): a multiple of 32 does" },
    { "model.channels", NULL, "model.channels: expected a list, got nothing" },
    { "model.channels[1]", "224", "model.channels[1]: 224 channels do not divide into 3 heads: a multiple of 64 does" },
    { "dataset", "{\"num_classes\": 10}", "dataset.num_classes: an image_v1 takes no classes: set it to 0" },
    { "model.noise_schedule", "\"cosine\"",
      "model.noise_schedule: steps are those of a discrete schedule: with wrapper eps or vd only" },
    { "model.sigma_sample_density", "{\"type\": \"steps\"}",
      "model.sigma_sample_density: steps are those of a discrete schedule: with wrapper eps or vd only" },
};

/// What is wrong only together with something else: a second edit.
static const struct { const char *from, *path, *value; mistake then; } wrong_together[] = {
    { unet, "model.augment_wrapper", "false", { "model.augment_prob", "0.1",
      "model.augment_prob: this network is not told of augmentations (augment_wrapper is false): set it to 0" } },
    { unet, "model.has_variance", "true", { "model.loss_config", "\"simple\"",
      "model.has_variance: the simple loss has no place for a variance: set it to false" } },
    { unet, "model.has_variance", "true", { "model.wrapper", "\"v\"", "model.has_variance: only with wrapper karras" } },
    { unet, "model.loss_config", "\"simple\"", { "model.wrapper", "\"v\"", "model.loss_config: only with wrapper karras" } },
    { unet, "model.has_variance", "true", { "model.wrapper", "\"eps\"", "model.has_variance: only with wrapper karras" } },
    { unet, "model.wrapper", "\"vd\"", { "model.diffusion_steps", "1", "model.diffusion_steps: expected an integer 2 to 1048576, got 1" } },
    { unet, "model.wrapper", "\"eps\"", { "model.noise_schedule", "\"sqrt\"",
      "model.noise_schedule: expected linear, cosine or scaled-linear, got \"sqrt\"" } },
    { unet, "model.cross_cond_dim", "8", { "model.cross_attn_depths", "[true]",
      "model.cross_attn_depths: expected 3 truth values, one a stage as in channels, got 1" } },
    { scripts, "model.wrapper", "\"v\"", { "model.learn_sigma", "true",
      "model.learn_sigma: a learned variance goes with wrapper eps only" } },
    { constructor, "model.wrapper", "\"karras\"", { "model.out_channels", "6",
      "model.out_channels: a learned variance goes with wrapper eps only" } },
};

static const mistake wrong_first[] = {
    { "model.depths", "[1]", "model.depths: unknown key (did you mean depth?)" },
    { "model.patch_size", "4", "model.patch_size: expected a list, got 4" },
    { "model.width", "100", "model.width: 100 is not a multiple of 64, a head's width: nearest 64 or 128" },
    { "model.width", NULL, "model.width: expected an integer 1 to 65536, got nothing" },
    { "model.d_ff", "-1", "model.d_ff: expected an integer 1 to 1048576, got -1" },
    { "model.input_size[0]", "30", "model.input_size: height 30 is not a multiple of the patch height 4: nearest 28 or 32" },
    { "model.has_variance", "true",
      "model.has_variance: an image_transformer_v1 has no variance output: set it to false" },
};

static const mistake wrong_scripts[] = {
    { "model.num_channel", "64", "model.num_channel: unknown key (did you mean num_channels?)" },
    { "model.num_classes", "5", "model.num_classes: an argument of the constructor without model_channels, another one" },
    { "model.num_channels", "0", "model.num_channels: expected an integer 1 to 65536, got 0" },
    { "model.num_channels", "48",
      "model.channel_mult: level 0 has 48 channels, not a multiple of the 32 groups of its norms: nearest 32 or 64" },
    { "model.num_res_blocks", "17", "model.num_res_blocks: expected an integer 1 to 16, got 17" },
    { "model.channel_mult", "\"1,b\"", "model.channel_mult: expected at most 16 numbers with commas between, got \"1,b\"" },
    { "model.channel_mult", "[]", "model.channel_mult: expected 1 to 16 multiples, one a level" },
    { "model.channel_mult", "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]",
      "model.channel_mult: expected at most 16 numbers, got 17" },
    { "model.channel_mult", "\"0\"", "model.channel_mult: level 0 would have 0 channels" },
    { "model.image_size", "48", "model.channel_mult: an image_size of 48 has no usual multiples: give them, \"1,2,2\"" },
    { "model.attention_resolutions", "\"0\"", "model.attention_resolutions: expected numbers of 1 or more" },
    { "model.num_head_channels", "48",
      "model.num_head_channels: 48 does not divide the 256 channels of a level: these would have to be a multiple of it, nearest "
      "240 or 288" },
    { "model.num_head_channels", "0", "model.num_head_channels: expected a number of 1 or more, or -1, got 0" },
    { "model.input_size", "[60, 64]",
      "model.input_size: height 60 is not a multiple of 8, 2 for each of the 4 levels but the first: nearest 56 or 64" },
    { "model.noise_schedule", "\"sqrt\"", "model.noise_schedule: expected linear, cosine or scaled-linear, got \"sqrt\"" },
    { "model.diffusion_steps", "20", "model.diffusion_steps: a linear schedule takes more than 20 steps, got 20" },
    { "model.beta_end", "2", "model.beta_end: beta_start must be below beta_end, and that below 1, got 0.00085 and 2" },
    { "model.use_kl", "true", "model.use_kl: the loss is the mean square, with the learned variance's bound: set it to false" },
    { "model.predict_xstart", "true",
      "model.predict_xstart: the network's output is the noise (wrapper eps) or v (wrapper vd): set it to false" },
    { "model.timestep_respacing", "\"ddim25\"", "model.timestep_respacing: how many steps are taken is said when sampling (kd-sample "
      "--steps): leave it empty" },
    { "model", NULL, "model: expected an object, got nothing" },
    { "model.loss_weighting", "\"snr\"", "model.loss_weighting: only with wrapper karras" },
    { "model.loss_scales", "2", "model.loss_scales: only with wrapper karras" },
    { "model.augment_prob", "0.1", "model.augment_prob: this network is not told of augmentations: set it to 0" },
    { "dataset.num_classes", "5", "dataset.num_classes: the model has 0: set it to 0 or that" },
    { "model.wrapper", "\"karras\"", "model.sigma_min: expected a number, got nothing" },
    { "model.max_period", "0", "model.max_period: expected a number above 0, got 0" },
    { "model.dropout", "1.5", "model.dropout: expected a number 0 to 1, got 1.5" },
    { "model.sigma_max", "0.005", "model.sigma_min: must be below sigma_max, got 0.0100013297 and 0.005" },
};

static const mistake wrong_constructor[] = {
    { "model.learn_sigma", "true", "model.learn_sigma: an option of the scripts beside model_channels, an argument of the constructor" },
    { "model.out_channels", "4",
      "model.out_channels: expected 3, as many as go in, or twice that with a learned variance, got 4" },
    { "model.out_channels", NULL, "model.out_channels: expected an integer 1 to 2048, got nothing" },
    { "model.dims", "1", "model.dims: images have 2 dimensions, got 1" },
    { "model.input_channels", "1", "model.in_channels: 3, but input_channels is 1" },
    { "model.num_classes", "0", "model.num_classes: expected an integer 1 to 10000000, got 0" },
    { "model.num_res_blocks", NULL, "model.num_res_blocks: expected an integer 1 to 16, got nothing" },
    { "model.image_size", NULL, "model.image_size: expected an integer 1 to 65536, got nothing" },
};

static const char toy[] =
    "{ \"model\": { \"type\": \"toy_mixture\", \"input_channels\": 1, \"input_size\": [2, 2], \"components\": 3, \"per_pixel\": true,"
    "    \"sigma_data\": 1, \"sigma_min\": 0.01, \"sigma_max\": 80 } }";

static const mistake wrong_toy[] = {
    { "model.depths", "[1]", "model.depths: unknown key" },
    { "dataset", "{}", "dataset: unknown key" },
    { "model.components", "0", "model.components: expected an integer 1 to 1048576, got 0" },
    { "model.per_pixel", "\"no\"", "model.per_pixel: expected true or false, got \"no\"" },
    { "model.sigma_max", "0.01", "model.sigma_min: must be below sigma_max, got 0.01 and 0.01" },
};

/// Each edit of the config must be refused with its sentence; all that are not are named.
static void all_wrong(const char *from, const mistake *list, size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        char *text = edited(from, list[i].path, list[i].value), want[512];
        kd_config *c;
        kd_err err = {0};
        snprintf(want, sizeof want, "cfg.json: %s", list[i].message);
        const int code = kd_config_parse(&c, text, "cfg.json", false, NULL, &err);
        if (code != KD_EUSAGE || c || strcmp(err.msg, want)) {
            print_error("%s = %s: %s, not\n%s\n", list[i].path, list[i].value, code ? err.msg : "accepted", want);
            bad++;
        }
        free(text);
    }
    assert_int_equal(bad, 0);
}

static void test_wrong(void **state)
{
    (void)state;
    all_wrong(base, wrong, sizeof wrong / sizeof *wrong);
    all_wrong(unet, wrong_unet, sizeof wrong_unet / sizeof *wrong_unet);
    all_wrong(first, wrong_first, sizeof wrong_first / sizeof *wrong_first);
    all_wrong(scripts, wrong_scripts, sizeof wrong_scripts / sizeof *wrong_scripts);
    for (size_t i = 0; i < sizeof wrong_together / sizeof *wrong_together; i++) {
        char *text = edited(wrong_together[i].from, wrong_together[i].path, wrong_together[i].value);
        all_wrong(text, &wrong_together[i].then, 1);
        free(text);
    }
    all_wrong(constructor, wrong_constructor, sizeof wrong_constructor / sizeof *wrong_constructor);
    all_wrong(toy, wrong_toy, sizeof wrong_toy / sizeof *wrong_toy);
}

static void test_wrong_text(void **state)
{
    (void)state;
    kd_config *c;
    kd_err err = {0};
    assert_int_equal(kd_config_parse(&c, one_level, "cfg.json", false, NULL, &err), KD_EUSAGE);
    assert_string_equal(err.msg, "cfg.json: model.input_size: height 30 is not a multiple of the patch height 4: nearest "
                                 "28 or 32");
    err = (kd_err){0};
    assert_int_equal(kd_config_parse(&c, "{\"model\": {]", "cfg.json", false, NULL, &err), KD_EUSAGE);
    assert_non_null(strstr(err.msg, "cfg.json: not valid JSON: line 1"));
    err = (kd_err){0};
    assert_int_equal(kd_config_parse(&c, "[1]", "cfg.json", false, NULL, &err), KD_EUSAGE);
    assert_string_equal(err.msg, "cfg.json: expected an object, got a list of 1");
    err = (kd_err){0};
    assert_int_equal(kd_config_load(&c, "tests/golden/bad/good_small.safetensors", &err), KD_EUSAGE);
    assert_non_null(strstr(err.msg, "good_small.safetensors: no config in its metadata"));
    err = (kd_err){0};
    assert_int_equal(kd_config_load(&c, "tests/golden/guided_tiny.seed.bin", &err), KD_EUSAGE);
    assert_non_null(strstr(err.msg, "guided_tiny.seed.bin: neither JSON nor a model file"));
    err = (kd_err){0};
    assert_int_equal(kd_config_load(&c, "no/such.json", &err), KD_EUSAGE);
    assert_non_null(strstr(err.msg, "no/such.json: No such file"));
}

// Good ones --------------------------------------------------------------------------------------------------------

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = calloc(1, 1 << 16);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    return text;
}

/// What k-diffusion wrote for the same file, byte for byte.
static void test_shipped(void **state)
{
    (void)state;
    static const char *const names[] = { "cifar10_transformer", "mnist_transformer", "oxford_flowers",
                                         "oxford_flowers_shifted_window", "32x32_small", "32x32_small_butterflies", "cifar10", "mnist" };
    for (int i = 0; i < 8; i++) {
        char path[128];
        kd_config *c;
        kd_err err = {0};
        snprintf(path, sizeof path, "tests/golden/configs/config_%s.json", names[i]);
        if (kd_config_load(&c, path, &err))
            fail_msg("%s", err.msg);
        snprintf(path, sizeof path, "tests/golden/configs/config_%s.filled.json", names[i]);
        char *want = slurp(path);
        assert_string_equal(c->json, want);
        free(want);
        kd_config_free(c);
    }
}

/// The metadata of a file that k-diffusion wrote, as a config: filling it in again changes nothing. And the user's
/// config of the same model is filled in to the same text.
static void test_metadata(void **state)
{
    (void)state;
    static const char *const names[] = { "v2_global", "v2_neighborhood_k3", "v2_neighborhood_k7", "v2_shifted_window",
        "v2_shifted_window_mid", "v2_none_mapcond", "v2_loss_scales", "v2_simple_loss", "v1t_plain", "v1t_classes", "unet_full",
        "unet_patch2_var", "unet_skip_stage" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        kd_config *a, *b;
        kd_err err = {0};
        snprintf(path, sizeof path, "tests/golden/%s.config.json", names[i]);
        if (kd_config_load(&a, path, &err))
            fail_msg("%s", err.msg);
        snprintf(path, sizeof path, "tests/golden/%s.weights.safetensors", names[i]);
        if (kd_config_load(&b, path, &err))
            fail_msg("%s", err.msg);
        assert_string_equal(a->json, b->json);
        assert_null(kd_config_model_difference(a, b));
        kd_config_free(a);
        kd_config_free(b);
    }
}

static void test_values(void **state)
{
    (void)state;
    kd_config *c = parsed(base);
    assert_int_equal(c->v2.levels, 3);
    assert_int_equal(c->v2.level[2].depth, 3);
    assert_int_equal(c->v2.level[1].d_ff, 384);
    assert_int_equal(c->v2.level[0].self_attn, KD_SELF_NEIGHBORHOOD);
    assert_int_equal(c->v2.level[0].size, 5);
    assert_int_equal(c->v2.level[1].self_attn, KD_SELF_SHIFTED_WINDOW);
    assert_int_equal(c->v2.level[1].size, 4);
    assert_int_equal(c->v2.level[2].self_attn, KD_SELF_GLOBAL);
    assert_int_equal(c->v2.level[2].d_head, 64);
    assert_int_equal(c->size[0], 32);
    assert_int_equal(c->size[1], 48);
    assert_int_equal(c->v2.mapping_width, 256);
    assert_int_equal(c->v2.mapping_d_ff, 768);
    assert_int_equal(c->weighting, KD_WEIGHT_KARRAS);
    assert_true(c->lr == 5e-4 && c->beta1 == 0.9 && c->beta2 == 0.99 && c->eps == 1e-8 && c->weight_decay == 1e-4);
    assert_true(c->ema_power == 0.6667 && c->ema_max == 0.9999 && c->cond_dropout == 0.1);
    assert_true(c->has_density);
    assert_int_equal(c->density.type, KD_DENSITY_COSINE_INTERPOLATED);
    assert_true(c->density.min_value == 1e-3 && c->density.max_value == 1e3 && c->density.image_d == 48);
    assert_true(c->density.noise_d_low == 32 && c->density.noise_d_high == 48 && c->density.sigma_data == 0.5);
    assert_string_equal(c->dataset_type, "imagefolder");
    assert_null(c->dataset_location);
    kd_config_free(c);

    c = parsed_edit("model.dropout_rate", "0");            // the integer too: the peer fails on it
    assert_true(c->v2.level[0].dropout == 0 && c->v2.level[2].dropout == 0);
    assert_non_null(strstr(c->json, "\"dropout_rate\": [\n            0.0,\n            0.0,\n            0.0\n        ]"));
    kd_config_free(c);
    c = parsed_edit("model.dropout_rate", "0.25");
    assert_true(c->v2.level[0].dropout == 0.25 && c->v2.level[2].dropout == 0.25);
    kd_config_free(c);
    c = parsed_edit("model.dropout_rate", "[0.5, 0, 0.25]");
    assert_true(c->v2.level[0].dropout == 0.5 && c->v2.level[1].dropout == 0 && c->v2.level[2].dropout == 0.25);
    kd_config_free(c);
    c = parsed_edit("optimizer", "{\"type\": \"sgd\", \"lr\": 1}");
    assert_true(c->sgd && c->lr == 1 && c->momentum == 0 && !c->nesterov && c->weight_decay == 1e-4);
    kd_config_free(c);
    c = parsed_edit("optimizer.betas", "[0.5, 0.75]");     // lists replace lists, objects are merged
    assert_true(c->beta1 == 0.5 && c->beta2 == 0.75 && c->lr == 5e-4);
    kd_config_free(c);
    c = parsed_edit("lr_sched", "{\"type\": \"exponential\", \"num_steps\": 100, \"warmup\": 0.9}");
    assert_true(c->lr_type == KD_LR_EXPONENTIAL && c->lr_num_steps == 100 && c->lr_decay == 0.5 && c->lr_warmup == 0.9);
    kd_config_free(c);
    c = parsed_edit("lr_sched", "{\"type\": \"inverse\", \"inv_gamma\": 20000, \"power\": 0.5, \"min_lr\": 1e-6}");
    assert_true(c->lr_type == KD_LR_INVERSE && c->lr_inv_gamma == 20000 && c->lr_power == 0.5 && c->lr_min == 1e-6);
    kd_config_free(c);
    c = parsed_edit("model.sigma_sample_density", NULL);
    assert_false(c->has_density);
    kd_config_free(c);
    c = parsed_edit("model.widths[0]", "64.0");            // an integer to us, and in what we write
    assert_null(strstr(c->json, "64.0"));
    kd_config_free(c);
}

static void test_unet_values(void **state)
{
    (void)state;
    kd_config *c = parsed(unet);
    assert_int_equal(c->type, KD_MODEL_IMAGE_V1);
    assert_true(c->lr == 1e-4 && c->beta1 == 0.95 && c->beta2 == 0.999 && c->eps == 1e-6 && c->weight_decay == 1e-3);
    assert_true(c->sigma_data == 1 && c->wrapper == KD_WRAP_KARRAS && !c->steps && c->aug_cond && !c->has_variance);
    assert_int_equal(c->image_v1.stages, 3);
    assert_true(!c->image_v1.stage[0].self_attn && c->image_v1.stage[1].self_attn && !c->image_v1.stage[1].cross_attn);
    assert_int_equal(c->image_v1.stage[2].depth, 3);
    kd_config_free(c);

    json_t *rule = json_load_file("tests/golden/configs/d_ff_v1.json", 0, NULL), *d_ff;
    const char *width;
    int widths = 0;
    json_object_foreach(json_object_get(rule, "d_ff"), width, d_ff) {
        if (atoi(width) % 64)
            continue;
        char *text = edited(first, "model.width", width);
        c = parsed(text);
        assert_int_equal(c->v1.d_ff, json_integer_value(d_ff));
        kd_config_free(c);
        free(text);
        widths++;
    }
    json_decref(rule);
    assert_true(widths >= 8);
}

/// Both ways of saying it are the same network.
static void test_guided_values(void **state)
{
    (void)state;
    kd_config *a = parsed(scripts), *b = parsed(constructor);
    assert_memory_equal(&a->guided, &b->guided, sizeof a->guided);
    const kd_guided_config *u = &a->guided;
    assert_true(u->model_channels == 64 && u->out_channels == 3 && u->res_blocks == 2 && u->levels == 4);
    assert_true(u->width[0] == 64 && u->width[3] == 256 && !u->attention[1] && u->attention[2] && u->attention[3]);
    assert_true(u->head_channels == 32 && u->scale_shift && u->conv_resample && u->max_period == 10000);
    assert_true(a->size[0] == 64 && a->size[1] == 64 && a->channels == 3 && a->classes == 0 && !a->no_class && !a->aug_cond);
    assert_true(a->wrapper == KD_WRAP_EPS && !a->quantize && a->steps->n == 1000 && !a->learn_sigma);
    assert_true(a->has_density && a->density.type == KD_DENSITY_STEPS && a->density.steps == a->steps);
    assert_true(a->sigma_min == a->steps->sigma[0] && a->sigma_max == a->steps->sigma[999]);
    assert_true(a->weight_decay == 0 && a->lr == 1e-4 && a->cond_dropout == 0);
    kd_config_free(a);
    kd_config_free(b);

    char *text = edited(scripts, "model.class_cond", "true"), *learned = edited(text, "model.learn_sigma", "true");
    a = parsed(text), b = parsed(learned);
    assert_true(a->classes == 1000 && !a->no_class && a->guided.out_channels == 3);
    assert_true(b->learn_sigma && b->guided.out_channels == 6);
    kd_config_free(a);
    kd_config_free(b);
    free(learned);
    char *few = edited(text, "dataset.num_classes", "7");
    a = parsed(few);
    assert_int_equal(a->classes, 7);
    b = parsed(a->json);                                   // what is written is read again as the same
    assert_string_equal(a->json, b->json);
    assert_memory_equal(&a->guided, &b->guided, sizeof a->guided);
    kd_config_free(a);
    kd_config_free(b);
    free(few);
    free(text);

    text = edited(scripts, "model.image_size", "512");
    a = parsed(text);
    assert_true(a->guided.levels == 7 && a->guided.width[0] == 32 && a->guided.width[6] == 256);
    kd_config_free(a);
    free(text);
}

/// Parameters that k_diffusion/config.py make_sample_density fills in.
static void test_densities(void **state)
{
    (void)state;
    kd_config *c = parsed_edit("model.sigma_sample_density", "{\"type\": \"lognormal\", \"mean\": -1.2, \"std\": 1.5}");
    assert_true(c->density.type == KD_DENSITY_LOGNORMAL && c->density.loc == -1.2 && c->density.scale == 1.5);
    kd_config_free(c);
    c = parsed_edit("model.sigma_sample_density", "{\"type\": \"loglogistic\"}");
    assert_true(c->density.type == KD_DENSITY_LOGLOGISTIC && c->density.loc == log(0.5) && c->density.scale == 0.5);
    assert_true(c->density.min_value == 0 && isinf(c->density.max_value));
    kd_config_free(c);
    c = parsed_edit("model.sigma_sample_density", "{\"type\": \"loguniform\"}");
    assert_true(c->density.type == KD_DENSITY_LOGUNIFORM && c->density.min_value == 0.01 && c->density.max_value == 80);
    kd_config_free(c);
    c = parsed_edit("model.sigma_sample_density", "{\"type\": \"cosine\", \"max_value\": 500}");
    assert_true(c->density.type == KD_DENSITY_V_DIFFUSION && c->density.min_value == 1e-3 && c->density.max_value == 500);
    kd_config_free(c);
    c = parsed_edit("model.sigma_sample_density",
                    "{\"type\": \"split-lognormal\", \"loc\": 0.5, \"std_1\": 1, \"scale_2\": 2}");
    assert_true(c->density.type == KD_DENSITY_SPLIT_LOGNORMAL && c->density.loc == 0.5);
    assert_true(c->density.scale == 1 && c->density.scale_2 == 2);
    kd_config_free(c);
}

static void test_floats(void **state)
{
    (void)state;
    static const struct { const char *in, *out; } cases[] = {
        { "1e-4", "0.0001" }, { "1e-5", "1e-05" }, { "0.00012345", "0.00012345" }, { "0.1", "0.1" },
        { "0.30000000000000004", "0.30000000000000004" }, { "1e0", "1.0" }, { "123456.0", "123456.0" },
        { "1.5e15", "1500000000000000.0" }, { "1e16", "1e+16" }, { "3", "3" }, { "1.25e-300", "1.25e-300" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[64];
        kd_config *c = parsed_edit("optimizer.lr", cases[i].in);
        snprintf(want, sizeof want, "\"lr\": %s,\n", cases[i].out);
        assert_non_null(strstr(c->json, want));
        kd_config_free(c);
    }
}

static void test_foreign(void **state)
{
    (void)state;
    char *text = edited(base, "model.dephts", "[1]"), *both = edited(text, "optimizer.type", "\"adam8bit\""), *warning;
    kd_config *c;
    kd_err err = {0};
    assert_int_equal(kd_config_parse(&c, both, "m.safetensors", true, &warning, &err), 0);
    assert_string_equal(warning, "m.safetensors: unknown keys in its config: model.dephts");
    assert_non_null(strstr(c->json, "dephts"));            // kept for who knows it
    kd_config_free(c);
    free(warning);
    free(text);
    free(both);
    assert_int_equal(kd_config_parse(&c, base, "m.safetensors", true, &warning, &err), 0);
    assert_null(warning);
    kd_config_free(c);
}

static void test_difference(void **state)
{
    (void)state;
    static const struct { const char *path, *value, *want; } cases[] = {
        { "model.depths", "[1, 2, 4]", "model.depths: [1, 2, 3] here, [1, 2, 4] there" },
        { "model.sigma_max", "80.0", NULL }, { "model.sigma_data", "0.25", "model.sigma_data: 0.5 here, 0.25 there" },
        { "dataset.num_classes", "3", "dataset.num_classes: 0 here, 3 there" }, { "optimizer.lr", "1", NULL },
        { "model.mapping_depth", "3", "model.mapping_depth: 2 here, 3 there" },
        // What only training depends on, or a sampler's range.
        { "model.sigma_sample_density", NULL, NULL }, { "model.sigma_max", "81", NULL }, { "model.sigma_min", "0.1", NULL },
        { "model.dropout_rate", "0.5", NULL }, { "model.mapping_dropout_rate", "0.5", NULL }, { "model.augment_prob", "0.5", NULL },
        { "model.loss_config", "\"simple\"", NULL }, { "model.loss_weighting", "\"snr\"", NULL },
        { "model.loss_scales", "2", NULL }, { "dataset.cond_dropout_rate", "0.5", NULL } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kd_config *a = parsed(base), *b = parsed_edit(cases[i].path, cases[i].value);
        char *got = kd_config_model_difference(a, b);
        if (cases[i].want)
            assert_string_equal(got, cases[i].want);
        else
            assert_null(got);
        free(got);
        kd_config_free(a);
        kd_config_free(b);
    }
}

// Of each key that training reads beside the optimizer's and the schedules': it says so.
static void test_training_change(void **state)
{
    (void)state;
    static const struct { const char *path, *value, *want; } cases[] = {
        { "model.sigma_sample_density", NULL, "model.sigma_sample_density nothing, was {\"type\": \"cosine-interpolated\"}" },
        { "model.sigma_max", "81", "model.sigma_max 81, was 80" }, { "model.sigma_min", "0.1", "model.sigma_min 0.1, was 0.01" },
        { "model.dropout_rate", "0.5", "model.dropout_rate [0.5, 0.5, 0.5], was [0.0, 0.0, 0.0]" },
        { "model.mapping_dropout_rate", "0.5", "model.mapping_dropout_rate 0.5, was 0.0" },
        { "model.augment_prob", "0.5", "model.augment_prob 0.5, was 0.0" },
        { "model.loss_config", "\"simple\"", "model.loss_config \"simple\", was \"karras\"" },
        { "model.loss_weighting", "\"snr\"", "model.loss_weighting \"snr\", was \"karras\"" },
        { "model.loss_scales", "2", "model.loss_scales 2, was 1" },
        { "dataset.cond_dropout_rate", "0.5", "dataset.cond_dropout_rate 0.5, was 0.1" },
        { "model.sigma_max", "80.0", NULL }, { "dataset.location", "\"x\"", NULL }, { "model.depths", "[1, 2, 4]", NULL } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kd_config *now = parsed_edit(cases[i].path, cases[i].value), *was = parsed(base);
        char *got = kd_config_training_change(now, was, 0);
        if (cases[i].want) {
            assert_non_null(got);
            assert_string_equal(got, cases[i].want);
            assert_null(kd_config_training_change(now, was, 1));
        } else
            assert_null(got);
        free(got);
        kd_config_free(now);
        kd_config_free(was);
    }
}

static void test_hint(void **state)
{
    (void)state;
    kd_config *c = parsed_edit("dataset", "{\"type\": \"huggingface\", \"location\": \"a/b\", \"num_classes\": 2}");
    char *hint = kd_config_dataset_hint(c);
    assert_string_equal(hint, "dataset huggingface (a/b) is read by Python code only; save its images to a folder with one "
                              "sub-folder a class, then: kd-prep FOLDER --size 48x32 --labels dir | kd-train -c CONFIG");
    free(hint);
    kd_config_free(c);
    c = parsed_edit("dataset.type", "\"cifar10\"");
    hint = kd_config_dataset_hint(c);
    assert_non_null(strstr(hint, "kd-prep cifar-10-batches-bin/data_batch_*.bin --size 48x32 |"));
    free(hint);
    kd_config_free(c);
    c = parsed_edit("dataset.type", "\"mnist\"");
    assert_null(kd_config_dataset_hint(c));
    kd_config_free(c);
}

/// Memory that runs out at any point is an error that says so, and (under the sanitizers) nothing leaks. KD_FAIL_ALLOC is
/// read once a process, so this program calls itself, with an argument.
static void test_no_memory(void **state)
{
    (void)state;
    const int n = fault_each_allocation("config", "parse");
    assert_true(n > 10 && n < 10000);
}

static int parse_once(void)
{
    const char *const texts[] = { base, unet, scripts };
    kd_err err = {0};
    int code = 0;
    for (int i = 0; i < 3 && !code; i++) {
        kd_config *c;
        code = kd_config_parse(&c, texts[i], "cfg.json", false, NULL, &err);
        kd_config_free(c);
    }
    return code;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return parse_once();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong),    cmocka_unit_test(test_wrong_text), cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_metadata), cmocka_unit_test(test_values),     cmocka_unit_test(test_densities),
        cmocka_unit_test(test_floats),   cmocka_unit_test(test_foreign),    cmocka_unit_test(test_difference),
        cmocka_unit_test(test_training_change),
        cmocka_unit_test(test_hint),     cmocka_unit_test(test_unet_values), cmocka_unit_test(test_guided_values),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
