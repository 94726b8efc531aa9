// Other programs' weights: k-diffusion's training checkpoint tensor by tensor, state dicts without a config, what does not fit.
#include "model/import.h"
#include "base/json.h"
#include "formats/safetensors.h"
#include "model/guess.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define CHECKPOINT "tests/golden/checkpoints/kdiff_train"
static const kd_import_run run = { .seed = 7, .batch = 4 };

static kd_frame *load(const char *path)
{
    kd_err err = {0};
    kd_frame *f;
    if (kd_safetensors_load(path, &f, &err))
        fail_msg("%s", err.msg);
    return f;
}

static kd_frame *import(char **said)
{
    kd_err err = {0};
    kd_import *i;
    kd_frame *f = NULL;
    if (kd_import_open(&i, CHECKPOINT ".pth", false, &err) || !kd_import_trains(i) || kd_import_checkpoint(&f, i, NULL, &run, said, &err))
        fail_msg("%s", err.msg);
    kd_import_close(i);
    return f;
}

static void same(const kd_frame *got, const char *prefix, const char *name, const kd_frame *flat, const char *path)
{
    char full[160];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const kd_tensor *g = kd_frame_get(got, full), *w = kd_frame_get(flat, path);
    if (!g || !w)
        fail_msg("no %s or no %s", full, path);
    assert_true(kd_shape_same(&g->shape, &w->shape));
    assert_int_equal(g->dtype, KD_F32);
    assert_memory_equal(g->data, w->data, kd_tensor_bytes(w));
}

static void weights_average_and_moments(void **state)
{
    (void)state;
    char *said, path[160];
    kd_err err = {0};
    kd_config *c;
    kd_params *ps;
    kd_frame *f = import(&said), *flat = load(CHECKPOINT ".flat.safetensors");
    assert_int_equal(kd_config_load(&c, CHECKPOINT ".config.json", &err), 0);
    assert_int_equal(kd_params_of(&ps, c, &err), 0);
    int index = 0;
    for (int k = 0; k < ps->n; k++) {
        const char *name = ps->p[k].name;
        snprintf(path, sizeof path, "model.%s", name);
        same(f, "model.", name, flat, path);
        snprintf(path, sizeof path, "model_ema.%s", name);
        same(f, "ema.", name, flat, path);
        if (ps->p[k].group < 0)
            continue;
        snprintf(path, sizeof path, "opt.state.%d.exp_avg", index);
        same(f, "opt.m.", name, flat, path);
        snprintf(path, sizeof path, "opt.state.%d.exp_avg_sq", index++);
        same(f, "opt.v.", name, flat, path);
    }
    assert_int_equal(index, 34);
    assert_int_equal(f->n, 2 * ps->n + 2 * index);
    assert_non_null(strstr(said, "3 steps of 1 x 4 images"));
    kd_params_free(ps);
    kd_config_free(c);
    kd_frame_free(f);
    kd_frame_free(flat);
    free(said);
}

static void counts_and_settings(void **state)
{
    (void)state;
    static const char *const want[][2] = {
        { "kd", "checkpoint/1" }, { "kd_step", "3" }, { "kd_seen", "12" }, { "kd_lr_step", "3" }, { "kd_ema_step", "3" },
        { "kd_opt_step", "3" }, { "kd_seed", "7" }, { "kd_loss", "0.13066992764274263" }, { "kd_batch", "4" }, { "kd_accum", "1" },
        { "kd_clip", "1" } };
    char *said;
    kd_frame *f = import(&said);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_string_equal(kd_frame_meta(f, want[i][0]), want[i][1]);
    assert_true(strtod(kd_frame_meta(f, "kd_lr"), NULL) == 5e-4);
    assert_null(kd_frame_meta(f, "kd_data"));
    kd_frame_free(f);
    free(said);
}

static void another_config_must_fit(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_import *i;
    kd_frame *f;
    kd_config *c;
    char *said;
    assert_int_equal(kd_import_open(&i, CHECKPOINT ".pth", false, &err), 0);
    assert_int_equal(kd_config_load(&c, "tests/golden/v2_global.config.json", &err), 0);
    assert_int_equal(kd_import_checkpoint(&f, i, c, &run, &said, &err), KD_EUSAGE);
    assert_non_null(strstr(err.msg, "parameters do not fit its config"));
    assert_null(f);
    kd_import_close(i);
}

// Guesses --------------------------------------------------------------------------------------------------------

// From the weights alone; then the model of the true config must have the same parameters, and the loader takes them.
static void guess(const char *name, const char *told)
{
    char path[160], *said = NULL;
    kd_err err = {0};
    kd_config *c = NULL;
    kd_params *ps;
    snprintf(path, sizeof path, "tests/golden/%s.weights.safetensors", name);
    kd_frame *f = load(path);
    kd_frame_set_meta(f, "config", NULL, &err);
    if (kd_guess_config(&c, f, "x.pt", &said, &err) || kd_params_of(&ps, c, &err))
        fail_msg("%s: %s", name, err.msg);
    if (!strstr(said, told))
        fail_msg("expected \"%s\" in: %s", told, said);
    assert_int_equal(ps->n, f->n);
    for (int i = 0; i < ps->n; i++) {
        const kd_tensor *t = kd_frame_get(f, ps->p[i].name);
        if (!t || !kd_shape_same(&t->shape, &ps->p[i].shape))
            fail_msg("%s: %s", name, ps->p[i].name);
    }
    kd_params_free(ps);
    kd_config_free(c);
    kd_frame_free(f);
    free(said);
}

