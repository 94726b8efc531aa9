// What a file or stream is and holds, as one JSON document.
#include "formats/info.h"
#include "base/json.h"
#include "base/memory.h"
#include "formats/images.h"
#include "formats/torch.h"
#include "formats/unetcu.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Adds a value; NULL (jansson found no memory) is an error.
static int put(json_t *object, const char *key, json_t *value, kd_err *err)
{
    return json_object_set_new(object, key, value) ? kd_fail_memory(err, key) : 0;
}

static int append(json_t *array, json_t *value, kd_err *err)
{
    return json_array_append_new(array, value) ? kd_fail_memory(err, "a list") : 0;
}

static json_t *real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

typedef struct stats { int64_t n, not_finite; double least, most, sum; } stats;

static void add_stats(stats *s, const void *data, kd_dtype dtype, int64_t n)
{
    for (int64_t i = 0; i < n; i += 256) {
        double x[256];
        const int64_t k = n - i < 256 ? n - i : 256;
        kd_convert(x, KD_F64, (const char *)data + (size_t)i * kd_dtype_size(dtype), dtype, k);
        for (int64_t j = 0; j < k; j++) {
            if (!isfinite(x[j])) {
                s->not_finite++;
                continue;
            }
            s->least = s->n == 0 || x[j] < s->least ? x[j] : s->least;
            s->most = s->n == 0 || x[j] > s->most ? x[j] : s->most;
            s->sum += x[j];
            s->n++;
        }
    }
}

static int put_stats(json_t *object, const stats *s, kd_err *err)
{
    const bool any = s->n > 0;
    KD_TRY(put(object, "min", any ? real(s->least) : json_null(), err));
    KD_TRY(put(object, "max", any ? real(s->most) : json_null(), err));
    KD_TRY(put(object, "mean", any ? real(s->sum / (double)s->n) : json_null(), err));
    return s->not_finite ? put(object, "not_finite", json_integer(s->not_finite), err) : 0;
}

static int describe_tensor(json_t *o, const kd_tensor *t, bool with_stats, kd_err *err)
{
    json_t *shape = json_array();
    KD_TRY(put(o, "name", json_string(t->name), err) || put(o, "dtype", json_string(kd_dtype_name(t->dtype)), err) ||
           put(o, "shape", shape, err));
    for (int i = 0; i < t->shape.n; i++)
        KD_TRY(append(shape, json_integer(t->shape.d[i]), err));
    stats s = {0};
    if (!with_stats)
        return 0;
    add_stats(&s, t->data, t->dtype, kd_tensor_count(t));
    return put_stats(o, &s, err);
}

int kd_info_tensors(json_t *doc, const kd_frame *f, bool with_stats, kd_err *err)
{
    json_t *list = json_array();
    int64_t count = 0, bytes = 0;
    for (int i = 0; i < f->n; i++) {
        count += kd_tensor_count(&f->t[i]);
        bytes += (int64_t)kd_tensor_bytes(&f->t[i]);
    }
    KD_TRY(put(doc, "elements", json_integer(count), err) || put(doc, "bytes", json_integer(bytes), err) ||
           put(doc, "tensors", list, err));
    for (int i = 0; i < f->n; i++) {
        json_t *o = json_object();
        KD_TRY(append(list, o, err));
        KD_TRY(describe_tensor(o, &f->t[i], with_stats, err));
    }
    return 0;
}

// Metadata as they are, but the history as a list of lines, and the checksum (which reading has verified) as a word.
static int describe_meta(json_t *doc, const kd_frame *f, kd_err *err)
{
    json_t *meta = json_object(), *history = json_array();
    KD_TRY(put(doc, "checksum", json_string(kd_frame_meta(f, "kd_xxh3") ? "good" : "none"), err) ||
           put(doc, "metadata", meta, err) || put(doc, "history", history, err));
    for (int i = 0; i < f->n_meta; i++) {
        static const char *const elsewhere[] = { "kd", "kd_xxh3", "kd_history", "kd_part", "kd_last" };
        bool skip = false;
        for (int k = 0; k < 5; k++)
            skip |= !strcmp(f->key[i], elsewhere[k]);
        if (!skip)
            KD_TRY(put(meta, f->key[i], json_string(f->value[i]), err));
    }
    for (const char *line = kd_frame_meta(f, "kd_history"); line && *line;) {
        const size_t n = strcspn(line, "\n");
        KD_TRY(append(history, json_stringn(line, n), err));
        line += n + (line[n] == '\n');
    }
    return 0;
}

