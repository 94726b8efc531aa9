// Configs: the peer's files filled in as the peer does, and a sentence for each way to get one wrong.
#include "model/config.h"
#include "base/json.h"
#include "base/memory.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
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

static const struct { const char *path, *value, *message; } wrong[] = {
    { "modle", "{}", "modle: unknown key (did you mean model?)" },
    { "model", "3", "model: expected an object, got 3" },
    { "model", NULL, "model: expected an object, got nothing" },
    { "model.type", NULL, "model.type: expected a string, got nothing" },
    { "model.type", "\"image_v1\"", "model.type: image_v1 is not supported yet by this version, only image_transformer_v2" },
    { "model.type", "\"image_transformer_v1\"",
      "model.type: image_transformer_v1 is not supported yet by this version, only image_transformer_v2" },
    { "model.type", "\"guided_diffusion\"",
      "model.type: guided_diffusion is not supported yet by this version, only image_transformer_v2" },
    { "model.type", "\"image_transformer\"", "model.type: expected image_transformer_v2, got \"image_transformer\"" },
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
    { "model.has_variance", "0", "model.has_variance: expected true or false, got 0" },
    { "model.sigma_sample_density.type", "\"normal\"",
      "model.sigma_sample_density.type: expected lognormal, loglogistic, loguniform, v-diffusion, split-lognormal, "
      "cosine-interpolated or cosine, got \"normal\"" },
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

static void test_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *text = edited(base, wrong[i].path, wrong[i].value), want[512];
        kd_config *c;
        kd_err err = {0};
        if (!kd_config_parse(&c, text, "cfg.json", false, NULL, &err))
            fail_msg("%s = %s was accepted", wrong[i].path, wrong[i].value);
        assert_null(c);
        assert_int_equal(err.code, KD_EUSAGE);
        snprintf(want, sizeof want, "cfg.json: %s", wrong[i].message);
        assert_string_equal(err.msg, want);
        free(text);
    }
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
                                         "oxford_flowers_shifted_window" };
    for (int i = 0; i < 4; i++) {
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
    static const char *const names[] = { "global", "neighborhood_k3", "neighborhood_k7", "shifted_window",
                                         "shifted_window_mid", "none_mapcond", "loss_scales", "simple_loss" };
    for (int i = 0; i < 8; i++) {
        char path[128];
        kd_config *a, *b;
        kd_err err = {0};
        snprintf(path, sizeof path, "tests/golden/v2_%s.config.json", names[i]);
        if (kd_config_load(&a, path, &err))
            fail_msg("%s", err.msg);
        snprintf(path, sizeof path, "tests/golden/v2_%s.weights.safetensors", names[i]);
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
    assert_int_equal(c->levels, 3);
    assert_int_equal(c->level[2].depth, 3);
    assert_int_equal(c->level[1].d_ff, 384);
    assert_int_equal(c->level[0].self_attn, KD_SELF_NEIGHBORHOOD);
    assert_int_equal(c->level[0].size, 5);
    assert_int_equal(c->level[1].self_attn, KD_SELF_SHIFTED_WINDOW);
    assert_int_equal(c->level[1].size, 4);
    assert_int_equal(c->level[2].self_attn, KD_SELF_GLOBAL);
    assert_int_equal(c->level[2].d_head, 64);
    assert_int_equal(c->size[0], 32);
    assert_int_equal(c->size[1], 48);
    assert_int_equal(c->mapping_width, 256);
    assert_int_equal(c->mapping_d_ff, 768);
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
    assert_true(c->level[0].dropout == 0 && c->level[2].dropout == 0);
    assert_non_null(strstr(c->json, "\"dropout_rate\": [\n            0.0,\n            0.0,\n            0.0\n        ]"));
    kd_config_free(c);
    c = parsed_edit("model.dropout_rate", "0.25");
    assert_true(c->level[0].dropout == 0.25 && c->level[2].dropout == 0.25);
    kd_config_free(c);
    c = parsed_edit("model.dropout_rate", "[0.5, 0, 0.25]");
    assert_true(c->level[0].dropout == 0.5 && c->level[1].dropout == 0 && c->level[2].dropout == 0.25);
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
        { "model.sigma_sample_density", NULL,
          "model.sigma_sample_density: {\"type\": \"cosine-interpolated\"} here, nothing there" } };
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
    int n = 1, status;
    do {
        const pid_t child = fork();
        if (child == 0) {
            char text[16];
            snprintf(text, sizeof text, "%d", n);
            setenv("KD_FAIL_ALLOC", text, 1);
            execl("/proc/self/exe", "config", "parse", (char *)NULL);
            _exit(99);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == KD_EFAIL || WEXITSTATUS(status) == 0);
    } while (WEXITSTATUS(status) && ++n < 10000);
    assert_true(n > 10 && n < 10000);
}

static int parse_once(void)
{
    kd_config *c;
    kd_err err = {0};
    const int code = kd_config_parse(&c, base, "cfg.json", false, NULL, &err);
    kd_config_free(c);
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
        cmocka_unit_test(test_hint),     cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