static void networks_from_their_shapes(void **state)
{
    (void)state;
    guess("v2_global", "depths [2], widths [32], ");
    guess("v2_neighborhood_k3", "depths [");
    guess("v2_neighborhood_k7", "10 classes; not told by them, and taken: 1 channel in patches of 2, input_size [64, 64], neighborhood");
    guess("v2_shifted_window", "depths [3, 2, 1]");
    guess("v2_none_mapcond", "3 classes");
}

// Networks whose weights are large: names and shapes are enough. All of what is guessed must be what the peer's config says, but for
// what shapes cannot tell.
static kd_frame *shapes_of(json_t *shapes)
{
    static float data;                                    // never looked at
    kd_err err = {0};
    const char *name;
    json_t *sizes;
    kd_frame *f = kd_frame_new();
    json_object_foreach(shapes, name, sizes) {
        kd_shape s = { .n = (int)json_array_size(sizes) };
        for (int i = 0; i < s.n; i++)
            s.d[i] = json_integer_value(json_array_get(sizes, (size_t)i));
        assert_int_equal(kd_frame_add(f, name, KD_F32, s, &data, NULL, &err), 0);
    }
    return f;
}

static bool is_taken(const char *key)
{
    static const char *const taken[] = { "input_size", "image_size", "sigma_data", "sigma_min", "sigma_max", "skip_stages",
                                         "num_heads", "num_head_channels", "use_new_attention_order" };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (!strcmp(key, taken[i]))
            return true;
    return false;
}

static void same_model(const char *name, const json_t *guessed, const json_t *want)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)guessed, key, v) {
        if (is_taken(key) || !strcmp(key, "type"))
            continue;
        const json_t *w = json_object_get(want, key);
        char *a = kd_json_python(v, 0), *b = w ? kd_json_python(w, 0) : NULL;
        if (!b || strcmp(a, b))
            fail_msg("%s: %s: guessed %s, it is %s", name, key, a, b ? b : "not there");
        free(a);
        free(b);
    }
}

static void other_networks_from_their_shapes(void **state)
{
    (void)state;
    void *text;
    size_t n;
    kd_err err = {0};
    json_t *golden, *c;
    const char *name;
    assert_int_equal(kd_read_file("tests/golden/network_shapes.json", 1 << 20, &text, &n, &err), 0);
    assert_int_equal(kd_json_parse(&golden, "golden", KD_EFORMAT, text, n, &err), 0);
    json_object_foreach(golden, name, c) {
        char *json, *said;
        json_t *guessed;
        kd_frame *f = shapes_of(json_object_get(c, "shapes"));
        const int code = kd_guess_json(&json, &said, f, name, &err);
        kd_frame_free(f);
        if (!strcmp(name, "v1t_classes")) {               // patches of 2 x 4
            assert_int_equal(code, KD_EUSAGE);
            err = (kd_err){0};
            continue;
        }
        if (code || kd_json_parse(&guessed, name, KD_EFORMAT, json, strlen(json), &err))
            fail_msg("%s", err.msg);
        same_model(name, json_object_get(guessed, "model"), json_object_get(c, "model"));
        json_decref(guessed);
        free(json);
        free(said);
    }
    json_decref(golden);
    free(text);
}

static void refuses(const char *name, const char *want)
{
    kd_err err = {0};
    kd_config *c;
    char *said;
    kd_frame *f = kd_frame_new();
    assert_int_equal(kd_frame_add(f, name, KD_F32, KD_SHAPE(7, 7), NULL, NULL, &err), 0);
    assert_int_equal(kd_guess_config(&c, f, "x.pt", &said, &err), KD_EUSAGE);
    if (!strstr(err.msg, want))
        fail_msg("expected \"%s\" in: %s", want, err.msg);
    assert_null(c);
    assert_null(said);
    kd_frame_free(f);
}

static void what_cannot_be_guessed(void **state)
{
    (void)state;
    refuses("w", "its names are of no network known here; --config gives one");
    refuses("patch_in.proj.weight", "neither 1 nor 3 channels and a square patch fit");
    refuses("input_blocks.0.0.weight", "its blocks are not those of a guided-diffusion UNet");
    refuses("u_net.d_blocks.0.1.main.2.weight", "neither 1 nor 3 channels and a square patch fit proj_out.weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(weights_average_and_moments), cmocka_unit_test(counts_and_settings),
                                        cmocka_unit_test(another_config_must_fit), cmocka_unit_test(networks_from_their_shapes),
                                        cmocka_unit_test(other_networks_from_their_shapes),
                                        cmocka_unit_test(what_cannot_be_guessed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
