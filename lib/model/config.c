// Reading a config: parse, check the keys, fill in the defaults, read the values, check that sizes fit, print it again.
#include "model/config_parts.h"
#include "base/io.h"
#include "formats/safetensors.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 16 << 20 };

static int read_filled(kd_config *c, const kd_json *user, bool foreign, kd_err *err)
{
    json_t *filled;
    KD_TRY(kd_config_fill(&filled, user, c->type, err));
    const kd_json top = kd_json_top(filled, user->file, user->code);
    int code;
    if ((code = kd_config_read_model(c, &top, err)) || (code = kd_config_read_training(c, &top, foreign, err)) ||
        (code = kd_config_check_sizes(c, err)) || (!foreign && (code = kd_config_check_training(c, err))))
        goto done;
    c->json = kd_json_python(filled, 4);
    if (!c->json)
        code = kd_fail_memory(err, user->file);
done:
    json_decref(filled);
    return code;
}

int kd_config_parse(kd_config **out, const char *json, const char *path, bool foreign, char **warning, kd_err *err)
{
    json_t *root = NULL;
    kd_str unknown = {0};
    kd_config *c = kd_alloc(sizeof *c);
    int code = 0;
    *out = NULL;
    if (warning)
        *warning = NULL;
    if (!c || !(c->path = kd_strdup(path))) {
        code = kd_fail_memory(err, path);
        goto done;
    }
    if ((code = kd_json_parse(&root, path, foreign ? KD_EFORMAT : KD_EUSAGE, json, strlen(json), err)))
        goto done;
    const kd_json top = kd_json_top(root, path, KD_EUSAGE);
    if (kd_config_is_toy(&top)) {
        code = kd_config_read_toy(c, &top, err);
        goto done;
    }
    if ((code = kd_config_check_keys(&top, &c->type, foreign ? &unknown : NULL, err)))
        goto done;
    if ((code = read_filled(c, &top, foreign, err)))
        goto done;
    if (unknown.n && warning) {
        kd_str line = {0};
        if ((code = kd_str_printf(&line, err, "%s: unknown keys in its config: %s", path, unknown.p)))
            free(line.p);
        else
            *warning = line.p;
    }
done:
    free(unknown.p);
    json_decref(root);
    if (code)
        kd_config_free(c);
    else
        *out = c;
    return code;
}

static bool keep_none(void *arg, const kd_frame *frame, const char *name)
{
    (void)arg, (void)frame, (void)name;
    return false;
}

static int load_metadata(kd_config **c, const char *path, kd_err *err)
{
    kd_frame *frame;
    KD_TRY(kd_safetensors_load_some(path, keep_none, NULL, &frame, err));
    const char *json = kd_frame_meta(frame, "config");
    const int code = json ? kd_config_parse(c, json, path, false, NULL, err)
                          : kd_fail(err, KD_EUSAGE, "%s: no config in its metadata", path);
    kd_frame_free(frame);
    return code;
}

/// A safetensors file: a header length of less than 2^56, then the header. JSON has no zero bytes.
static int is_frame(const char *path, bool *frame, kd_err *err)
{
    kd_in *in;
    const void *bytes;
    *frame = false;
    if (!strcmp(path, "-"))
        return 0;
    KD_TRY(kd_in_open(&in, path, err));
    if (kd_in_peek(in, &bytes, 9) == 9)
        *frame = ((const char *)bytes)[7] == 0 && ((const char *)bytes)[8] == '{';
    kd_in_close(in);
    return 0;
}

int kd_config_load(kd_config **c, const char *path, kd_err *err)
{
    void *text;
    size_t size;
    bool frame;
    *c = NULL;
    KD_TRY(is_frame(path, &frame, err));
    if (frame)
        return load_metadata(c, path, err);
    KD_TRY(kd_read_file(path, MAX_FILE, &text, &size, err));
    const int code = memchr(text, 0, size) ? kd_fail(err, KD_EUSAGE, "%s: neither JSON nor a model file", path)
                                           : kd_config_parse(c, text, path, false, NULL, err);
    free(text);
    return code;
}

void kd_config_free(kd_config *c)
{
    if (!c)
        return;
    free(c->path);
    free(c->dataset_type);
    free(c->dataset_location);
    free(c->json);
    kd_steps_free(c->steps);
    kd_free(c);
}

const char *kd_config_condition(const kd_config *c)
{
    return c->mapping_cond_dim ? "mapping_cond" : c->unet_cond_dim ? "unet_cond" : c->cross_cond_dim ? "cross_cond" : NULL;
}

// Differences ------------------------------------------------------------------------------------------------------

/// Is it a number to Python, where true is 1?
static bool counts(const json_t *v) { return json_is_number(v) || json_is_boolean(v); }
static double count_of(const json_t *v) { return json_is_boolean(v) ? json_is_true(v) : json_number_value(v); }

