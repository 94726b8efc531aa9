// kd-init: a model from a config and a seed, or from another model or checkpoint. Output: formats/model.md on stdout.
#include "base/opt.h"
#include "base/talk.h"
#include "formats/safetensors.h"
#include "model/model.h"
#include <stdlib.h>
#include <string.h>

struct args {
    const char *config, *from, *weights, *override, *dtype;
    uint64_t seed;
    kd_common common;
};

static int check(const struct args *a, kd_err *err)
{
    if (!a->config == !a->from)
        return kd_fail(err, KD_EUSAGE, "expected CONFIG or --from FILE, %s", a->config ? "got both" : "got neither");
    if (a->config && (a->weights || a->override))
        return kd_fail(err, KD_EUSAGE, "%s: only with --from", a->weights ? "--weights" : "--config");
    if (a->from && a->seed)
        return kd_fail(err, KD_EUSAGE, "--seed: only with CONFIG: --from draws nothing");
    if (a->override && a->weights)
        return kd_fail(err, KD_EUSAGE, "--weights chooses in a checkpoint, which has its own config: not with --config");
    return 0;
}

static int parse(struct args *a, int argc, char **argv, kd_err *err)
{
    const kd_opt opts[] = {
        KD_OPT_ARG("CONFIG", &a->config, 0, "k-diffusion config: JSON, or a model file that has one"),
        KD_OPT_U64(0, "seed", &a->seed, "of new weights (default 0)"),
        KD_OPT_STR(0, "from", &a->from, "FILE", "take the weights of a model or checkpoint; - for stdin"),
        KD_OPT_CHOICE(0, "weights", &a->weights, "ema|raw", "which ones of a checkpoint (default ema)"),
        KD_OPT_STR(0, "config", &a->override, "CONFIG", "config for a foreign file without one"),
        KD_OPT_CHOICE(0, "dtype", &a->dtype, "fp32|fp16|bf16", "of what is written (default fp32)"),
        KD_OPT_END };
    KD_TRY(kd_cli_parse("kd-init", "new weights from a config and a seed, or the weights of another file", opts, KD_WITH_OUT,
                        argc, argv, &a->common, err));
    return check(a, err);
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

/// A pickle runs code when it is loaded the usual way; say what to do instead of "header too long".
static int refuse_pickle(const char *path, kd_err *err)
{
    kd_in *in;
    const void *bytes;
    if (!strcmp(path, "-"))
        return 0;
    KD_TRY(kd_in_open(&in, path, err));
    const size_t n = kd_in_peek(in, &bytes, 4);
    const bool pickle = (n == 4 && !memcmp(bytes, "PK\3\4", 4)) || (n >= 2 && ((const char *)bytes)[0] == '\x80');
    kd_in_close(in);
    return pickle ? kd_fail(err, KD_EUSAGE, "%s: a PyTorch checkpoint (.pth), which this version does not read; k-diffusion's "
                            "convert_for_inference.py makes a .safetensors file of it, which works", path) : 0;
}

static int from_file(kd_model **m, const struct args *a, kd_err *err)
{
    KD_TRY(refuse_pickle(a->from, err));
    if (!a->override)
        return kd_model_load(m, a->from, a->weights && !strcmp(a->weights, "raw"), err);
    kd_config *config;
    KD_TRY(kd_config_load(&config, a->override, err));
    return kd_model_load_as(m, a->from, config, err);
}

static kd_dtype dtype_of(const char *name)
{
    return !name || !strcmp(name, "fp32") ? KD_F32 : !strcmp(name, "fp16") ? KD_F16 : KD_BF16;
}

static int save(const kd_model *m, const struct args *a, kd_err *err)
{
    kd_frame *frame = NULL;
    kd_out *out = NULL;
    if (kd_model_frame(&frame, m, dtype_of(a->dtype), err))
        goto done;
    if (kd_frame_add_history(frame, a->common.no_history ? NULL : a->common.history, err))
        goto done;
    if (kd_out_open(&out, a->common.out, true, err) || kd_safetensors_write(out, frame, err))
        goto done;
    kd_out_commit(out, err);
done:
    kd_out_close(out);
    kd_frame_free(frame);
    return err->code;
}

int main(int argc, char **argv)
{
    struct args a = {0};
    kd_err err = {0};
    kd_model *m = NULL;
    if (parse(&a, argc, argv, &err))
        goto done;
    if (a.from ? from_file(&m, &a, &err) : from_seed(&m, &a, &err))
        goto done;
    if (m->warning)
        kd_say("%s", m->warning);
    save(m, &a, &err);
done:
    kd_model_free(m);
    kd_cli_free(&a.common);
    return kd_tool_exit("kd-init", &err);
}
