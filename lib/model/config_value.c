// Reading values of a config by key: type, range, names to choose from.
#include "model/config_parts.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

bool kd_config_has(const kd_json *o, const char *key)
{
    const kd_json j = kd_json_at(o, key);
    return kd_json_given(&j);
}

int kd_config_int(const kd_json *o, const char *key, int64_t lo, int64_t hi, int64_t *to, kd_err *err)
{
    const kd_json j = kd_json_at(o, key);
    KD_TRY(kd_json_int(&j, lo, hi, to, err));
    if (json_is_real(j.v) && json_object_set_new((json_t *)o->v, key, json_integer(*to)))   // Python wants 3, not 3.0
        return kd_fail_memory(err, o->file);
    return 0;
}

int kd_config_ints(const kd_json *o, const char *key, size_t n, int64_t lo, int64_t hi, int64_t *to, kd_err *err)
{
    const kd_json j = kd_json_at(o, key);
    KD_TRY(kd_json_ints(&j, n, lo, hi, to, err));
    for (size_t i = 0; i < n; i++)
        if (json_is_real(json_array_get(j.v, i)) && json_array_set_new((json_t *)j.v, i, json_integer(to[i])))
            return kd_fail_memory(err, o->file);
    return 0;
}

int kd_config_num(const kd_json *o, const char *key, double lo, double hi, double *to, kd_err *err)
{
    const kd_json j = kd_json_at(o, key);
    return kd_json_num(&j, lo, hi, to, err);
}

int kd_config_positive(const kd_json *o, const char *key, double *to, kd_err *err)
{
    const kd_json j = kd_json_at(o, key);
    double v;
    KD_TRY(kd_json_num(&j, -INFINITY, INFINITY, &v, err));
    if (!(v > 0))
        return kd_json_fail(&j, err, "expected a number above 0, got %.9g", v);
    *to = v;
    return 0;
}

int kd_json_truth(const kd_json *j, bool *to, kd_err *err)
{
    if (json_is_number(j->v))
        *to = json_number_value(j->v) != 0;
    else if (json_is_null(j->v))
        *to = false;
    else
        return kd_json_bool(j, to, err);
    return 0;
}

int kd_config_bool(const kd_json *o, const char *key, bool *to, kd_err *err)
{
    const kd_json j = kd_json_at(o, key);
    return kd_json_truth(&j, to, err);
}

int kd_json_rate(const kd_json *j, double *to, kd_err *err)
{
    KD_TRY(kd_json_num(j, 0, 1, to, err));
    return *to < 1 ? 0 : kd_json_fail(j, err, "expected a rate below 1");
}

int kd_config_rate(const kd_json *o, const char *key, double *to, kd_err *err)
{
    const kd_json j = kd_json_at(o, key);
    return kd_json_rate(&j, to, err);
}

int kd_config_choice(const kd_json *o, const char *key, const char *const *names, int n, int *to, kd_err *err)
{
    const kd_json j = kd_json_at(o, key);
    for (int i = 0; i < n; i++)
        if (json_is_string(j.v) && !strcmp(json_string_value(j.v), names[i])) {
            *to = i;
            return 0;
        }
    char list[256] = "", got[96];
    size_t used = 0;
    for (int i = 0; i < n; i++)
        used += snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : i < n - 1 ? ", " : " or ", names[i]);
    return kd_json_fail(&j, err, "expected %s, got %s", list, kd_json_what(&j, got, sizeof got));
}
