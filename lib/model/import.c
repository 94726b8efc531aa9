// Other programs' weights as our models.
#include "base/json.h"
#include "formats/model.h"
#include "formats/unetcu.h"
#include "model/feature_net.h"
#include "model/guess.h"
#include "model/import_private.h"
#include <stdlib.h>
#include <string.h>

static int read_file(kd_import *i, kd_in *in, kd_err *err)
{
    const void *bytes;
    if (!(i->file = kd_strdup(kd_in_name(in))))
        return kd_fail_memory(err, kd_in_name(in));
    const size_t n = kd_in_peek(in, &bytes, 64);
    if (kd_torch_knows(bytes, n))
        return kd_torch_read(&i->torch, in, err);
    return kd_unetcu_knows(bytes, n) ? kd_unetcu_read(&i->frame, in, err) : kd_model_file_read(&i->frame, in, i->raw, true, err);
}

int kd_import_open(kd_import **out, const char *path, bool raw, kd_err *err)
{
    kd_in *in;
    *out = NULL;
    KD_TRY(kd_in_open(&in, path, err));
    kd_import *i = kd_alloc(sizeof *i);
    if (!i) {
        kd_fail_memory(err, path);
    } else {
        i->raw = raw;
        read_file(i, in, err);
    }
    kd_in_close(in);
    if (err->code)
        kd_import_close(i);
    else
        *out = i;
    return err->code;
}

void kd_import_close(kd_import *i)
{
    if (!i)
        return;
    free(i->file);
    kd_torch_free(i->torch);
    kd_frame_free(i->frame);
    kd_free(i);
}

bool kd_import_has(const kd_frame *f, const char *prefix)
{
    for (int k = 0; k < f->n; k++)
        if (!strncmp(f->t[k].name, prefix, strlen(prefix)))
            return true;
    return false;
}

bool kd_import_trains(const kd_import *i)
{
    return i->torch && kd_import_has(i->torch->tensors, "model.") && kd_import_has(i->torch->tensors, "model_ema.") &&
           json_object_get(i->torch->rest, "opt");
}

bool kd_import_has_config(const kd_import *i)
{
    return i->torch ? json_is_object(json_object_get(i->torch->rest, "config")) : kd_frame_meta(i->frame, "config") != NULL;
}

static const kd_frame *tensors_of(const kd_import *i) { return i->torch ? i->torch->tensors : i->frame; }

bool kd_import_encodes(const kd_import *i) { return !kd_frame_kind(tensors_of(i)) && kd_feature_knows(tensors_of(i)); }

int kd_import_features(kd_frame **f, const kd_import *i, const char *activation, char **said, kd_err *err)
{
    return kd_feature_frame(f, tensors_of(i), i->file, activation, said, err);
}

int kd_import_part(kd_frame **part, const kd_frame *f, const char *prefix, kd_err *err)
{
    const size_t n = strlen(prefix);
    kd_frame *p = *part = kd_frame_new();
    if (!p)
        return kd_fail_memory(err, "a state dict");
    for (int k = 0; k < f->n; k++)
        if (!strncmp(f->t[k].name, prefix, n) && f->t[k].name[n])
            KD_TRY(kd_frame_add(p, f->t[k].name + n, f->t[k].dtype, f->t[k].shape, f->t[k].data, NULL, err));
    return 0;
}

// Where a PyTorch file has its state dict: k-diffusion's checkpoints, others' habits, or all of it.
static const char *prefix_of(const kd_import *i)
{
    const kd_frame *f = i->torch->tensors;
    if (kd_import_has(f, "model_ema."))
        return i->raw ? "model." : "model_ema.";
    return kd_import_has(f, "state_dict.") ? "state_dict." : kd_import_has(f, "model.") ? "model." : "";
}

int kd_import_config(kd_config **c, const kd_import *i, kd_config *config, char **warning, kd_err *err)
{
    const char *own = i->frame ? kd_frame_meta(i->frame, "config") : NULL;
    const json_t *object = i->torch ? json_object_get(i->torch->rest, "config") : NULL;
    char *text = NULL;
    *c = config;
    if (config)
        return 0;
    if (json_is_object(object) && !(own = text = kd_json_python(object, 4)))
        return kd_fail_memory(err, i->file);
    const int code = own ? kd_config_parse(c, own, i->file, true, warning, err) : 0;
    free(text);
    return code;
}

int kd_import_model(kd_model **m, const kd_import *i, kd_config *config, kd_err *err)
{
    kd_frame *part = NULL;
    const kd_frame *f = i->frame;
    char *warning = NULL;
    kd_config *c = NULL;
    *m = NULL;
    if (f && config && kd_frame_kind(f) && !strcmp(kd_frame_kind(f), "checkpoint/1")) {
        kd_config_free(config);
        return kd_fail(err, KD_EUSAGE, "%s: a checkpoint has its own config", i->file);
    }
    if (kd_import_config(&c, i, config, &warning, err))
        goto done;
    if (!f && kd_import_part(&part, i->torch->tensors, prefix_of(i), err))
        goto done;
    f = f ? f : part;
    if (!f->n)
        kd_fail(err, KD_EFORMAT, "%s: no weights in it", i->file);
    else if (!c)
        kd_guess_config(&c, f, i->file, &warning, err);
    if (err->code)
        goto done;
    kd_config *given = c;
    c = NULL;                                             // it takes it
    if (kd_model_of(m, given, f, i->file, err))
        goto done;
    (*m)->warning = warning;
    warning = NULL;
done:
    kd_config_free(c);
    kd_frame_free(part);
    free(warning);
    return err->code;
}
