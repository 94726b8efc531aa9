// The model section of a guided_diffusion network. It takes either the names of OpenAI's scripts (num_channels,
// attention_resolutions "16,8" as pixel sizes, class_cond, learn_sigma) or those of UNetModel's constructor (model_channels,
// attention_resolutions as downsampling factors, num_classes, out_channels); which, is told by model_channels.
// Peer: guided_diffusion/script_util.py and unet.py.
#include "model/config_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
enum { IMAGENET_CLASSES = 1000 };

const char *const kd_guided_keys[] = {
    "image_size", "num_res_blocks", "attention_resolutions", "channel_mult", "dropout", "num_heads", "num_head_channels",
    "num_heads_upsample", "use_scale_shift_norm", "resblock_updown", "use_new_attention_order", "conv_resample",
    "num_channels", "class_cond", "learn_sigma",                                 // the scripts'
    "in_channels", "model_channels", "out_channels", "num_classes", "dims",      // the constructor's
    "max_period",
    "use_checkpoint", "use_fp16", "timestep_respacing", "use_kl", "predict_xstart", "rescale_timesteps", "rescale_learned_sigmas",
    NULL };

// Defaults ---------------------------------------------------------------------------------------------------------

static const char both[] =
    "{ \"num_heads_upsample\": -1, \"num_head_channels\": -1, \"resblock_updown\": false, \"use_new_attention_order\": false,"
    "  \"conv_resample\": true, \"dropout\": 0.0, \"noise_schedule\": \"linear\", \"diffusion_steps\": 1000, \"max_period\": 10000,"
    "  \"rescale_timesteps\": false, \"rescale_learned_sigmas\": false }";
static const char scripts[] =
    "{ \"image_size\": 64, \"num_channels\": 128, \"num_res_blocks\": 2, \"num_heads\": 4, \"attention_resolutions\": \"16,8\","
    "  \"channel_mult\": \"\", \"class_cond\": false, \"use_scale_shift_norm\": true, \"learn_sigma\": false }";
static const char constructor[] =
    "{ \"num_heads\": 1, \"channel_mult\": [1, 2, 4, 8], \"num_classes\": null, \"use_scale_shift_norm\": false }";

static bool is_constructor(const kd_json *m) { return kd_config_has(m, "model_channels"); }

/// What the other way of saying it has must not be there.
static int check_form(const kd_json *m, kd_err *err)
{
    static const char *const not[2][4] = { { "out_channels", "num_classes", "dims", NULL },
                                           { "num_channels", "class_cond", "learn_sigma", NULL } };
    const bool own = is_constructor(m);
    for (const char *const *key = not[own]; *key; key++) {
        const kd_json j = kd_json_at(m, *key);
        if (j.v)
            return kd_json_fail(&j, err, own ? "an option of the scripts beside model_channels, an argument of the constructor"
                                             : "an argument of the constructor without model_channels, another one");
    }
    return 0;
}

static int add_defaults(json_t *model, const char *text, kd_err *err)
{
    json_t *d;
    KD_TRY(kd_json_parse(&d, "defaults", KD_EFAIL, text, strlen(text), err));
    kd_config_drop_nulls(model, d);
    const int failed = json_object_update_missing(model, d);
    json_decref(d);
    return failed ? kd_fail_memory(err, "a config") : 0;
}

/// What all networks have under k-diffusion's names.
static int add_common(json_t *model, const kd_json *m, kd_err *err)
{
    int64_t side, channels = 3;
    KD_TRY(kd_config_int(m, "image_size", 1, KD_MAX_SIZE, &side, err));
    if (kd_config_has(m, "in_channels"))
        KD_TRY(kd_config_int(m, "in_channels", 1, 1024, &channels, err));
    int failed = 0;
    if (!kd_config_has(m, "input_channels"))
        failed |= json_object_set_new(model, "input_channels", json_integer(channels));
    if (!kd_config_has(m, "input_size"))
        failed |= json_object_set_new(model, "input_size", json_pack("[I, I]", (json_int_t)side, (json_int_t)side));
    return failed ? kd_fail_memory(err, m->file) : 0;
}

