#include "metric/open.h"
#include "base/memory.h"
#include "formats/edm2.h"
#include "formats/npz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void kd_set_source_close(kd_set_source *source)
{
    kd_extractor_close(source->extractor);
    source->extractor = NULL;
    if (!source->open) return;
    kd_backend_close(source->options.be);
    source->options.be = NULL;
}

static int open_extractor(kd_set_source *source, kd_err *err)
{
    if (source->extractor) return 0;
    if (!source->options.be) KD_TRY(source->open(&source->options.be, source->device, err));
    return kd_extractor_open(&source->extractor, &source->options, err);
}

static int compare(const kd_set_source *source, const char *name, const kd_made *images, kd_err *err)
{
    const kd_made made = kd_extractor_made(source->extractor, images);
    return source->against ? kd_made_alike(&source->against->made, source->against->name, &made, name, err) : 0;
}

static int begin(kd_set_source *source, const char *name, const kd_made *images, kd_err *err)
{
    KD_TRY(open_extractor(source, err));
    KD_TRY(compare(source, name, images, err));
    return kd_extract_begin(source->extractor, err);
}

static int add(kd_set_source *source, const kd_pictures *p, kd_err *err)
{
    if (kd_interrupted()) return kd_fail_interrupted(err);
    KD_TRY(kd_extract_add(source->extractor, p, err));
    if (source->progress) source->progress(kd_extract_count(source->extractor));
    return 0;
}

/// How the images of a stream so far were made, records whose metadata go with their frames taken together; owns its texts.
struct origin { kd_made made; kd_str text[KD_MADE_FIELDS]; };

static void origin_free(struct origin *o)
{
    for (int i = 0; i < KD_MADE_FIELDS; i++) free(o->text[i].p);
}

// Whether "a+b" has b.
static bool has_part(const char *list, const char *part)
{
    const size_t n = strlen(part);
    for (const char *at = list; at; at = strchr(at, '+'), at += at != NULL)
        if (!strncmp(at, part, n) && (!at[n] || at[n] == '+')) return true;
    return false;
}

// Adds what a record says of itself. Two records that say different things are not one set, unless that is wanted: then "a+b".
static int origin_add(struct origin *o, const kd_frame *meta, const char *name, bool mixed, bool *more, kd_err *err)
{
    kd_made made = kd_made_of_images(meta);
    *more = false;
    if (!mixed) KD_TRY(kd_made_alike(&o->made, name, &made, "another record of it", err));
    for (int i = KD_MADE_IMAGES; i < KD_MADE_FIELDS; i++) {
        const char *text = *kd_made_field(&made, i);
        kd_str *s = &o->text[i];
        if (!text || (s->n && has_part(s->p, text))) continue;
        KD_TRY(kd_str_printf(s, err, "%s%s", s->n ? "+" : "", text));
        *kd_made_field(&o->made, i) = s->p;
        *more = true;
    }
    return 0;
}

// All records to the end of the stream.
static int take_images(kd_set **s, kd_images_reader *r, struct origin *o, const char *name, kd_set_source *source, kd_err *err)
{
    const kd_images_info *info = kd_images_info_of(r);
    bool more;
    KD_TRY(origin_add(o, info->meta, name, source->mixed, &more, err));
    KD_TRY(begin(source, name, &o->made, err));
    for (kd_images run;;) {
        KD_TRY(kd_images_next(r, &run, err));
        if (!run.n) break;
        KD_TRY(origin_add(o, kd_images_meta(r), name, source->mixed, &more, err));
        if (more) KD_TRY(compare(source, name, &o->made, err));
        const kd_pictures p = { info->dtype, run.n, info->h, info->w, info->c, run.image, run.index };
        KD_TRY(add(source, &p, err));
    }
    return kd_extract_end(s, source->extractor, name, &o->made, err);
}

static int from_images(kd_set **s, kd_images_reader *r, const char *name, kd_set_source *source, kd_err *err)
{
    struct origin o = {0};
    const int code = take_images(s, r, &o, name, source, err);
    origin_free(&o);
    return code;
}