/// Equal, where 1, 1.0 and true are the same number.
static bool same(const json_t *a, const json_t *b)
{
    if (counts(a) && counts(b))
        return count_of(a) == count_of(b);
    if (!a || !b || json_typeof(a) != json_typeof(b))
        return a == b;
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b))
            return false;
        for (size_t i = 0; i < json_array_size(a); i++)
            if (!same(json_array_get(a, i), json_array_get(b, i)))
                return false;
        return true;
    }
    if (json_is_object(a)) {
        const char *key;
        json_t *value;
        if (json_object_size(a) != json_object_size(b))
            return false;
        json_object_foreach((json_t *)a, key, value)
            if (!same(value, json_object_get(b, key)))
                return false;
        return true;
    }
    return json_equal(a, b);
}

// format: of the section, the key and the two values
static char *describe(const char *format, const char *section, const char *key, const json_t *a, const json_t *b)
{
    char *here = a ? kd_json_python(a, 0) : kd_strdup("nothing"), *there = b ? kd_json_python(b, 0) : kd_strdup("nothing");
    kd_str s = {0};
    kd_err err = {0};
    kd_str_printf(&s, &err, format, section, key, here ? here : "?", there ? there : "?");
    free(here);
    free(there);
    return s.p;
}

/// Keys of model that the network and the meaning of its weights do not depend on: what training does, and the range of levels.
static const char *const training_keys[] = {
    "dropout_rate", "mapping_dropout_rate", "dropout", "augment_prob", "loss_config", "loss_weighting", "loss_scales",
    "sigma_sample_density", "sigma_min", "sigma_max", "rescale_learned_sigmas" };
/// Keys that mean nothing here.
static const char *const idle_keys[] = { "use_checkpoint", "use_fp16", "timestep_respacing", "use_kl", "predict_xstart" };

static bool is_among(const char *key, const char *const *keys, size_t n)
{
    size_t i = 0;
    while (i < n && strcmp(keys[i], key))
        i++;
    return i < n;
}
#define AMONG(key, keys) is_among(key, keys, sizeof keys / sizeof *keys)

static bool is_network(const char *key) { return !AMONG(key, training_keys) && !AMONG(key, idle_keys); }

static char *first_difference(const json_t *a, const json_t *b)
{
    static const char format[] = "%s.%s: %s here, %s there";
    const char *key;
    json_t *value;
    const json_t *ma = json_object_get(a, "model"), *mb = json_object_get(b, "model");
    json_object_foreach((json_t *)ma, key, value)
        if (is_network(key) && !same(value, json_object_get(mb, key)))
            return describe(format, "model", key, value, json_object_get(mb, key));
    json_object_foreach((json_t *)mb, key, value)
        if (is_network(key) && !json_object_get(ma, key))
            return describe(format, "model", key, NULL, value);
    const json_t *ca = json_object_get(json_object_get(a, "dataset"), "num_classes");
    const json_t *cb = json_object_get(json_object_get(b, "dataset"), "num_classes");
    return same(ca, cb) ? NULL : describe(format, "dataset", "num_classes", ca, cb);
}

static char *training_change(const json_t *a, const json_t *b, int i)
{
    const size_t n = sizeof training_keys / sizeof *training_keys;
    for (size_t k = 0; k <= n; k++) {
        const char *section = k < n ? "model" : "dataset", *key = k < n ? training_keys[k] : "cond_dropout_rate";
        const json_t *va = json_object_get(json_object_get(a, section), key), *vb = json_object_get(json_object_get(b, section), key);
        if (!same(va, vb) && i-- == 0)
            return describe("%s.%s %s, was %s", section, key, va, vb);
    }
    return NULL;
}

static bool parse_both(const kd_config *a, const kd_config *b, json_t **ja, json_t **jb)
{
    kd_err err = {0};
    *ja = *jb = NULL;
    return !kd_json_parse(ja, a->path, KD_EFAIL, a->json, strlen(a->json), &err) &&
           !kd_json_parse(jb, b->path, KD_EFAIL, b->json, strlen(b->json), &err);
}

char *kd_config_model_difference(const kd_config *a, const kd_config *b)
{
    json_t *ja, *jb;
    char *text = parse_both(a, b, &ja, &jb) ? first_difference(ja, jb) : NULL;
    json_decref(ja);
    json_decref(jb);
    return text;
}

char *kd_config_training_change(const kd_config *a, const kd_config *b, int i)
{
    json_t *ja, *jb;
    char *text = parse_both(a, b, &ja, &jb) ? training_change(ja, jb, i) : NULL;
    json_decref(ja);
    json_decref(jb);
    return text;
}