int kd_config_fill_guided(json_t *all, const kd_json *top, kd_err *err)
{
    json_t *model = json_object_get(all, "model");
    const kd_json m = kd_json_at(top, "model"), dataset = kd_json_at(top, "dataset");
    bool classes = false;
    KD_TRY(check_form(&m, err));
    KD_TRY(add_defaults(model, both, err));
    KD_TRY(add_defaults(model, is_constructor(&m) ? constructor : scripts, err));
    if (!is_constructor(&m))
        KD_TRY(kd_config_bool(&m, "class_cond", &classes, err));
    if (classes && !json_integer_value(json_object_get(dataset.v, "num_classes")) &&
        json_object_set_new((json_t *)dataset.v, "num_classes", json_integer(IMAGENET_CLASSES)))
        return kd_fail_memory(err, top->file);
    return add_common(model, &m, err);
}

// Values -----------------------------------------------------------------------------------------------------------

/// A list of numbers, or a string of them with commas between. An empty string gives none.
static int read_list(const kd_json *m, const char *key, double *to, int *n, kd_err *err)
{
    const kd_json j = kd_json_at(m, key);
    size_t size;
    *n = 0;
    if (!json_is_string(j.v)) {
        KD_TRY(kd_json_array(&j, &size, err));
        if (size > KD_MAX_LEVELS)
            return kd_json_fail(&j, err, "expected at most %d numbers, got %zu", KD_MAX_LEVELS, size);
        for (size_t i = 0; i < size; i++) {
            const kd_json item = kd_json_item(&j, i);
            KD_TRY(kd_json_num(&item, 0, KD_MAX_SIZE, &to[i], err));
        }
        *n = (int)size;
        return 0;
    }
    for (const char *s = json_string_value(j.v); *s;) {
        char *end;
        const double v = strtod(s, &end);
        if (end == s || !(v >= 0 && v <= KD_MAX_SIZE) || (*end && *end != ',') || *n == KD_MAX_LEVELS)
            return kd_json_fail(&j, err, "expected at most %d numbers with commas between, got \"%.60s\"", KD_MAX_LEVELS,
                                json_string_value(j.v));
        to[(*n)++] = v;
        s = *end ? end + 1 : end;
    }
    return 0;
}

/// guided_diffusion/script_util.py create_model
static int default_multiples(const kd_json *m, double *mult, int *n, kd_err *err)
{
    static const struct { int64_t side; int n; double mult[7]; } known[] = {
        { 512, 7, { 0.5, 1, 1, 2, 2, 4, 4 } }, { 256, 6, { 1, 1, 2, 2, 4, 4 } }, { 128, 5, { 1, 1, 2, 3, 4 } }, { 64, 4, { 1, 2, 3, 4 } } };
    const kd_json j = kd_json_at(m, "channel_mult");
    int64_t side;
    KD_TRY(kd_config_int(m, "image_size", 1, KD_MAX_SIZE, &side, err));
    for (int i = 0; i < COUNT(known); i++)
        if (known[i].side == side) {
            *n = known[i].n;
            memcpy(mult, known[i].mult, sizeof known[i].mult);
            return 0;
        }
    return kd_json_fail(&j, err, "an image_size of %lld has no usual multiples: give them, \"1,2,2\"", (long long)side);
}

static int read_levels(kd_config *c, const kd_json *m, kd_err *err)
{
    kd_guided_config *u = &c->guided;
    const kd_json j = kd_json_at(m, "channel_mult");
    double mult[KD_MAX_LEVELS];
    KD_TRY(read_list(m, "channel_mult", mult, &u->levels, err));
    if (!u->levels && json_is_string(j.v))
        KD_TRY(default_multiples(m, mult, &u->levels, err));
    if (!u->levels)
        return kd_json_fail(&j, err, "expected 1 to %d multiples, one a level", KD_MAX_LEVELS);
    for (int i = 0; i < u->levels; i++) {
        u->width[i] = (int64_t)(mult[i] * (double)u->model_channels);
        if (u->width[i] < 1 || u->width[i] > KD_MAX_WIDTH)
            return kd_json_fail(&j, err, "level %d would have %lld channels", i, (long long)u->width[i]);
    }
    return 0;
}

