// Configs as a user of Python's json and truth values may have written them: each reads as its plain spelling does.
#include "model/config.h"
#include "base/json.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char v2[] =
    "\"type\": \"image_transformer_v2\", \"input_channels\": 3, \"input_size\": [32, 32], \"patch_size\": [2, 2], \"depths\": [1, 2],"
    "\"widths\": [64, 128], \"sigma_min\": 0.01, \"sigma_max\": 80";
static const char unet[] =
    "\"type\": \"image_v1\", \"input_channels\": 3, \"input_size\": [32, 32], \"mapping_out\": 64, \"depths\": [1, 2],"
    "\"channels\": [64, 128], \"sigma_min\": 0.01, \"sigma_max\": 80";
static const char guided[] =
    "\"type\": \"guided_diffusion\", \"image_size\": 16, \"num_channels\": 32, \"num_res_blocks\": 1, \"channel_mult\": \"1,2\","
    "\"attention_resolutions\": \"8\"";
static const char constructor[] =
    "\"type\": \"guided_diffusion\", \"image_size\": 16, \"model_channels\": 32, \"out_channels\": 3, \"num_res_blocks\": 1,"
    "\"channel_mult\": [1, 2], \"attention_resolutions\": [2]";

/// What stands in the model's object, or behind it, both ways. No text: nothing.
typedef struct pair { const char *model, *written, *plain; } pair;

static const pair in_model[] = {
    { unet, "\"self_attn_depths\": [0, 1]", "\"self_attn_depths\": [false, true]" },
    { unet, "\"self_attn_depths\": [0.0, 1.0]", "\"self_attn_depths\": [false, true]" },
    { unet, "\"self_attn_depths\": [0, 0], \"cross_cond_dim\": 4, \"cross_attn_depths\": [1, 0]",
      "\"self_attn_depths\": [false, false], \"cross_cond_dim\": 4, \"cross_attn_depths\": [true, false]" },
    { unet, "\"self_attn_depths\": [0, 1], \"has_variance\": 1, \"augment_wrapper\": 0",
      "\"self_attn_depths\": [false, true], \"has_variance\": true, \"augment_wrapper\": false" },
    { unet, "\"self_attn_depths\": [0, 1], \"sigma_data\": 1, \"dropout_rate\": 0, \"augment_prob\": 0, \"patch_size\": 1.0",
      "\"self_attn_depths\": [false, true]" },
    { unet, "\"self_attn_depths\": [0, 1], \"sigma_data\": null, \"dropout_rate\": null, \"loss_scales\": null, \"skip_stages\": null,"
            "\"unet_cond_dim\": null, \"loss_config\": null, \"cross_attn_depths\": null", "\"self_attn_depths\": [false, true]" },
    { v2, "\"has_variance\": 0, \"augment_wrapper\": 0, \"mapping_cond_dim\": null, \"skip_stages\": null, \"dropout_rate\": 0", "" },
    { v2, "\"d_ffs\": [], \"mapping_d_ff\": 0, \"self_attns\": []", "" },
    { v2, "\"d_ffs\": false, \"mapping_d_ff\": null, \"self_attns\": null, \"dropout_rate\": null", "" },
    { v2, "\"self_attns\": [{\"type\": \"neighborhood\", \"kernel_size\": null}, {\"type\": \"global\", \"d_head\": null}]",
      "\"self_attns\": [{\"type\": \"neighborhood\"}, {\"type\": \"global\"}]" },
    { v2, "\"sigma_sample_density\": {\"type\": \"loglogistic\", \"loc\": null, \"max_value\": null}",
      "\"sigma_sample_density\": {\"type\": \"loglogistic\"}" },
    { v2, "\"sigma_sample_density\": {\"type\": \"lognormal\", \"mean\": -1, \"std\": 1}",
      "\"sigma_sample_density\": {\"type\": \"lognormal\", \"mean\": -1.0, \"std\": 1.0}" },
    { guided, "\"class_cond\": 0, \"learn_sigma\": 1, \"use_scale_shift_norm\": 0, \"use_fp16\": 1, \"use_kl\": 0, \"resblock_updown\": 1",
      "\"class_cond\": false, \"learn_sigma\": true, \"use_scale_shift_norm\": false, \"use_fp16\": true, \"use_kl\": false,"
      "\"resblock_updown\": true" },
    { guided, "\"noise_schedule\": null, \"diffusion_steps\": null, \"num_heads\": null, \"dropout\": 0", "\"use_scale_shift_norm\": 1" },
    { constructor, "\"num_classes\": null, \"num_heads_upsample\": null, \"conv_resample\": 1, \"wrapper\": null", "" },
};

