// JSON as Python prints it, so that a config we write is, byte for byte where we can, the one k-diffusion would write.
#include "base/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// The fewest digits that read back as the same double, laid out as Python's repr: 0.0001, 1e-05, 80.0, 1e+16.
static int put_real(kd_str *s, double x, kd_err *err)
{
    char digits[32];
    int precision = 0;
    do
        snprintf(digits, sizeof digits, "%.*e", precision, x);
    while (strtod(digits, NULL) != x && ++precision < 17);
    const int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        const int decimals = precision - exponent;
        return kd_str_printf(s, err, "%.*f", decimals > 0 ? decimals : 1, x);
    }
    return kd_str_printf(s, err, "%s", digits);
}

/// A string, and whatever else jansson prints as Python does.
static int put_other(kd_str *s, const json_t *v, kd_err *err)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    if (!text)
        return kd_fail_memory(err, "a JSON text");
    const int code = kd_str_add(s, text, strlen(text), err);
    free(text);
    return code;
}

/// What stands before an item (or, last, before the closing bracket) at this depth.
static int put_gap(kd_str *s, bool first, bool last, int indent, int depth, kd_err *err)
{
    if (!first && !last)
        KD_TRY(kd_str_add(s, ",", 1, err));
    if (indent)
        return kd_str_printf(s, err, "\n%*s", indent * depth, "");
    return first || last ? 0 : kd_str_add(s, " ", 1, err);
}

static int put(kd_str *s, const json_t *v, int indent, int depth, kd_err *err)
{
    if (json_is_real(v))
        return put_real(s, json_real_value(v), err);
    const bool object = json_is_object(v);
    if (!object && !json_is_array(v))
        return put_other(s, v, err);
    if (!(object ? json_object_size(v) : json_array_size(v)))
        return kd_str_add(s, object ? "{}" : "[]", 2, err);
    KD_TRY(kd_str_add(s, object ? "{" : "[", 1, err));
    const char *key;
    json_t *item;
    size_t i;
    bool first = true;
    if (object) {
        json_object_foreach((json_t *)v, key, item) {
            KD_TRY(put_gap(s, first, false, indent, depth + 1, err));
            json_t *name = json_string(key);
            const int code = name ? put_other(s, name, err) : kd_fail_memory(err, "a JSON text");
            json_decref(name);
            KD_TRY(code);
            KD_TRY(kd_str_add(s, ": ", 2, err));
            KD_TRY(put(s, item, indent, depth + 1, err));
            first = false;
        }
    } else {
        json_array_foreach(v, i, item) {
            KD_TRY(put_gap(s, i == 0, false, indent, depth + 1, err));
            KD_TRY(put(s, item, indent, depth + 1, err));
        }
    }
    KD_TRY(put_gap(s, false, true, indent, depth, err));
    return kd_str_add(s, object ? "}" : "]", 1, err);
}

char *kd_json_python(const json_t *v, int indent)
{
    kd_str s = {0};
    kd_err err = {0};
    if (!put(&s, v, indent, 0, &err))
        return s.p;
    free(s.p);
    return NULL;
}