/// Pixel sizes in a string, downsampling factors in a list. Those that no level has are without effect, as in the peer.
static int read_attention(kd_config *c, const kd_json *m, kd_err *err)
{
    kd_guided_config *u = &c->guided;
    const kd_json j = kd_json_at(m, "attention_resolutions");
    double at[KD_MAX_LEVELS];
    int64_t side;
    int n;
    KD_TRY(kd_config_int(m, "image_size", 1, KD_MAX_SIZE, &side, err));
    KD_TRY(read_list(m, "attention_resolutions", at, &n, err));
    for (int k = 0; k < n; k++) {
        if (at[k] < 1)
            return kd_json_fail(&j, err, "expected numbers of 1 or more");
        const int64_t factor = json_is_string(j.v) ? side / (int64_t)at[k] : (int64_t)at[k];
        for (int i = 0; i < u->levels; i++)
            u->attention[i] |= factor == (int64_t)1 << i;
    }
    return 0;
}

/// Heads: a number, or -1 for "the other key says it".
static int read_heads(kd_config *c, const kd_json *m, kd_err *err)
{
    kd_guided_config *u = &c->guided;
    KD_TRY(kd_config_int(m, "num_heads", 1, KD_MAX_WIDTH, &u->heads, err));
    KD_TRY(kd_config_int(m, "num_heads_upsample", -1, KD_MAX_WIDTH, &u->heads_upsample, err));
    KD_TRY(kd_config_int(m, "num_head_channels", -1, KD_MAX_WIDTH, &u->head_channels, err));
    const char *zero = !u->heads_upsample ? "num_heads_upsample" : !u->head_channels ? "num_head_channels" : NULL;
    const kd_json j = kd_json_at(m, zero ? zero : "num_heads");
    if (zero)
        return kd_json_fail(&j, err, "expected a number of 1 or more, or -1, got 0");
    if (u->heads_upsample < 0)
        u->heads_upsample = u->heads;
    return 0;
}

static int read_form(kd_config *c, const kd_json *m, kd_err *err)
{
    kd_guided_config *u = &c->guided;
    const kd_json out = kd_json_at(m, "out_channels"), in = kd_json_at(m, "in_channels"), dims = kd_json_at(m, "dims");
    int64_t in_channels = c->channels, dimensions = 2;
    if (kd_config_has(m, "in_channels"))
        KD_TRY(kd_config_int(m, "in_channels", 1, 1024, &in_channels, err));
    if (in_channels != c->channels)
        return kd_json_fail(&in, err, "%lld, but input_channels is %lld", (long long)in_channels, (long long)c->channels);
    if (!is_constructor(m)) {
        bool class_cond;
        KD_TRY(kd_config_int(m, "num_channels", 1, KD_MAX_WIDTH, &u->model_channels, err));
        KD_TRY(kd_config_bool(m, "learn_sigma", &c->learn_sigma, err));
        KD_TRY(kd_config_bool(m, "class_cond", &class_cond, err));
        const kd_json *model = m, *top = model->up, dataset = kd_json_at(top, "dataset");
        if (class_cond)
            KD_TRY(kd_config_int(&dataset, "num_classes", 1, 10 * 1000 * 1000, &c->classes, err));
        u->out_channels = c->learn_sigma ? 2 * c->channels : c->channels;
        return 0;
    }
    if (kd_config_has(m, "dims"))
        KD_TRY(kd_json_int(&dims, 1, 3, &dimensions, err));
    if (dimensions != 2)
        return kd_json_fail(&dims, err, "images have 2 dimensions, got %lld", (long long)dimensions);
    KD_TRY(kd_config_int(m, "model_channels", 1, KD_MAX_WIDTH, &u->model_channels, err));
    KD_TRY(kd_config_int(m, "out_channels", 1, 2048, &u->out_channels, err));
    if (kd_config_has(m, "num_classes"))
        KD_TRY(kd_config_int(m, "num_classes", 1, 10 * 1000 * 1000, &c->classes, err));
    c->learn_sigma = u->out_channels == 2 * c->channels;
    if (!c->learn_sigma && u->out_channels != c->channels)
        return kd_json_fail(&out, err, "expected %lld, as many as go in, or twice that with a learned variance, got %lld",
                            (long long)c->channels, (long long)u->out_channels);
    return 0;
}