static const pair behind[] = {
    { v2, "\"dataset\": {\"num_classes\": null, \"cond_dropout_rate\": null}", "\"dataset\": {}" },
    { v2, "\"dataset\": {\"num_classes\": false, \"location\": null}", "\"dataset\": {}" },
    { v2, "\"optimizer\": {\"betas\": null, \"lr\": null, \"eps\": null}", "\"optimizer\": {}" },
    { v2, "\"optimizer\": {\"type\": \"sgd\", \"momentum\": 1, \"nesterov\": 1}",
      "\"optimizer\": {\"type\": \"sgd\", \"momentum\": 1.0, \"nesterov\": true}" },
    { v2, "\"lr_sched\": {\"warmup\": 0}, \"ema_sched\": {\"max_value\": 1, \"power\": null}",
      "\"lr_sched\": {\"warmup\": 0.0}, \"ema_sched\": {\"max_value\": 1.0}" },
    { guided, "\"dataset\": {\"num_classes\": 0.0}", "\"dataset\": {}" },
};

static kd_config *parsed(const char *model, const char *in, const char *after)
{
    char text[1400];
    kd_config *c;
    kd_err err = {0};
    snprintf(text, sizeof text, "{\"model\": {%s%s%s}%s%s}", model, *in ? ", " : "", in, *after ? ", " : "", after);
    if (kd_config_parse(&c, text, "cfg.json", false, NULL, &err)) fail_msg("%s\n%s", err.msg, text);
    return c;
}

/// All that is not a pointer; and then the stages' truth values, which a union hides, are compared with the rest.
static void same(kd_config *a, kd_config *b, const char *written)
{
    char *difference = kd_config_model_difference(a, b);
    if (difference) fail_msg("%s: %s", written, difference);
    kd_config *of[2] = { a, b }, flat[2];
    for (int i = 0; i < 2; i++) {
        flat[i] = *of[i];
        flat[i].path = flat[i].json = flat[i].dataset_type = flat[i].dataset_location = NULL;
        flat[i].steps = NULL;
        flat[i].density.steps = NULL;
    }
    if (memcmp(&flat[0], &flat[1], sizeof flat[0])) fail_msg("%s is read as something else", written);
    kd_config_free(a);
    kd_config_free(b);
}

static void test_python(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof in_model / sizeof *in_model; i++) {
        const pair *p = &in_model[i];
        same(parsed(p->model, p->written, ""), parsed(p->model, p->plain, ""), p->written);
    }
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        const pair *p = &behind[i];
        same(parsed(p->model, "", p->written), parsed(p->model, "", p->plain), p->written);
    }
}

/// A class condition may be said by 1 as well: OpenAI's thousand classes.
static void test_class_cond(void **state)
{
    (void)state;
    kd_config *c = parsed(guided, "\"class_cond\": 1", "");
    assert_int_equal(c->classes, 1000);
    kd_config_free(c);
}

/// A null where Python has a truth value is false, also where the default is true.
static void test_null_is_false(void **state)
{
    (void)state;
    kd_config *c = parsed(unet, "\"self_attn_depths\": [2, null], \"augment_wrapper\": null", "");
    assert_false(c->image_v1.augment_wrapper);
    assert_true(c->image_v1.stage[0].self_attn && !c->image_v1.stage[1].self_attn);
    kd_config_free(c);
    c = parsed(guided, "\"use_scale_shift_norm\": null", "");
    assert_false(c->guided.scale_shift);
    kd_config_free(c);
}

/// What the user wrote stays in the filled-in config, as in the peer's.
static void test_kept(void **state)
{
    (void)state;
    kd_config *c = parsed(unet, "\"self_attn_depths\": [0, 1]", "");
    assert_non_null(strstr(c->json, "\"self_attn_depths\": [\n            0,\n            1\n        ]"));
    kd_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_python), cmocka_unit_test(test_class_cond),
                                        cmocka_unit_test(test_null_is_false), cmocka_unit_test(test_kept) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
