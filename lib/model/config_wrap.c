// A config with another wrapper: what is said of the old one goes, what the new one needs comes.
#include "model/config_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// A noise level with the digits that name it in float32, not the seventeen of the double next to it.
static json_t *level(double sigma)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", sigma);
    return json_real(strtod(text, NULL));
}

/// There are no steps any more: the keys about them go, and the levels at their ends, if they were all that limited sigma, are kept.
static int without_steps(json_t *model, const kd_config *c, const char *wrapper, char **said, kd_err *err)
{
    const struct { const char *key; double sigma; } ends[] = { { "sigma_min", c->sigma_min }, { "sigma_max", c->sigma_max } };
    bool taken = false;
    kd_str s = {0};
    for (int i = 0; kd_config_steps_keys[i]; i++)
        json_object_del(model, kd_config_steps_keys[i]);
    if (c->has_density && c->density.type == KD_DENSITY_STEPS)
        json_object_del(model, "sigma_sample_density");
    for (int i = 0; i < 2; i++) {
        if (json_is_number(json_object_get(model, ends[i].key)))
            continue;
        if (json_object_set_new(model, ends[i].key, level(ends[i].sigma)))
            return kd_fail_memory(err, c->path);
        taken = true;
    }
    if (!taken)
        return 0;
    if (!kd_str_printf(&s, err, "%s: wrapper %s has no steps: sigma_min %.9g and sigma_max %.9g are the ends of those before", c->path,
                       wrapper, c->sigma_min, c->sigma_max) && !strcmp(wrapper, "karras"))
        kd_str_printf(&s, err, ", sigma_data is %.9g", c->sigma_data);
    *said = s.p;                            // kd_config_wrap frees it if this failed
    return err->code;
}

static int rewrite(json_t *model, const kd_config *c, const char *wrapper, char **said, kd_err *err)
{
    int failed = json_object_set_new(model, "wrapper", json_string(wrapper));
    if (strcmp(wrapper, "karras"))
        failed |= json_object_set_new(model, "loss_config", json_string("karras")) ||
                  json_object_set_new(model, "loss_weighting", json_string("karras")) ||
                  json_object_set_new(model, "loss_scales", json_integer(1));
    if (failed)
        return kd_fail_memory(err, c->path);
    return strcmp(wrapper, "eps") && strcmp(wrapper, "vd") ? without_steps(model, c, wrapper, said, err) : 0;
}

int kd_config_wrap(kd_config **wrapped, const kd_config *c, const char *wrapper, char **said, kd_err *err)
{
    json_t *root;
    char *text = NULL;
    *wrapped = NULL;
    *said = NULL;
    KD_TRY(kd_json_parse(&root, c->path, KD_EFAIL, c->json, strlen(c->json), err));
    if (!rewrite(json_object_get(root, "model"), c, wrapper, said, err) && !(text = kd_json_python(root, 4)))
        kd_fail_memory(err, c->path);
    json_decref(root);
    if (!err->code)
        kd_config_parse(wrapped, text, c->path, true, NULL, err);
    free(text);
    if (err->code) {
        free(*said);
        *said = NULL;
    }
    return err->code;
}