typedef struct label_count { int64_t label, n; } label_count;
typedef struct label_counts { label_count *p; size_t n, room; } label_counts;     // by label, ascending

static int count_label(label_counts *c, int64_t label, kd_err *err)
{
    size_t lo = 0, hi = c->n;
    while (lo < hi) {
        const size_t middle = (lo + hi) / 2;
        if (c->p[middle].label < label)
            lo = middle + 1;
        else
            hi = middle;
    }
    if (lo < c->n && c->p[lo].label == label) {
        c->p[lo].n++;
        return 0;
    }
    if (c->n == c->room) {
        const size_t room = c->room ? 2 * c->room : 64;
        label_count *p = kd_realloc(c->p, room * sizeof *p);
        if (!p)
            return kd_fail_memory(err, "labels");
        c->p = p;
        c->room = room;
    }
    memmove(c->p + lo + 1, c->p + lo, (c->n - lo) * sizeof *c->p);
    c->p[lo] = (label_count){ label, 1 };
    c->n++;
    return 0;
}

static int put_labels(json_t *images, const label_counts *c, kd_err *err)
{
    json_t *labels = json_object();
    KD_TRY(put(images, "labels", labels, err));
    for (size_t i = 0; i < c->n; i++) {
        char key[24];
        snprintf(key, sizeof key, "%" PRId64, c->p[i].label);
        KD_TRY(put(labels, key, json_integer(c->p[i].n), err));
    }
    return 0;
}

// Reads the whole stream: its end mark is part of what it is.
static int describe_images(json_t *doc, kd_images_reader *r, bool with_stats, kd_err *err)
{
    const kd_images_info *info = kd_images_info_of(r);
    json_t *o = json_object();
    int64_t n = 0;
    stats s = {0};
    label_counts labels = {0};
    kd_images run;
    kd_images_take_any(r);                   // the statistics count them
    if (put(doc, "images", o, err))
        return err->code;
    do {
        if (kd_images_next(r, &run, err))
            goto done;
        n += run.n;
        for (int64_t i = 0; run.label && i < run.n; i++)
            if (count_label(&labels, run.label[i], err))
                goto done;
        if (with_stats)
            add_stats(&s, run.image, info->dtype, run.n * info->h * info->w * info->c);
    } while (run.n);
    if (put(o, "n", json_integer(n), err) || put(o, "h", json_integer(info->h), err) || put(o, "w", json_integer(info->w), err) ||
        put(o, "c", json_integer(info->c), err) || put(o, "dtype", json_string(kd_dtype_name(info->dtype)), err) ||
        put_labels(o, &labels, err))
        goto done;
    if (with_stats)
        put_stats(o, &s, err);
done:
    free(labels.p);
    return err->code;
}

// Files --------------------------------------------------------------------------------------------------------

static bool looks_like_images(const kd_frame *f)
{
    const kd_tensor *t = kd_frame_get(f, "image");
    return t && t->shape.n == 4 && (t->dtype == KD_U8 || t->dtype == KD_F32);
}

// The kind our key says, else what another program's file looks like.
static int kind_of(const kd_frame *f, const char *file, const char **kind, kd_err *err)
{
    static const char *const known[] = { "images/1", "model/1", "checkpoint/1", "features/1", "stats/1", "denoised/1", "loglik/1",
                                         "encoder/1" };
    const char *says = kd_frame_kind(f);
    if (!says) {
        *kind = looks_like_images(f) ? "images" : kd_frame_meta(f, "config") ? "model" : "tensors";
        return 0;
    }
    for (int i = 0; i < (int)(sizeof known / sizeof *known); i++)
        if (!strcmp(known[i], says)) {
            *kind = says;
            return 0;
        }
    return kd_fail(err, KD_EFORMAT, "%s: unknown kind \"%.40s\": made by a newer kd?", file, says);
}

