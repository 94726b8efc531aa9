// kd-init: a model from a config and a seed, or a model or checkpoint from another file. Output: formats/model.md or
// formats/checkpoint.md on stdout; with --to kdiff what k-diffusion's converter writes.
#include "base/opt.h"
#include "base/talk.h"
#include "formats/safetensors.h"
#include "model/import.h"
#include "model/toy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *config, *from, *weights, *override, *dtype, *to, *toy, *shape, *wrap, *activation;
    int64_t size[3];         // of --shape
    uint64_t seed;
    int64_t batch;
    kd_common common;
};

static bool is(const char *option, const char *value) { return option && !strcmp(option, value); }

static bool has_seed(const struct args *a) { return kd_given(&a->common, &a->seed); }
static bool has_batch(const struct args *a) { return kd_given(&a->common, &a->batch); }

static int check(const struct args *a, kd_err *err)
{
    if (a->shape && !a->toy)
        return kd_fail(err, KD_EUSAGE, "--shape: only with --toy");
    if (a->wrap && (a->toy || is(a->to, "checkpoint")))
        return kd_fail(err, KD_EUSAGE, "--wrap: only of a model, not with %s", a->toy ? "--toy" : "--to checkpoint");
    if (a->toy && (a->config || a->from || has_seed(a) || a->weights || a->override || a->to || has_batch(a)))
        return kd_fail(err, KD_EUSAGE, "--toy: only with --shape and --dtype");
    if (!a->toy && !a->config == !a->from)
        return kd_fail(err, KD_EUSAGE, "expected CONFIG or --from FILE, %s", a->config ? "got both" : "got neither");
    if (!a->from && (a->weights || a->override || is(a->to, "checkpoint")))
        return kd_fail(err, KD_EUSAGE, "%s: only with --from", a->weights ? "--weights" : a->override ? "--config" : "--to checkpoint");
    if (!a->from && (has_batch(a) || a->activation))
        return kd_fail(err, KD_EUSAGE, "%s: only with --from", a->activation ? "--activation" : "--batch");
    if (is(a->to, "checkpoint") && (a->weights || a->dtype))
        return kd_fail(err, KD_EUSAGE, "%s: not with --to checkpoint, which has both weights, in fp32",
                       a->weights ? "--weights" : "--dtype");
    return 0;
}

static int parse_shape(struct args *a, kd_err *err)
{
    char rest;
    long long v[3] = {0};
    const bool good = !a->shape || (sscanf(a->shape, "%lld,%lld,%lld%c", v, v + 1, v + 2, &rest) == 3 && v[0] > 0 && v[1] > 0 && v[2] > 0);
    for (int i = 0; i < 3; i++)
        a->size[i] = v[i];
    return good ? 0 : kd_fail(err, KD_EUSAGE, "--shape: expected C,H,W, got '%s'", a->shape);
}

static int parse(struct args *a, int argc, char **argv, kd_err *err)
{
    const kd_opt opts[] = {
        KD_OPT_ARG("CONFIG", &a->config, 0, "Config (JSON), or a model file whose config is used"),
        KD_OPT_U64(0, "seed", &a->seed, "Seed of new weights, or of the draws after resuming from an imported checkpoint (default 0)"),
        KD_OPT_STR(0, "from", &a->from, "FILE", "File to take the weights from, instead of drawing them; - for standard input"),
        KD_OPT_CHOICE(0, "weights", &a->weights, "ema|raw",
                      "Weights of a checkpoint to use: the moving average or the trained ones (default ema)"),
        KD_OPT_CHOICE(0, "to", &a->to, "model|checkpoint|kdiff",
                      "Kind of file to write (default model, but checkpoint for a training checkpoint of k-diffusion)"),
        KD_OPT_STR(0, "config", &a->override, "CONFIG", "Config for a file that has none, or a wrong one"),
        KD_OPT_CHOICE(0, "wrap", &a->wrap, "karras|v|eps|vd", "Wrapper that makes the network a denoiser (default: the config's)"),
        KD_OPT_CHOICE(0, "activation", &a->activation, "gelu|quick_gelu",
                      "Activation that CLIP's weights were trained with, if the file does not say (OpenAI's: quick_gelu)"),
        KD_OPT_STR(0, "toy", &a->toy, "FILE", "Create a toy model from a mixture of Gaussians (tensors weight, std and mean)"),
        KD_OPT_STR(0, "shape", &a->shape, "C,H,W", "Shape of the images of --toy, for a mean of shape [k]"),
        KD_OPT_CHOICE(0, "dtype", &a->dtype, "fp32|fp16|bf16", "Type of the weights to write (default fp32; fp16 for --to kdiff)"),
        KD_OPT_INT(0, "batch", &a->batch, 1, 1 << 20, "Images per batch in the run of a k-diffusion checkpoint (default 64)"),
        KD_OPT_END };
    KD_TRY(kd_cli_parse("kd-init", "Create, import or convert weights", opts, KD_WITH_OUT, argc, argv, &a->common, err));
    KD_TRY(parse_shape(a, err));
    return check(a, err);
}

static int from_toy(kd_model **m, const struct args *a, kd_err *err)
{
    kd_frame *f;
    KD_TRY(kd_safetensors_load(a->toy, &f, err));
    const int code = kd_toy_new(m, f, strcmp(a->toy, "-") ? a->toy : "stdin", a->shape ? a->size : NULL, err);
    kd_frame_free(f);
    return code;
}