// Takes in.
static int from_frames(kd_set **s, kd_in *in, kd_set_source *source, kd_err *err)
{
    kd_frame_in *f = NULL;
    kd_images_reader *r = NULL;
    char name[256];
    const void *more;
    snprintf(name, sizeof name, "%s", kd_in_name(in));
    int code = kd_frame_in_open(&f, in, err);
    if (!code && !f) code = kd_fail(err, KD_EFORMAT, "%s: empty", name);
    if (code) goto done;
    const kd_frame *frame = kd_frame_in_frame(f);
    const char *kind = kd_frame_kind(frame);
    if (kind ? !strncmp(kind, "images/", 7) : kd_frame_get(frame, "image") != NULL) {
        code = kd_images_continue(&r, in, f, err);
        in = NULL, f = NULL;
        if (!code) code = from_images(s, r, name, source, err);
    } else {
        if (kind && (!strcmp(kind, "stats/1") || !strcmp(kind, "features/1"))) code = kd_frame_in_all(f, NULL, NULL, err);
        if (!code) code = kd_set_of_frame(s, kd_frame_in_take(f), name, err);
        f = NULL;
        if (!code && kd_in_peek(in, &more, 1)) {
            kd_set_free(*s);
            *s = NULL;
            code = kd_fail(err, KD_EFORMAT, "%s: data after the frame", name);
        }
    }
done:
    kd_images_close(r);
    kd_frame_in_close(f);
    kd_in_close(in);
    return code;
}

// Numpy's archives ----------------------------------------------------------------------------------------------------

// mu [d] and sigma [d,d] in double; g->mu NULL without mu.
static int take_moments(kd_gauss *g, const kd_frame *f, const char *mu, const char *sigma, const char *name, kd_err *err)
{
    const kd_tensor *t = kd_frame_get(f, mu);
    double *m, *c;
    *g = (kd_gauss){0};
    if (!t) return 0;
    const int64_t d = t->shape.n == 1 ? t->shape.d[0] : 0;
    if (d < 1) return kd_fail(err, KD_EFORMAT, "%s: %s is not a vector", name, mu);
    KD_TRY(kd_stats_tensor(&m, f, name, mu, KD_SHAPE(d), false, err));
    KD_TRY(kd_stats_tensor(&c, f, name, sigma, KD_SHAPE(d, d), false, err));
    *g = (kd_gauss){ 0, d, m, c };
    return 0;
}

static int from_array(kd_set **s, const kd_tensor *t, const char *name, kd_set_source *source, kd_err *err)
{
    const int64_t *d = t->shape.d;
    char shape[128];
    if (t->dtype != KD_U8 || t->shape.n != 4 || d[1] < 1 || d[2] < 1)
        return kd_fail(err, KD_EUSAGE, "%s: arr_0: expected images U8 [n,h,w,c], got %s %s", name, kd_dtype_name(t->dtype),
                       kd_shape_str(shape, sizeof shape, &t->shape));
    KD_TRY(begin(source, name, NULL, err));
    const int64_t size = d[1] * d[2] * d[3];
    for (int64_t i = 0; i < d[0]; i += 64) {
        const kd_pictures p = { KD_U8, d[0] - i < 64 ? d[0] - i : 64, d[1], d[2], d[3], (const uint8_t *)t->data + i * size, NULL };
        KD_TRY(add(source, &p, err));
    }
    return kd_extract_end(s, source->extractor, name, NULL, err);
}

static int from_npz(kd_set **s, kd_in *in, kd_set_source *source, kd_err *err)
{
    kd_npz *z = NULL;
    kd_gauss pool, spatial;
    const char *name = kd_in_name(in);
    int code = kd_npz_read(&z, in, err);
    if (!code) code = take_moments(&pool, z->arrays, "mu", "sigma", name, err);
    if (!code) code = take_moments(&spatial, z->arrays, "mu_s", "sigma_s", name, err);
    if (!code) {
        const kd_tensor *images = kd_frame_get(z->arrays, "arr_0");
        if (pool.mu) code = kd_set_of_moments(s, &pool, &spatial, name, err);
        else if (images) code = from_array(s, images, name, source, err);
        else code = kd_fail(err, KD_EUSAGE, "%s: no arrays mu and sigma, nor arr_0: not a reference", name);
    }
    kd_npz_free(z);
    kd_in_close(in);
    return code;
}

