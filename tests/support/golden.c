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

int golden_judge(const char *name, const char *what, double error, double peer, const char *which)
{
    const double allowed = fmax(1e-6, 3 * peer);
    const bool ok = error <= allowed;                     // false for NaN
    printf("# %-22s %-30s %.2g of %.2g allowed %s%s\n", name, what, error, allowed, which, ok ? "" : "  TOO LARGE");
    return !ok;
}

static const kd_tensor *same_shape(const kd_frame *got, const kd_tensor *want)
{
    const kd_tensor *t = kd_frame_get(got, want->name);
    if (!t || t->dtype != KD_F32 || !kd_shape_same(&t->shape, &want->shape)) stop("not computed, or in another shape", want->name);
    return t;
}

int golden_compare(const kd_frame *got, const kd_frame *want, const char *name, const char *what, const char *tolerance)
{
    int64_t n;
    double *values = golden_f64(want, what, &n);
    const kd_tensor *t = same_shape(got, kd_frame_get(want, what));
    const int bad = golden_judge(name, what, golden_error(t->data, values, n), golden_tolerance(name, tolerance), "");
    free(values);
    return bad;
}

int golden_compare_gradients(const kd_frame *got, const char *name, int *count)
{
    char path[64];
    snprintf(path, sizeof path, "%s.grads", name);
    kd_frame *grads = golden_load(path);
    double largest = 0, worst = 0, square = 0, norm = 0;
    const char *worst_name = "";
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < grads->n; i++) {
            int64_t n;
            double most = 0, error = 0, *want = golden_f64(grads, grads->t[i].name, &n);
            const float *have = same_shape(got, &grads->t[i])->data;
            for (int64_t k = 0; k < n; k++) {
                const double e = have[k] - want[k];
                most = fmax(most, fabs(want[k]));
                error = isnan(e) ? INFINITY : fmax(error, fabs(e));
                if (pass) square += e * e, norm += want[k] * want[k];
            }
            free(want);
            if (!pass) largest = fmax(largest, most);
            else if (error / fmax(most, largest / 1000) > worst)
                worst = error / fmax(most, largest / 1000), worst_name = grads->t[i].name;
        }
    int bad = golden_judge(name, "grad worst", worst, golden_tolerance(name, "grad_worst"), worst_name);
    bad += golden_judge(name, "grad l2", sqrt(square / norm), golden_tolerance(name, "grad_l2_all"), "");
    *count = grads->n;
    kd_frame_free(grads);
    return bad;
}
