#include "base/memory.h"
#include "formats/features.h"
#include "formats/safetensors.h"
#include "metric/set_private.h"
#include <stdlib.h>
#include <string.h>

int kd_set_new(kd_set **out, const char *name, kd_err *err)
{
    kd_set *s = kd_alloc(sizeof *s);
    if (s) s->memory = kd_alloc(sizeof *s->memory);
    if (s) s->name = kd_strdup(name);
    if (s && s->memory && s->name) {
        *out = s;
        return 0;
    }
    kd_set_free(s);
    return kd_fail_memory(err, "a set of features");
}

void kd_set_free(kd_set *s)
{
    if (!s) return;
    struct kd_set_memory *m = s->memory;
    if (m) {
        kd_frame_free(m->frame);
        kd_spool_free(m->feature), kd_spool_free(m->logit), kd_spool_free(m->index);
        for (int i = 0; i < 4; i++) kd_free(m->moments[i]);
        for (int i = 0; i < KD_MADE_FIELDS; i++) free(m->text[i]);
        kd_free(m->narrow), kd_free(m->at);
    }
    kd_free(m);
    free(s->name);
    kd_free(s);
}

int kd_set_room(kd_set *s, int first, int64_t d, kd_err *err)
{
    double **m = s->memory->moments;
    m[first] = kd_alloc((size_t)d * sizeof(double));
    m[first + 1] = kd_alloc((size_t)d * (size_t)d * sizeof(double));
    return m[first] && m[first + 1] ? 0 : kd_fail_memory(err, "covariance");
}

int kd_set_copy_made(kd_set *s, const kd_made *made, kd_err *err)
{
    kd_made from = *made;
    for (int i = 0; i < KD_MADE_FIELDS; i++) {
        const char *text = *kd_made_field(&from, i);
        if (!text) continue;
        *kd_made_field(&s->made, i) = s->memory->text[i] = kd_strdup(text);
        if (!s->memory->text[i]) return kd_fail_memory(err, "a set of features");
    }
    return 0;
}

struct numbered { int64_t index, row; };

static int by_index(const void *x, const void *y)
{
    const struct numbered *a = x, *b = y;
    if (a->index != b->index) return a->index < b->index ? -1 : 1;
    return a->row < b->row ? -1 : 1;
}

int kd_set_order(kd_set *s, const int64_t *index, kd_err *err)
{
    const int64_t n = s->n;
    bool ordered = true;
    for (int64_t i = 1; index && i < n; i++) ordered = ordered && index[i - 1] <= index[i];
    if (!index || ordered) return 0;
    struct numbered *list = kd_alloc((size_t)n * sizeof *list);
    s->memory->at = kd_alloc((size_t)n * sizeof *s->memory->at);
    const bool all = list && s->memory->at;
    for (int64_t i = 0; all && i < n; i++) list[i] = (struct numbered){ index[i], i };
    if (all) qsort(list, (size_t)n, sizeof *list, by_index);
    for (int64_t i = 0; all && i < n; i++) s->memory->at[i] = list[i].row;
    kd_free(list);
    s->feature.at = s->logit.at = s->memory->at;
    return all ? 0 : kd_fail_memory(err, "a set of features");
}

// One image has no covariance.
static int enough(const kd_set *s, kd_err *err)
{
    if (s->n >= 2) return 0;
    return kd_fail(err, KD_EUSAGE, "%s: %lld image%s: at least 2 are needed", s->name, (long long)s->n, s->n == 1 ? "" : "s");
}

static int from_stats(kd_set *s, kd_err *err)
{
    kd_stats t;
    KD_TRY(kd_stats_read(&t, s->memory->frame, s->name, err));
    s->n = t.n;
    s->pool = (kd_gauss){ t.n, t.d, t.mu, t.cov };
    s->spatial = (kd_gauss){ t.n, t.e, t.mu_s, t.cov_s };
    s->made = t.made;
    return 0;
}

static int measure(kd_set *s, kd_err *err)
{
    KD_TRY(enough(s, err));
    KD_TRY(kd_set_room(s, 0, s->feature.d, err));
    KD_TRY(kd_moments_of(&s->feature, s->memory->moments[0], s->memory->moments[1], err));
    s->pool = (kd_gauss){ s->n, s->feature.d, s->memory->moments[0], s->memory->moments[1] };
    return 0;
}

static int from_features(kd_set *s, kd_err *err)
{
    kd_features x;
    KD_TRY(kd_features_read(&x, s->memory->frame, s->name, err));
    s->n = x.n;
    s->feature = (kd_matrix){ x.feature, x.n, x.d, NULL };
    s->spatial = (kd_gauss){ x.n, x.e, x.mu_s, x.cov_s };
    s->index = x.index;
    s->made = x.made;
    KD_TRY(measure(s, err));
    return kd_set_order(s, x.index, err);
}

int kd_set_of_frame(kd_set **out, kd_frame *frame, const char *name, kd_err *err)
{
    kd_set *s = NULL;
    if (kd_set_new(&s, name, err)) {
        kd_frame_free(frame);
        return err->code;
    }
    s->memory->frame = frame;
    const char *kind = kd_frame_kind(frame);
    int code;
    if (kind && !strcmp(kind, "stats/1")) code = from_stats(s, err);
    else if (kind && !strcmp(kind, "features/1")) code = from_features(s, err);
    else if (kind) code = kd_fail(err, KD_EUSAGE, "%s: is %.40s: expected images/1, features/1 or stats/1", name, kind);
    else code = kd_fail(err, KD_EUSAGE, "%s: another program's file, without a tensor image: name a matrix in it as %s:NAME", name, name);
    if (code) kd_set_free(s);
    else *out = s;
    return code;
}

