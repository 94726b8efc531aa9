// A network is known by the names and shapes of its weights: for many random configs of each kind, the config guessed from a
// fresh model's parameters has the same parameters again. Where it has not, or nothing fits, the message says that it was a guess.
#include "base/memory.h"
#include "model/guess.h"
#include "model/model.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CONFIGS = 60 };                                     // of each kind

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

static uint64_t state_of_draws;
static int64_t draw(int64_t n)                             // 0 .. n-1; Knuth's generator, its high bits
{
    state_of_draws = state_of_draws * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state_of_draws >> 33) % (uint64_t)n);
}
static const char *word(bool b) { return b ? "true" : "false"; }

static void add(kd_str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(kd_str *s, const char *fmt, ...)
{
    char text[256];
    kd_err err = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    must(kd_str_printf(s, &err, "%s", text), &err);
}

// Random configs ---------------------------------------------------------------------------------------------------

/// "key": [a, b, ...], each one of `unit` to `most` times `unit`.
static void add_list(kd_str *s, const char *key, int n, int64_t unit, int64_t most)
{
    add(s, "\"%s\": [", key);
    for (int i = 0; i < n; i++) add(s, "%s%" PRId64, i ? ", " : "", unit * (1 + draw(most)));
    add(s, "], ");
}

static void add_flags(kd_str *s, const char *key, int n)
{
    add(s, "\"%s\": [", key);
    for (int i = 0; i < n; i++) add(s, "%s%s", i ? ", " : "", word(draw(2)));
    add(s, "], ");
}

static const char tail[] = "\"sigma_min\": 0.01, \"sigma_max\": 80}, \"dataset\": {\"num_classes\": %d}}";

static void image_v1(kd_str *s)
{
    const int stages = 1 + (int)draw(4), skip = (int)draw(stages), patch = 1 + (int)draw(3), side = (patch << (stages - 1)) * 2;
    const bool crosses = draw(3) == 0;
    add(s, "{\"model\": {\"type\": \"image_v1\", \"input_channels\": %d, \"input_size\": [%d, %d], \"patch_size\": %d, ", draw(2) ? 3 : 1,
        side, 2 * side, patch);
    add(s, "\"mapping_out\": %d, \"skip_stages\": %d, \"augment_wrapper\": %s, \"has_variance\": %s, ", 2 + 2 * (int)draw(8), skip,
        word(draw(2)), word(draw(2)));
    add(s, "\"mapping_cond_dim\": %d, \"unet_cond_dim\": %d, ", draw(2) ? (int)draw(12) : 0, draw(2) ? (int)draw(4) : 0);
    if (crosses) {
        add(s, "\"cross_cond_dim\": %d, ", 1 + (int)draw(20));
        add(s, "\"cross_attn_depths\": [");
        const int always = (int)draw(stages);              // at least one: else nothing shows the width
        for (int i = 0; i < stages; i++) add(s, "%s%s", i ? ", " : "", word(i == always || draw(2)));
        add(s, "], ");
    }
    add_list(s, "depths", stages, 1, 3);
    add_list(s, "channels", stages, 64, 3);
    add_flags(s, "self_attn_depths", stages);
    add(s, tail, 0);
}

static void transformer_v2(kd_str *s)
{
    const int levels = 1 + (int)draw(3), patch = 1 + (int)draw(4), side = patch << (levels + 1);
    add(s, "{\"model\": {\"type\": \"image_transformer_v2\", \"input_channels\": %d, \"input_size\": [%d, %d], \"patch_size\": [%d, %d], ",
        draw(2) ? 3 : 1, side, 2 * side, patch, patch);
    add(s, "\"depths\": [");
    for (int i = 0; i < levels; i++) add(s, "%s%d", i ? ", " : "", (int)draw(4));                  // a level may be empty
    add(s, "], ");
    add_list(s, "widths", levels, 32, 3);
    if (draw(2)) add_list(s, "d_ffs", levels, 8, 9);
    add(s, "\"self_attns\": [");
    static const char *const kinds[] = { "{\"type\": \"none\"}", "{\"type\": \"global\", \"d_head\": 16}",
        "{\"type\": \"neighborhood\", \"d_head\": 32, \"kernel_size\": 3}",
        "{\"type\": \"shifted-window\", \"d_head\": 8, \"window_size\": 2}" };
    for (int i = 0; i < levels; i++) add(s, "%s%s", i ? ", " : "", kinds[draw(4)]);
    add(s, "], \"mapping_width\": %d, \"mapping_depth\": %d, \"mapping_cond_dim\": %d, ", 2 + 2 * (int)draw(9), (int)draw(3),
        draw(2) ? (int)draw(12) : 0);
    if (draw(2)) add(s, "\"mapping_d_ff\": %d, ", 1 + (int)draw(30));
    add(s, tail, draw(2) ? (int)draw(20) : 0);
}

static void transformer_v1(kd_str *s)
{
    const int patch = 1 + (int)draw(4);
    add(s, "{\"model\": {\"type\": \"image_transformer_v1\", \"input_channels\": %d, \"input_size\": [%d, %d], \"patch_size\": [%d, %d], ",
        draw(2) ? 3 : 1, patch * 3, patch * 5, patch, patch);
    add(s, "\"depth\": %d, \"width\": %d, ", 1 + (int)draw(3), 64 * (1 + (int)draw(2)));
    if (draw(2)) add(s, "\"d_ff\": %d, ", 1 + (int)draw(90));
    add(s, tail, draw(2) ? (int)draw(20) : 0);
}

static void guided(kd_str *s)
{
    const int levels = 1 + (int)draw(4), in = draw(2) ? 3 : 1 + (int)draw(4);
    static const int models[] = { 32, 64, 96 }, mults[] = { 1, 2, 3 };
    add(s, "{\"model\": {\"type\": \"guided_diffusion\", \"image_size\": 16, \"in_channels\": %d, \"out_channels\": %d, ", in,
        draw(2) ? in : 2 * in);
    const int model = models[draw(3)];
    add(s, "\"model_channels\": %d, \"num_res_blocks\": %d, \"num_heads\": 1, ", model, 1 + (int)draw(3));
    add(s, "\"channel_mult\": [");
    for (int i = 0; i < levels; i++)                       // thirds of 96 too: fractions without an end
        add(s, "%s%.17g", i ? ", " : "", model == 96 ? mults[draw(3)] / 3.0 : (double)mults[draw(3)]);
    add(s, "], \"attention_resolutions\": [%d, %d], ", 1 << draw(levels), 1 << draw(levels));
    add(s, "\"conv_resample\": %s, \"resblock_updown\": %s, \"use_scale_shift_norm\": %s, ", word(draw(2)), word(draw(2)), word(draw(2)));
    if (draw(2)) add(s, "\"num_classes\": %d, ", 1 + (int)draw(20));
    add(s, tail, 0);
}

// There and back ---------------------------------------------------------------------------------------------------

static kd_params *params_of(const kd_config *c)
{
    kd_err err = {0};
    kd_params *ps;
    must(kd_params_of(&ps, c, &err), &err);
    return ps;
}

static kd_frame *frame_of(const kd_params *ps)
{
    kd_err err = {0};
    kd_frame *f = kd_frame_new();
    for (int i = 0; i < ps->n; i++) must(kd_frame_add(f, ps->p[i].name, KD_F32, ps->p[i].shape, NULL, NULL, &err), &err);
    return f;
}

static void same_params(const kd_params *a, const kd_params *b, const char *config, const char *said)
{
    for (int i = 0; i < a->n; i++) {
        const kd_param_info *p = kd_params_find(b, a->p[i].name);
        if (!p || !kd_shape_same(&p->shape, &a->p[i].shape)) fail_msg("%s\n%s\n%s", a->p[i].name, config, said);
    }
    if (a->n != b->n) fail_msg("%d parameters, not %d\n%s\n%s", b->n, a->n, config, said);
}

static void there_and_back(const char *json)
{
    kd_config *c, *guessed;
    kd_err err = {0};
    char *said;
    if (kd_config_parse(&c, json, "x.json", false, NULL, &err)) fail_msg("%s\n%s", err.msg, json);
    kd_params *ps = params_of(c);
    kd_frame *f = frame_of(ps);
    if (kd_guess_config(&guessed, f, "x.pt", &said, &err)) fail_msg("%s\n%s", err.msg, json);
    assert_int_equal(guessed->type, c->type);
    assert_true(guessed->guessed && !c->guessed);
    kd_params *again = params_of(guessed);
    same_params(ps, again, json, said);
    kd_params_free(again);
    kd_params_free(ps);
    kd_frame_free(f);
    kd_config_free(guessed);
    kd_config_free(c);
    free(said);
}

static void many(void (*config)(kd_str *))
{
    state_of_draws = 1;
    for (int i = 0; i < CONFIGS; i++) {
        kd_str s = {0};
        config(&s);
        there_and_back(s.p);
        free(s.p);
    }
}

static void test_image_v1(void **state) { (void)state, many(image_v1); }
static void test_transformer_v2(void **state) { (void)state, many(transformer_v2); }
static void test_transformer_v1(void **state) { (void)state, many(transformer_v1); }
static void test_guided(void **state) { (void)state, many(guided); }

// What is said -----------------------------------------------------------------------------------------------------

static kd_frame *weights(const char *json)
{
    kd_config *c;
    kd_err err = {0};
    must(kd_config_parse(&c, json, "x.json", false, NULL, &err), &err);
    kd_params *ps = params_of(c);
    kd_frame *f = frame_of(ps);
    kd_params_free(ps);
    kd_config_free(c);
    return f;
}

static const char unet[] =
    "{\"model\": {\"type\": \"image_v1\", \"input_channels\": 3, \"input_size\": [32, 32], \"mapping_out\": 32, \"depths\": [1, 1, 1],"
    " \"channels\": [64, 64, 64], \"self_attn_depths\": [false, true, true], \"skip_stages\": 1, \"sigma_min\": 0.01, \"sigma_max\": 80}}";

static void test_skip_stages(void **state)
{
    (void)state;
    kd_config *c;
    kd_err err = {0};
    char *said;
    kd_frame *f = weights(unet);
    must(kd_guess_config(&c, f, "x.pt", &said, &err), &err);
    assert_int_equal(c->image_v1.skip_stages, 1);
    assert_non_null(strstr(said, "skip_stages 1, mapping_out 32; not told by them"));
    kd_config_free(c);
    kd_frame_free(f);
    free(said);
}

/// A guess that does not fit: the sentence says that there was no config, and which network it was taken for.
static void test_says_guessed(void **state)
{
    (void)state;
    kd_config *c;
    kd_model *m;
    kd_err err = {0};
    char *said;
    kd_frame *f = weights(unet);
    must(kd_frame_add(f, "extra", KD_F32, KD_SHAPE(2), NULL, NULL, &err), &err);
    must(kd_guess_config(&c, f, "x.pt", &said, &err), &err);
    assert_int_equal(kd_model_of(&m, c, f, "x.pt", &err), KD_EUSAGE);
    assert_string_equal(err.msg, "x.pt: no config in it, and parameters do not fit the image_v1 guessed from them: 1 unknown: extra; "
                                 "--config gives one");
    kd_frame_free(f);
    free(said);
}

/// Or one that is no config at all: 3 channels in and 2 out.
static void test_says_why_not(void **state)
{
    (void)state;
    kd_config *c;
    kd_err err = {0};
    char *said;
    kd_frame *f = weights("{\"model\": {\"type\": \"guided_diffusion\", \"image_size\": 16, \"in_channels\": 3, \"out_channels\": 3,"
                          " \"model_channels\": 32, \"num_res_blocks\": 1, \"attention_resolutions\": [], \"channel_mult\": [1]}}");
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->t[i].name, "out.2.weight")) f->t[i].shape.d[0] = 2;
    assert_int_equal(kd_guess_config(&c, f, "x.pt", &said, &err), KD_EUSAGE);
    assert_string_equal(err.msg, "x.pt: config guessed from its weights: model.out_channels: expected 3, as many as go in, or twice that "
                                 "with a learned variance, got 2");
    assert_null(said);
    kd_frame_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image_v1), cmocka_unit_test(test_transformer_v2), cmocka_unit_test(test_transformer_v1),
        cmocka_unit_test(test_guided), cmocka_unit_test(test_skip_stages), cmocka_unit_test(test_says_guessed),
        cmocka_unit_test(test_says_why_not) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
