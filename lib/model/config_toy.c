// Configs of toy_mixture models (model/toy.h): a model section and nothing else.
#include "model/config_parts.h"
#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
enum { MAX_SIZE = 1 << 16 };

bool kd_config_is_toy(const kd_json *top)
{
    const json_t *type = json_object_get(json_object_get(top->v, "model"), "type");
    return json_is_string(type) && !strcmp(json_string_value(type), "toy_mixture");
}

int kd_config_read_toy(kd_config *c, const kd_json *top, kd_err *err)
{
    static const char *const top_keys[] = { "model" };
    static const char *const keys[] = { "type", "input_channels", "input_size", "components", "per_pixel", "sigma_data", "sigma_min",
                                        "sigma_max" };
    const kd_json m = kd_json_at(top, "model"), low = kd_json_at(&m, "sigma_min");
    KD_TRY(kd_json_known(top, top_keys, COUNT(top_keys), err));
    KD_TRY(kd_json_known(&m, keys, COUNT(keys), err));
    c->type = KD_MODEL_TOY_MIXTURE;
    KD_TRY(kd_config_int(&m, "input_channels", 1, 1024, &c->channels, err));
    KD_TRY(kd_config_ints(&m, "input_size", 2, 1, MAX_SIZE, c->size, err));
    KD_TRY(kd_config_int(&m, "components", 1, 1 << 20, &c->components, err));
    KD_TRY(kd_config_bool(&m, "per_pixel", &c->per_pixel, err));
    KD_TRY(kd_config_positive(&m, "sigma_data", &c->sigma_data, err));
    KD_TRY(kd_config_positive(&m, "sigma_min", &c->sigma_min, err));
    KD_TRY(kd_config_positive(&m, "sigma_max", &c->sigma_max, err));
    if (c->sigma_min >= c->sigma_max)
        return kd_json_fail(&low, err, "must be below sigma_max, got %.9g and %.9g", c->sigma_min, c->sigma_max);
    if (!(c->dataset_type = kd_strdup("toy_mixture")) || !(c->json = kd_json_python(top->v, 4)))
        return kd_fail_memory(err, top->file);
    return 0;
}