static int from_matrix(kd_set *s, const kd_tensor *t, kd_err *err)
{
    char shape[128];
    if (t->shape.n != 2 || t->dtype > KD_BF16 || t->shape.d[1] < 1)
        return kd_fail(err, KD_EUSAGE, "%s: expected features of a floating type [n,d], got %s %s", s->name, kd_dtype_name(t->dtype),
                       kd_shape_str(shape, sizeof shape, &t->shape));
    const int64_t n = s->n = t->shape.d[0], d = t->shape.d[1];
    s->feature = (kd_matrix){ t->data, n, d, NULL };
    KD_TRY(enough(s, err));
    if (t->dtype != KD_F32) {
        s->memory->narrow = kd_alloc((size_t)(n * d) * sizeof(float));
        if (!s->memory->narrow) return kd_fail_memory(err, "features");
        kd_convert(s->memory->narrow, KD_F32, t->data, t->dtype, n * d);
        s->feature.x = s->memory->narrow;
    }
    if (t->dtype != KD_F64) return measure(s, err);
    kd_moments *m = NULL;                                  // doubles keep their digits in the moments
    KD_TRY(kd_set_room(s, 0, d, err));
    int code = kd_moments_new(&m, d, err);
    if (!code) code = kd_moments_add_f64(m, t->data, n, err);
    if (!code) code = kd_moments_get(m, s->memory->moments[0], s->memory->moments[1], err);
    kd_moments_free(m);
    s->pool = (kd_gauss){ n, d, s->memory->moments[0], s->memory->moments[1] };
    return code;
}

int kd_set_of_matrix(kd_set **out, const char *file_name, kd_err *err)
{
    kd_set *s = NULL;
    const kd_tensor *t;
    KD_TRY(kd_set_new(&s, file_name, err));
    int code = kd_safetensors_pick(file_name, &s->memory->frame, &t, err);
    if (!code) code = from_matrix(s, t, err);
    if (code) kd_set_free(s);
    else *out = s;
    return code;
}

int kd_set_of_moments(kd_set **out, const kd_gauss *pool, const kd_gauss *spatial, const char *name, kd_err *err)
{
    kd_set *s = NULL;
    KD_TRY(kd_set_new(&s, name, err));
    const kd_gauss *from[2] = { pool, spatial };
    kd_gauss *to[2] = { &s->pool, &s->spatial };
    s->n = pool->n;
    for (int i = 0; i < 2; i++) {
        if (!from[i] || !from[i]->mu) continue;
        const size_t d = (size_t)from[i]->d;
        if (kd_set_room(s, 2 * i, from[i]->d, err)) {
            kd_set_free(s);
            return err->code;
        }
        memcpy(s->memory->moments[2 * i], from[i]->mu, d * sizeof(double));
        memcpy(s->memory->moments[2 * i + 1], from[i]->cov, d * d * sizeof(double));
        *to[i] = (kd_gauss){ from[i]->n, from[i]->d, s->memory->moments[2 * i], s->memory->moments[2 * i + 1] };
    }
    *out = s;
    return 0;
}

// Formats take plain pointers; nothing is written through these.
#define PLAIN(p) ((void *)(uintptr_t)(p))

int kd_set_write(kd_out *out, const kd_set *s, bool features, const char *history, kd_err *err)
{
    kd_frame *f = NULL;
    float *rows = NULL;
    int64_t *index = NULL;
    int code;
    if (features) {
        // In the order of the index, so that the order of arrival leaves no trace.
        const int64_t n = s->n, d = s->feature.d;
        rows = kd_alloc((size_t)(n * d) * sizeof *rows);
        index = s->index ? kd_alloc((size_t)n * sizeof *index) : NULL;
        code = rows && (index || !s->index) ? 0 : kd_fail_memory(err, "features");
        for (int64_t i = 0; !code && i < n; i++) {
            memcpy(rows + i * d, kd_row(&s->feature, i), (size_t)d * sizeof *rows);
            if (index) index[i] = s->index[s->feature.at ? s->feature.at[i] : i];
        }
        const kd_features x = { n, d, s->spatial.mu ? s->spatial.d : 0, rows, index, PLAIN(s->spatial.mu), PLAIN(s->spatial.cov), s->made };
        if (!code) code = kd_features_frame(&f, &x, err);
    } else {
        const kd_stats t = { s->n, s->pool.d, s->spatial.mu ? s->spatial.d : 0, PLAIN(s->pool.mu), PLAIN(s->pool.cov),
                             PLAIN(s->spatial.mu), PLAIN(s->spatial.cov), s->made };
        code = kd_stats_frame(&f, &t, err);
    }
    if (!code) code = kd_frame_add_history(f, history, err);
    if (!code) code = kd_safetensors_write(out, f, err);
    kd_frame_free(f);
    kd_free(rows), kd_free(index);
    return code;
}