// EDM2's pickles --------------------------------------------------------------------------------------------------------

// The metric whose statistics are meant: the one named, else fid, else the only one there is.
static int choose(kd_str *metric, const kd_frame *f, const char *named, const char *name, kd_err *err)
{
    kd_str all = {0};
    int metrics = 0, code = 0;
    const char *one = "fid";
    for (int i = 0; !code && i < f->n; i++) {
        const size_t n = strlen(f->t[i].name);
        if (n < 3 || strcmp(f->t[i].name + n - 3, ".mu")) continue;
        code = kd_str_printf(&all, err, "%s%.*s", metrics++ ? ", " : "", (int)n - 3, f->t[i].name);
    }
    if (!code && !named && metrics == 1) one = all.p;
    if (named) one = named;
    if (!code) code = kd_str_printf(metric, err, "%s", one);
    kd_str mu = {0};
    if (!code) code = kd_str_printf(&mu, err, "%s.mu", one);
    if (!code && !kd_frame_get(f, mu.p))
        code = kd_fail(err, KD_EUSAGE, "%s: no statistics of %.60s: it has %.200s", name, one, metrics ? all.p : "none");
    free(mu.p), free(all.p);
    return code;
}

static int from_metric(kd_set **s, const kd_edm2 *e, const char *metric, const char *name, kd_err *err)
{
    kd_str mu = {0}, sigma = {0};
    kd_gauss pool;
    int code = kd_str_printf(&mu, err, "%s.mu", metric);
    if (!code) code = kd_str_printf(&sigma, err, "%s.sigma", metric);
    if (!code) code = take_moments(&pool, e->arrays, mu.p, sigma.p, name, err);
    pool.n = e->n;
    if (!code) code = kd_set_of_moments(s, &pool, NULL, name, err);
    free(mu.p), free(sigma.p);
    return code;
}

static int from_edm2(kd_set **s, kd_in *in, const char *named, const char *name, kd_err *err)
{
    kd_edm2 *e = NULL;
    kd_str metric = {0};
    int code = kd_edm2_read(&e, in, err);
    if (!code) code = choose(&metric, e->arrays, named, kd_in_name(in), err);
    if (!code) code = from_metric(s, e, metric.p, name, err);
    free(metric.p);
    kd_edm2_free(e);
    kd_in_close(in);
    return code;
}

// FILE:NAME: a matrix in a safetensors file, or a metric's statistics in a pickle. A pipe is not looked into: what was read would be
// gone.
static int from_named(kd_set **s, const char *path, kd_err *err)
{
    kd_in *in = NULL;
    const void *bytes;
    struct stat st;
    const char *colon = strrchr(path, ':');
    char *file = kd_strdup(path);
    if (!file) return kd_fail_memory(err, path);
    file[colon - path] = 0;
    const bool regular = colon[1] && !stat(file, &st) && S_ISREG(st.st_mode);
    const int code = regular ? kd_in_open(&in, file, err) : 0;
    free(file);
    KD_TRY(code);
    const size_t n = in ? kd_in_peek(in, &bytes, 64) : 0;
    if (n && kd_edm2_knows(bytes, n)) return from_edm2(s, in, colon + 1, path, err);
    kd_in_close(in);
    return kd_set_of_matrix(s, path, err);
}

int kd_set_open(kd_set **s, const char *path, kd_set_source *source, kd_err *err)
{
    kd_in *in = NULL;
    const void *bytes;
    if (strchr(path, ':') && access(path, F_OK)) return from_named(s, path, err);
    KD_TRY(kd_in_open(&in, path, err));
    const size_t n = kd_in_peek(in, &bytes, 64);
    if (kd_npz_knows(bytes, n)) return from_npz(s, in, source, err);
    if (kd_edm2_knows(bytes, n)) return from_edm2(s, in, NULL, kd_in_name(in), err);
    return from_frames(s, in, source, err);
}
