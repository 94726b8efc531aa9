// What kd-info says of a PyTorch file.
#include "base/json.h"
#include "formats/info.h"
#include "formats/torch.h"
#include <stdlib.h>
#include <string.h>

static int put(json_t *object, const char *key, json_t *value, kd_err *err)
{
    return json_object_set_new(object, key, value) ? kd_fail_memory(err, key) : 0;
}

static bool is_checkpoint(const kd_torch *t)
{
    for (int i = 0; i < t->tensors->n; i++)
        if (!strncmp(t->tensors->t[i].name, "model_ema.", 10))
            return true;
    return false;
}

// The config is in the metadata, as it is for a model.
static int put_value(void *values, const char *path, const json_t *v, kd_err *err)
{
    if (!strncmp(path, "config.", 7) || !*path)
        return 0;
    return put(values, path, json_incref((json_t *)v), err);
}

static int put_config(json_t *meta, const kd_torch *t, kd_err *err)
{
    const json_t *config = json_object_get(t->rest, "config");
    if (!json_is_object(config))
        return 0;
    char *text = kd_json_python(config, 4);
    const int code = text ? put(meta, "config", json_string(text), err) : kd_fail_memory(err, "config");
    free(text);
    return code;
}

int kd_torch_describe(json_t *doc, const kd_torch *t, bool with_stats, kd_err *err)
{
    json_t *meta = json_object(), *values = json_object();
    KD_TRY(put(doc, "kind", json_string(is_checkpoint(t) ? "checkpoint" : "tensors"), err));
    KD_TRY(put(doc, "checksum", json_string(t->legacy ? "none" : "good"), err));
    KD_TRY(put(doc, "metadata", meta, err));
    KD_TRY(put(doc, "values", values, err));
    KD_TRY(put(meta, "format", json_string(t->legacy ? "PyTorch, legacy" : "PyTorch, zip"), err));
    KD_TRY(put_config(meta, t, err));
    KD_TRY(kd_torch_each(t->rest, put_value, values, err));
    return kd_info_tensors(doc, t->tensors, with_stats, err);
}