static int from_seed(kd_model **m, const struct args *a, kd_err *err)
{
    kd_config *config;
    KD_TRY(kd_config_load(&config, a->config, err));
    char *hint = kd_config_dataset_hint(config);
    if (hint)
        kd_say("%s", hint);
    free(hint);
    return kd_model_new(m, config, a->seed, err);
}

static kd_dtype dtype_of(const struct args *a)
{
    const char *name = a->dtype ? a->dtype : is(a->to, "kdiff") ? "fp16" : "fp32";
    return is(name, "fp32") ? KD_F32 : is(name, "fp16") ? KD_F16 : KD_BF16;
}

static int frame_of(kd_frame **f, kd_model *m, const struct args *a, kd_err *err)
{
    if (a->wrap)
        KD_TRY(kd_model_wrap(m, a->wrap, err));
    if (m->warning)
        kd_say("%s", m->warning);
    if (is(a->to, "kdiff"))
        return kd_model_frame_kdiff(f, m, dtype_of(a), err);
    KD_TRY(kd_model_frame(f, m, dtype_of(a), err));
    return kd_frame_add_history(*f, a->common.no_history ? NULL : a->common.history, err);
}

/// A training checkpoint of k-diffusion becomes one of ours, unless the options ask for a model. Without a config it can only be a model.
static bool wants_checkpoint(const struct args *a, const kd_import *i)
{
    if (a->to || !kd_import_trains(i) || a->weights || a->dtype || a->wrap)
        return is(a->to, "checkpoint");
    if (a->override || kd_import_has_config(i))
        return true;
    kd_say("%s: a training checkpoint without a config, which says how it was trained: its average as a model (with --config a checkpoint)",
           a->from);
    return false;
}

static int import_checkpoint(kd_frame **f, const kd_import *i, kd_config *config, const struct args *a, kd_err *err)
{
    const kd_import_run run = { .seed = a->seed, .batch = a->batch };
    char *said = NULL;
    if (!kd_import_trains(i)) {
        kd_config_free(config);
        return kd_fail(err, KD_EUSAGE, "%s: --to checkpoint takes a training checkpoint of k-diffusion", a->from);
    }
    kd_import_checkpoint(f, i, config, &run, &said, err);
    if (said)
        kd_say("%s", said);
    free(said);
    return err->code;
}

static int import_model(kd_frame **f, const kd_import *i, kd_config *config, const struct args *a, kd_err *err)
{
    kd_model *m;
    if (has_seed(a) || has_batch(a)) {
        kd_config_free(config);
        return kd_fail(err, KD_EUSAGE, "%s: only where a training checkpoint becomes one: a model draws nothing",
                       has_seed(a) ? "--seed" : "--batch");
    }
    KD_TRY(kd_import_model(&m, i, config, err));
    frame_of(f, m, a, err);
    kd_model_free(m);
    return err->code;
}

/// A network for features is written as it is.
static int import_features(kd_frame **f, const kd_import *i, kd_config *config, const struct args *a, kd_err *err)
{
    const char *odd = a->weights ? "--weights" : a->override ? "--config" : a->wrap ? "--wrap" : a->to ? "--to" : a->dtype ? "--dtype" :
                      has_seed(a) ? "--seed" : has_batch(a) ? "--batch" : NULL;
    char *said = NULL;
    kd_config_free(config);
    if (odd)
        return kd_fail(err, KD_EUSAGE, "%s: %s: not for a network of features, which is written as it is", a->from, odd);
    if (!kd_import_features(f, i, a->activation, &said, err)) {
        kd_say("%s", said);
        kd_frame_add_history(*f, a->common.no_history ? NULL : a->common.history, err);
    }
    free(said);
    return err->code;
}

static int import_any(kd_frame **f, const kd_import *i, kd_config *config, const struct args *a, kd_err *err)
{
    if (kd_import_encodes(i))
        return import_features(f, i, config, a, err);
    if (!a->activation)
        return (wants_checkpoint(a, i) ? import_checkpoint : import_model)(f, i, config, a, err);
    kd_config_free(config);
    return kd_fail(err, KD_EUSAGE, "%s: --activation is for CLIP, which this is not", a->from);
}

static int from_file(kd_frame **f, const struct args *a, kd_err *err)
{
    kd_config *config = NULL;
    kd_import *i;
    if (a->override)
        KD_TRY(kd_config_load(&config, a->override, err));
    if (kd_import_open(&i, a->from, is(a->weights, "raw"), err))
        kd_config_free(config);
    else
        import_any(f, i, config, a, err);
    kd_import_close(i);
    return err->code;
}

static int new_weights(kd_frame **f, const struct args *a, kd_err *err)
{
    kd_model *m;
    KD_TRY((a->toy ? from_toy : from_seed)(&m, a, err));
    frame_of(f, m, a, err);
    kd_model_free(m);
    return err->code;
}

static int save(const kd_frame *f, const struct args *a, kd_err *err)
{
    kd_out *out = NULL;
    if (kd_out_open(&out, a->common.out, true, err))
        return err->code;
    if (!(is(a->to, "kdiff") ? kd_safetensors_write_plain : kd_safetensors_write)(out, f, err))
        kd_out_commit(out, err);
    kd_out_close(out);
    return err->code;
}

int main(int argc, char **argv)
{
    struct args a = { .batch = 64 };
    kd_err err = {0};
    kd_frame *f = NULL;
    if (parse(&a, argc, argv, &err))
        goto done;
    if ((a.from ? from_file : new_weights)(&f, &a, &err))
        goto done;
    save(f, &a, &err);
done:
    kd_frame_free(f);
    kd_cli_free(&a.common);
    return kd_tool_exit("kd-init", &err);
}
