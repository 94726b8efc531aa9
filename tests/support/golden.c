#include "tests/support/golden.h"
#include "formats/safetensors.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char *what, const char *name)
{
    fprintf(stderr, "golden: %s: %s\n", name, what);
    exit(1);
}

kd_frame *golden_load(const char *name)
{
    char path[512];
    kd_err err = { 0 };
    kd_frame *f = NULL;
    snprintf(path, sizeof path, "tests/golden/%s.safetensors", name);
    if (kd_safetensors_load(path, &f, &err)) stop(err.msg, name);
    return f;
}

static void *convert(const kd_frame *f, const char *name, kd_dtype to, int64_t *n)
{
    const kd_tensor *t = kd_frame_get(f, name);
    if (!t) stop("no such tensor", name);
    void *values = malloc((size_t)(kd_tensor_count(t) + 1) * kd_dtype_size(to));
    if (!values) stop("out of memory", name);
    kd_convert(values, to, t->data, t->dtype, kd_tensor_count(t));
    if (n) *n = kd_tensor_count(t);
    return values;
}

double *golden_f64(const kd_frame *f, const char *name, int64_t *n) { return convert(f, name, KD_F64, n); }
float *golden_f32(const kd_frame *f, const char *name, int64_t *n) { return convert(f, name, KD_F32, n); }

json_t *golden_json(const kd_frame *f, const char *key)
{
    const char *text = kd_frame_meta(f, key);
    json_t *root = text ? json_loads(text, 0, NULL) : NULL;
    if (!root) stop("no such metadata, or not JSON", key);
    return root;
}

double golden_tolerance(const char *group, const char *key)
{
    static json_t *root;
    if (!root) root = json_load_file("tests/golden/tolerances.json", 0, NULL);
    const json_t *value = json_object_get(json_object_get(root, group), key);
    if (!json_is_number(value)) stop("no such tolerance", key);
    return json_number_value(value);
}

double golden_error(const float *a, const double *b, int64_t n)
{
    double worst = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(a[i])) return NAN;
        worst = fmax(worst, fabs(a[i] - b[i]));
        most = fmax(most, fabs(b[i]));
    }
    return most > 0 ? worst / most : worst;
}