// A model or another program's file is one frame; features and the like may follow one another.
static int count_frames(json_t *doc, kd_in *in, const char *kind, kd_err *err)
{
    const bool one = !strchr(kind, '/') || !strncmp(kind, "model", 5) || !strncmp(kind, "checkpoint", 10) || !strncmp(kind, "encoder", 7);
    const void *byte;
    int64_t n = 1;
    if (one && kd_in_peek(in, &byte, 1))
        return kd_fail(err, KD_EFORMAT, "%s: more bytes after the last tensor, at %" PRIu64 ", which belong to nothing", kd_in_name(in),
                       kd_in_offset(in));
    for (;; n++) {
        kd_frame_in *f;
        KD_TRY(kd_frame_in_open(&f, in, err));
        if (!f)
            break;
        const char *other = kd_frame_kind(kd_frame_in_frame(f));
        const bool same = other && !strcmp(other, kind);
        kd_frame_in_end(f, err);
        kd_frame_in_close(f);
        if (err->code)
            return err->code;
        if (!same)
            return kd_fail(err, KD_EFORMAT, "%s: a frame that is not %s follows one that is", kd_in_name(in), kind);
    }
    return put(doc, "frames", json_integer(n), err);
}

static int describe_head(json_t *doc, const char **kind, const kd_in *in, const kd_frame *f, kd_err *err)
{
    KD_TRY(kind_of(f, kd_in_name(in), kind, err));
    KD_TRY(put(doc, "file", json_string(kd_in_name(in)), err) || put(doc, "kind", json_string(*kind), err));
    return describe_meta(doc, f, err);
}

// A file of unet.cu, which is read whole as if it were one frame.
static int describe_unetcu(json_t *doc, kd_in *in, bool with_stats, kd_err *err)
{
    kd_frame *f = NULL;
    const char *kind;
    if (!kd_unetcu_read(&f, in, err) && !describe_head(doc, &kind, in, f, err) && !kd_info_tensors(doc, f, with_stats, err))
        count_frames(doc, in, kind, err);
    kd_frame_free(f);
    kd_in_close(in);
    return err->code;
}

// Images are left in the file, run by run; other frames are read whole for --stats, else passed by and verified.
static int describe_frames(json_t *doc, kd_in *in, bool with_stats, kd_err *err)
{
    kd_frame_in *frame;
    kd_images_reader *r = NULL;
    const char *kind;
    if (!kd_frame_in_open(&frame, in, err) && !frame)
        kd_fail(err, KD_EFORMAT, "%s: empty", kd_in_name(in));
    if (err->code || describe_head(doc, &kind, in, kd_frame_in_frame(frame), err))
        goto done;
    if (!strncmp(kind, "images", 6)) {
        const int code = kd_images_continue(&r, in, frame, err);
        in = NULL, frame = NULL;
        if (!code)
            describe_images(doc, r, with_stats, err);
    } else {
        const int code = with_stats ? kd_frame_in_all(frame, NULL, NULL, err) : kd_frame_in_end(frame, err);
        if (!code && !kd_info_tensors(doc, kd_frame_in_frame(frame), with_stats, err))
            count_frames(doc, in, kind, err);
    }
done:
    kd_images_close(r);
    kd_frame_in_close(frame);
    kd_in_close(in);
    return err->code;
}

static int describe_torch(json_t *doc, kd_in *in, bool with_stats, kd_err *err)
{
    kd_torch *t;
    if (!put(doc, "file", json_string(kd_in_name(in)), err) && !kd_torch_read(&t, in, err)) {
        kd_torch_describe(doc, t, with_stats, err);
        kd_torch_free(t);
    }
    kd_in_close(in);
    return err->code;
}

int kd_info_of(json_t **doc, const char *path, bool with_stats, kd_err *err)
{
    kd_in *in;
    const void *bytes;
    *doc = NULL;
    KD_TRY(kd_in_open(&in, path, err));
    json_t *o = json_object();
    if (!o) {
        kd_in_close(in);
        return kd_fail_memory(err, path);
    }
    const size_t n = kd_in_peek(in, &bytes, 64);
    int (*const describe)(json_t *, kd_in *, bool, kd_err *) =
        kd_torch_knows(bytes, n) ? describe_torch : kd_unetcu_knows(bytes, n) ? describe_unetcu : describe_frames;
    if (describe(o, in, with_stats, err))
        json_decref(o);
    else
        *doc = o;
    return err->code;
}