/// Options that say how the peer runs or trains it: those that would change what the model means are refused.
static int read_others(kd_config *c, const kd_json *m, kd_err *err)
{
    static const char *const refused[][2] = {
        { "use_kl", "the loss is the mean square, with the learned variance's bound" },
        { "predict_xstart", "the network's output is the noise (wrapper eps) or v (wrapper vd)" } };
    static const char *const harmless[] = { "use_checkpoint", "use_fp16" };
    bool on;
    for (int i = 0; i < COUNT(harmless); i++)
        if (kd_config_has(m, harmless[i]))
            KD_TRY(kd_config_bool(m, harmless[i], &on, err));
    for (int i = 0; i < COUNT(refused); i++) {
        const kd_json j = kd_json_at(m, refused[i][0]);
        on = false;
        if (kd_json_given(&j))
            KD_TRY(kd_json_truth(&j, &on, err));
        if (on)
            return kd_json_fail(&j, err, "%s: set it to false", refused[i][1]);
    }
    const kd_json respacing = kd_json_at(m, "timestep_respacing");
    if (kd_json_given(&respacing) && !(json_is_string(respacing.v) && !json_string_length(respacing.v)))
        return kd_json_fail(&respacing, err, "how many steps are taken is said when sampling (kd-sample --steps): leave it empty");
    KD_TRY(kd_config_bool(m, "rescale_timesteps", &c->rescale_timesteps, err));
    return kd_config_bool(m, "rescale_learned_sigmas", &c->rescale_learned_sigmas, err);
}

int kd_config_read_guided(kd_config *c, const kd_json *m, kd_err *err)
{
    kd_guided_config *u = &c->guided;
    KD_TRY(read_form(c, m, err));
    KD_TRY(kd_config_int(m, "num_res_blocks", 1, KD_MAX_RES_BLOCKS, &u->res_blocks, err));
    KD_TRY(read_levels(c, m, err));
    KD_TRY(read_attention(c, m, err));
    KD_TRY(read_heads(c, m, err));
    KD_TRY(kd_config_bool(m, "use_scale_shift_norm", &u->scale_shift, err));
    KD_TRY(kd_config_bool(m, "resblock_updown", &u->resblock_updown, err));
    KD_TRY(kd_config_bool(m, "use_new_attention_order", &u->new_attention_order, err));
    KD_TRY(kd_config_bool(m, "conv_resample", &u->conv_resample, err));
    KD_TRY(kd_config_rate(m, "dropout", &u->dropout, err));
    KD_TRY(kd_config_positive(m, "max_period", &u->max_period, err));
    const kd_json learned = kd_json_at(m, is_constructor(m) ? "out_channels" : "learn_sigma");
    if (c->learn_sigma && c->wrapper != KD_WRAP_EPS)
        return kd_json_fail(&learned, err, "a learned variance goes with wrapper eps only");
    return read_others(c, m, err);
}

// Sizes ------------------------------------------------------------------------------------------------------------

static int check_heads(const kd_config *c, int64_t width, int64_t heads, kd_err *err)
{
    const kd_guided_config *u = &c->guided;
    char near[64];
    const int64_t unit = u->head_channels > 0 ? u->head_channels : heads;
    const char *what = u->head_channels > 0 ? "num_head_channels" : heads == u->heads ? "num_heads" : "num_heads_upsample";
    return width % unit == 0 ? 0 : kd_fail(err, KD_EUSAGE, "%s: model.%s: %lld does not divide the %lld channels of a level: these would "
                                           "have to be a multiple of it, %s", c->path, what, (long long)unit, (long long)width,
                                           kd_config_multiples(near, width, unit));
}

int kd_config_check_guided(const kd_config *c, kd_err *err)
{
    const kd_guided_config *u = &c->guided;
    const int64_t unit = (int64_t)1 << (u->levels - 1);
    char near[64];
    for (int axis = 0; axis < 2; axis++)
        if (c->size[axis] % unit)
            return kd_fail(err, KD_EUSAGE, "%s: model.input_size: %s %lld is not a multiple of %lld, 2 for each of the %d levels but "
                           "the first: %s", c->path, axis ? "width" : "height", (long long)c->size[axis], (long long)unit, u->levels,
                           kd_config_multiples(near, c->size[axis], unit));
    for (int i = 0; i < u->levels; i++) {
        if (u->width[i] % 32)
            return kd_fail(err, KD_EUSAGE, "%s: model.channel_mult: level %d has %lld channels, not a multiple of the 32 groups of "
                           "its norms: %s", c->path, i, (long long)u->width[i], kd_config_multiples(near, u->width[i], 32));
        if (u->attention[i] || i == u->levels - 1)           // the middle always attends
            KD_TRY(check_heads(c, u->width[i], u->heads, err));
        if (u->attention[i])
            KD_TRY(check_heads(c, u->width[i], u->heads_upsample, err));
    }
    return 0;
}
