// Page: formats/stats.md
#include "formats/stats.h"
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// of_images: the key in a stream of images
static const struct { const char *key, *of_images, *what; size_t at; } makers[KD_MADE_FIELDS] = {
    { "extractor", NULL, "features", offsetof(kd_made, extractor) },
    { "extractor_hash", NULL, "a feature network with the hash", offsetof(kd_made, extractor_hash) },
    { "resizer", NULL, "images brought to the network's size by", offsetof(kd_made, resizer) },
    { "images_resizer", "resizer", "images prepared by the resizer", offsetof(kd_made, images_resizer) },
    { "images_crop", "crop", "images with the crop", offsetof(kd_made, images_crop) },
    { "images_background", "background", "images on the background", offsetof(kd_made, images_background) },
    { "images_quantize", "quantize", "images brought to 8 bits by", offsetof(kd_made, images_quantize) } };

static const char **field(const kd_made *made, size_t i) { return (const char **)((char *)(uintptr_t)made + makers[i].at); }

const char **kd_made_field(kd_made *made, int i) { return field(made, (size_t)i); }

kd_made kd_made_of_images(const kd_frame *meta)
{
    kd_made made = {0};
    for (int i = KD_MADE_IMAGES; i < KD_MADE_FIELDS; i++) *kd_made_field(&made, i) = kd_frame_meta(meta, makers[i].of_images);
    return made;
}

int kd_made_alike(const kd_made *a, const char *a_name, const kd_made *b, const char *b_name, kd_err *err)
{
    char all[500];
    size_t n = 0;
    for (size_t i = 0; i < sizeof makers / sizeof *makers && n < sizeof all; i++) {
        const char *x = *field(a, i), *y = *field(b, i);
        if (!x || !y || !strcmp(x, y)) continue;
        if (n && field(a, i) == &a->extractor_hash) continue;          // another network, of course with other weights
        if (!n) n = (size_t)snprintf(all, sizeof all, "%.100s has %s %.60s, %.100s has %.60s", a_name, makers[i].what, x, b_name, y);
        else n += (size_t)snprintf(all + n, sizeof all - n, "; %s %.60s, %.60s", makers[i].what, x, y);
    }
    return n ? kd_fail(err, KD_EUSAGE, "%s: not comparable", all) : 0;
}

void kd_made_read(kd_made *made, const kd_frame *f)
{
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) *field(made, i) = kd_frame_meta(f, makers[i].key);
}

int kd_made_put(kd_frame *f, const kd_made *made, kd_err *err)
{
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (*field(made, i)) KD_TRY(kd_frame_set_meta(f, makers[i].key, *field(made, i), err));
    return 0;
}

int kd_stats_tensor(double **to, const kd_frame *f, const char *file, const char *name, kd_shape shape, bool optional, kd_err *err)
{
    char want[128], got[128];
    const kd_tensor *t = kd_frame_get(f, name);
    *to = NULL;
    if (!t) return optional ? 0 : kd_fail(err, KD_EFORMAT, "%s: no tensor %s", file, name);
    if (t->dtype != KD_F64 || !kd_shape_same(&t->shape, &shape))
        return kd_fail(err, KD_EFORMAT, "%s: tensor %s: expected F64 %s, got %s %s", file, name,
                       kd_shape_str(want, sizeof want, &shape), kd_dtype_name(t->dtype), kd_shape_str(got, sizeof got, &t->shape));
    *to = t->data;
    for (int64_t i = 0; i < kd_tensor_count(t); i++)
        if (!isfinite((*to)[i])) return kd_fail(err, KD_EFORMAT, "%s: tensor %s: not all finite numbers", file, name);
    return 0;
}

static int64_t length(const kd_frame *f, const char *name)
{
    const kd_tensor *t = kd_frame_get(f, name);
    return t && t->shape.n == 1 ? t->shape.d[0] : 0;
}

int kd_stats_spatial(int64_t *e, double **mu, double **cov, const kd_frame *f, const char *file, kd_err *err)
{
    *e = length(f, "mu_s");
    KD_TRY(kd_stats_tensor(mu, f, file, "mu_s", KD_SHAPE(*e), true, err));
    KD_TRY(kd_stats_tensor(cov, f, file, "cov_s", KD_SHAPE(*e, *e), true, err));
    return !*mu == !*cov ? 0 : kd_fail(err, KD_EFORMAT, "%s: of mu_s and cov_s one is missing", file);
}

int kd_stats_read(kd_stats *s, const kd_frame *f, const char *file, kd_err *err)
{
    const char *n = kd_frame_meta(f, "n");
    char *end = NULL;
    *s = (kd_stats){ .d = length(f, "mu"), .n = n ? strtoll(n, &end, 10) : 0 };
    if (n && (end == n || *end || s->n < 2)) return kd_fail(err, KD_EFORMAT, "%s: metadata n: expected a number of at least 2", file);
    if (s->d < 1) return kd_fail(err, KD_EFORMAT, "%s: no tensor mu of one axis", file);
    KD_TRY(kd_stats_tensor(&s->mu, f, file, "mu", KD_SHAPE(s->d), false, err));
    KD_TRY(kd_stats_tensor(&s->cov, f, file, "cov", KD_SHAPE(s->d, s->d), false, err));
    KD_TRY(kd_stats_spatial(&s->e, &s->mu_s, &s->cov_s, f, file, err));
    kd_made_read(&s->made, f);
    return 0;
}

int kd_stats_frame(kd_frame **out, const kd_stats *s, kd_err *err)
{
    char n[32];
    kd_frame *f = kd_frame_new();
    if (!f) return kd_fail_memory(err, "statistics");
    snprintf(n, sizeof n, "%" PRId64, s->n);
    int code = kd_frame_set_meta(f, "kd", "stats/1", err);
    if (!code && s->n) code = kd_frame_set_meta(f, "n", n, err);
    if (!code) code = kd_made_put(f, &s->made, err);
    if (!code) code = kd_frame_add(f, "mu", KD_F64, KD_SHAPE(s->d), s->mu, NULL, err);
    if (!code) code = kd_frame_add(f, "cov", KD_F64, KD_SHAPE(s->d, s->d), s->cov, NULL, err);
    if (!code && s->e) code = kd_frame_add(f, "mu_s", KD_F64, KD_SHAPE(s->e), s->mu_s, NULL, err);
    if (!code && s->e) code = kd_frame_add(f, "cov_s", KD_F64, KD_SHAPE(s->e, s->e), s->cov_s, NULL, err);
    if (code) kd_frame_free(f);
    else *out = f;
    return code;
}
