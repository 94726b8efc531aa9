// Page: formats/features.md
#include "formats/features.h"
#include <math.h>

int kd_features_read(kd_features *x, const kd_frame *f, const char *file, kd_err *err)
{
    const kd_tensor *t = kd_frame_get(f, "feature"), *index = kd_frame_get(f, "index");
    char got[128];
    *x = (kd_features){0};
    if (!t) return kd_fail(err, KD_EFORMAT, "%s: no tensor feature", file);
    if (t->dtype != KD_F32 || t->shape.n != 2 || t->shape.d[1] < 1)
        return kd_fail(err, KD_EFORMAT, "%s: tensor feature: expected F32 [n,d], got %s %s", file, kd_dtype_name(t->dtype),
                       kd_shape_str(got, sizeof got, &t->shape));
    x->n = t->shape.d[0], x->d = t->shape.d[1], x->feature = t->data;
    for (int64_t i = 0; i < x->n * x->d; i++)
        if (!isfinite(x->feature[i])) return kd_fail(err, KD_EFORMAT, "%s: tensor feature: not all finite numbers", file);
    if (index) {
        if (index->dtype != KD_I64 || index->shape.n != 1 || index->shape.d[0] != x->n)
            return kd_fail(err, KD_EFORMAT, "%s: tensor index: expected I64 [%lld], got %s %s", file, (long long)x->n,
                           kd_dtype_name(index->dtype), kd_shape_str(got, sizeof got, &index->shape));
        x->index = index->data;
    }
    KD_TRY(kd_stats_spatial(&x->e, &x->mu_s, &x->cov_s, f, file, err));
    kd_made_read(&x->made, f);
    return 0;
}

int kd_features_frame(kd_frame **out, const kd_features *x, kd_err *err)
{
    kd_frame *f = kd_frame_new();
    if (!f) return kd_fail_memory(err, "features");
    int code = kd_frame_set_meta(f, "kd", "features/1", err);
    if (!code) code = kd_made_put(f, &x->made, err);
    if (!code) code = kd_frame_add(f, "feature", KD_F32, KD_SHAPE(x->n, x->d), x->feature, NULL, err);
    if (!code && x->index) code = kd_frame_add(f, "index", KD_I64, KD_SHAPE(x->n), x->index, NULL, err);
    if (!code && x->e) code = kd_frame_add(f, "mu_s", KD_F64, KD_SHAPE(x->e), x->mu_s, NULL, err);
    if (!code && x->e) code = kd_frame_add(f, "cov_s", KD_F64, KD_SHAPE(x->e, x->e), x->cov_s, NULL, err);
    if (code) kd_frame_free(f);
    else *out = f;
    return code;
}
