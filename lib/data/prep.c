// kd-prep's work: items of a source are gathered into batches, decoded and fitted in parallel, and put out in order. What is
// told, counted and written follows the order of the items, so it does not depend on the threads.
#include "data/prep.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "data/report.h"
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 256, CHANGES = 8, BATCH_BYTES = 16 << 20, BATCH_OUT = 64 << 20, SHOWN = 20 };

/// An item and what became of its picture.
struct job {
    kd_item item;
    kd_err err;                                          // why the picture is bad
    kd_picture picture;
    int n_changes;
    char change[CHANGES][64];
};

struct run {
    const kd_prep *p;
    kd_source *source;
    kd_report *report;
    kd_out *out;
    kd_images_writer *writer;                            // NULL before the first image
    int64_t h, w; int c; bool labelled;                  // of the first image, so of all
    char *first;                                         // its file
    int64_t good, shown;                                 // good pictures so far, skipped ones too; bad files told
    char why[1024];                                      // why the last picture of the present file was left out, or empty
    struct job job[BATCH];
    int n;
    bool end;
};

// Decoding, in parallel -------------------------------------------------------------------------------------------

static void note(struct job *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(struct job *j, const char *fmt, ...)
{
    if (j->n_changes == CHANGES) return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(j->change[j->n_changes++], sizeof j->change[0], fmt, args);
    va_end(args);
}

static void note_decoding(struct job *j, const kd_picture *q)
{
    if (q->had_palette) note(j, "palette");
    if (q->had_16bit) note(j, "16-bit");
    if (q->had_cmyk) note(j, "cmyk");
    if (q->had_alpha) note(j, "alpha");
    if (q->had_rotation) note(j, "rotated");
}

// Resized, then cropped, in words; the picture does both in one step.
static int fit(const struct run *r, struct job *j, kd_picture *q)
{
    const kd_prep *p = r->p;
    const int64_t h = q->h, w = q->w;
    if (!p->h || (h == p->h && w == p->w)) return 0;
    int64_t full_h = p->h, full_w = p->w;
    if (p->crop) kd_picture_cover(h, w, &full_h, &full_w);
    KD_TRY(kd_picture_fit(q, p->h, p->w, p->filter, p->crop, &j->err));
    if (full_h != h || full_w != w)
        note(j, "resized %lldx%lld to %lldx%lld", (long long)w, (long long)h, (long long)full_w, (long long)full_h);
    if (full_h != p->h || full_w != p->w)
        note(j, "cropped %lldx%lld to %lldx%lld", (long long)full_w, (long long)full_h, (long long)p->w, (long long)p->h);
    return 0;
}

static int prepare(const struct run *r, struct job *j)
{
    kd_picture *q = &j->picture;
    if (j->item.bytes) KD_TRY(kd_picture_decode(q, j->item.bytes, j->item.n, r->p->background, &j->err));
    else *q = j->item.picture, j->item.picture.p = NULL;
    free(j->item.bytes);
    j->item.bytes = NULL;
    note_decoding(j, q);
    const int c = r->p->channels ? r->p->channels : j->item.channels;
    if (c != q->c) note(j, c == 3 ? "grey to colour" : "colour to grey");
    KD_TRY(kd_picture_channels(q, c, &j->err));
    return fit(r, j, q);
}

static void prepare_job(void *arg, int64_t tile, int thread)
{
    struct run *r = arg;
    (void)thread;
    if (r->job[tile].item.kind == KD_ITEM_PICTURE) prepare(r, &r->job[tile]);
}

// Output, in order ------------------------------------------------------------------------------------------------

static int set_class_names(const struct run *r, const kd_item *first, kd_frame *meta, kd_err *err)
{
    const char *const *names;
    int n = kd_source_classes(r->source, &names);
    if (!n && first->label >= 0 && first->classes)
        for (names = first->classes; names[n];) n++;
    if (!n) return 0;
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        char *clean = kd_utf8(names[i]);
        json_array_append_new(list, json_string(clean ? clean : "?"));
        free(clean);
    }
    char *text = json_dumps(list, 0);
    json_decref(list);
    const int code = text ? kd_frame_set_meta(meta, "class_names", text, err) : kd_fail_memory(err, "class names");
    free(text);
    return code;
}

static int set_meta(const struct run *r, const kd_item *first, kd_frame *meta, kd_err *err)
{
    const uint8_t *b = r->p->background;
    char colour[8];
    snprintf(colour, sizeof colour, "#%02x%02x%02x", b[0], b[1], b[2]);
    KD_TRY(kd_frame_set_meta(meta, "resizer", r->p->h ? r->p->filter_name : "none", err));
    KD_TRY(kd_frame_set_meta(meta, "crop", r->p->h && r->p->crop ? "center" : "none", err));
    KD_TRY(kd_frame_set_meta(meta, "background", colour, err));
    return set_class_names(r, first, meta, err);
}

static int start_output(struct run *r, const struct job *j, kd_err *err)
{
    r->h = j->picture.h, r->w = j->picture.w, r->c = j->picture.c, r->labelled = j->item.label >= 0;
    if (!(r->first = kd_strdup(j->item.path))) return kd_fail_memory(err, "a path");
    kd_frame *meta = kd_frame_new();
    if (!meta) return kd_fail_memory(err, "an image stream");
    const kd_images_info info = { .h = r->h, .w = r->w, .c = r->c, .dtype = KD_U8, .has_label = r->labelled, .meta = meta };
    int code = set_meta(r, &j->item, meta, err);
    if (!code) code = kd_images_create(&r->writer, r->out, &info, r->p->history, err);
    kd_frame_free(meta);
    return code;
}

// All images of a record agree in size, channels, and in having labels.
static int check_same(const struct run *r, const struct job *j, kd_err *err)
{
    const kd_picture *q = &j->picture;
    if (q->h != r->h || q->w != r->w)
        return kd_fail(err, KD_EUSAGE, "%s is %lldx%lld, %s is %lldx%lld: give one --size", j->item.path, (long long)q->w,
                       (long long)q->h, r->first, (long long)r->w, (long long)r->h);
    if (q->c != r->c)
        return kd_fail(err, KD_EUSAGE, "%s is %s, %s is %s: give --channels 1 or 3", j->item.path, q->c == 1 ? "grey" : "colour",
                       r->first, r->c == 1 ? "grey" : "colour");
    if ((j->item.label >= 0) != r->labelled)
        return kd_fail(err, KD_EUSAGE, "%s has %s, %s has %s: give --labels none", j->item.path, r->labelled ? "no label" : "a label",
                       r->first, r->labelled ? "one" : "none");
    return 0;
}

static int put(struct run *r, struct job *j, kd_err *err)
{
    if (r->good++ < r->p->skip) {
        snprintf(r->why, sizeof r->why, "left out by --skip");
        return 0;
    }
    if (!r->writer) KD_TRY(start_output(r, j, err));
    KD_TRY(check_same(r, j, err));
    const kd_images one = { .n = 1, .image = j->picture.p, .label = r->labelled ? &j->item.label : NULL };
    KD_TRY(kd_images_put(r->writer, &one, err));
    const char *changes[CHANGES];
    for (int i = 0; i < j->n_changes; i++) changes[i] = j->change[i];
    return kd_report_picture(r->report, changes, j->n_changes, err);
}

static void say(const struct run *r, const char *path, const char *what)
{
    kd_err line = {0};                                   // takes control characters out of names, too
    if (!r->p->say) return;
    kd_fail(&line, KD_EUSAGE, "%s: %s", path, what);
    r->p->say(line.msg);
}

// Tells of a bad file, the first twenty by name.
static int complain(struct run *r, const char *path, const char *why, kd_err *err)
{
    if (r->p->strict) return kd_fail(err, KD_EFORMAT, "%s: %s", path, why);
    if (r->shown++ < SHOWN) {
        char line[1200];
        snprintf(line, sizeof line, "skipped: %s", why);
        say(r, path, line);
    }
    return 0;
}

// The pictures of a file came before: a coded one that did not decode is known by now.
static int finish_file(struct run *r, const kd_item *i, kd_err *err)
{
    const char *why = i->kind == KD_ITEM_READ ? r->why : i->why;
    if (i->kind == KD_ITEM_BAD) KD_TRY(complain(r, i->path, why, err));
    const char *remark = i->kind == KD_ITEM_READ ? i->why : NULL;
    if (remark) say(r, i->path, remark);
    char labels[1100] = "";
    if (i->kind == KD_ITEM_LABELS) snprintf(labels, sizeof labels, "labels of %s", i->why), remark = labels;
    KD_TRY(kd_report_file(r->report, i->path, why, remark, i->kind == KD_ITEM_LABELS, err));
    *r->why = 0;
    return 0;
}

static int take(struct run *r, struct job *j, kd_err *err)
{
    if (j->item.kind != KD_ITEM_PICTURE) return finish_file(r, &j->item, err);
    if (!j->err.code) return put(r, j, err);
    if (j->err.code == KD_EFAIL) return kd_fail(err, j->err.code, "%s: %s", j->item.path, j->err.msg);
    snprintf(r->why, sizeof r->why, "%s", j->err.msg);
    return complain(r, j->item.path, j->err.msg, err);
}

// Batches ---------------------------------------------------------------------------------------------------------

static void clear_batch(struct run *r)
{
    for (int i = 0; i < r->n; i++) {
        kd_item_free(&r->job[i].item);
        kd_picture_free(&r->job[i].picture);
        r->job[i] = (struct job){0};
    }
    r->n = 0;
}

// How many pictures are prepared at once: as many as fit BATCH_OUT bytes when finished. Before the first image without --size
// nobody knows how large that is: few then. Two a thread in any case.
static int64_t batch_pictures(const struct run *r)
{
    const int64_t h = r->p->h ? r->p->h : r->h, w = r->p->h ? r->p->w : r->w, few = 2 * kd_threads();
    const int64_t most = h ? BATCH_OUT / (3 * h * w) : few;
    return most > few ? most : few;
}

static int fill_batch(struct run *r, kd_err *err)
{
    const int64_t most = batch_pictures(r);
    int pictures = 0;
    size_t bytes = 0;
    while (!r->end && r->n < BATCH && pictures < most && bytes < BATCH_BYTES) {
        kd_item *i = &r->job[r->n].item;
        KD_TRY(kd_source_next(r->source, i, err));
        r->end = i->kind == KD_ITEM_END;
        if (r->end) break;
        r->n++;
        pictures += i->kind == KD_ITEM_PICTURE;
        bytes += i->bytes ? i->n : (size_t)(i->picture.h * i->picture.w * i->picture.c);
    }
    return 0;
}

static bool reached_limit(const struct run *r)
{
    return r->p->limit >= 0 && kd_report_totals(r->report)->images >= r->p->limit;
}

// Counts the file that was being read when the limit was reached.
static int stop_at_limit(struct run *r, kd_item *last, kd_err *err)
{
    KD_TRY(kd_report_file(r->report, last->path, NULL, NULL, false, err));
    r->end = true;
    return 0;
}

static int run_batches(struct run *r, bool *limited, kd_err *err)
{
    while (!r->end) {
        if (kd_interrupted()) return kd_fail_interrupted(err);
        clear_batch(r);
        KD_TRY(fill_batch(r, err));
        kd_parallel(r->n, prepare_job, r);
        for (int i = 0; i < r->n; i++) {
            KD_TRY(take(r, &r->job[i], err));
            if (!reached_limit(r)) continue;
            *limited = true;
            return stop_at_limit(r, &r->job[i].item, err);
        }
        if (r->p->progress) r->p->progress(kd_report_totals(r->report));
    }
    return 0;
}

static int fail_empty(const struct run *r, int n, const char *const *sources, kd_err *err)
{
    if (r->good)
        return kd_fail(err, KD_EUSAGE, "--skip %lld leaves none of %lld pictures", (long long)r->p->skip, (long long)r->good);
    return kd_fail(err, KD_EUSAGE, "%s%s: no pictures (files looked at: %lld)", sources[0], n > 1 ? " and the other sources" : "",
                   (long long)kd_report_totals(r->report)->files);
}

int kd_prep_run(const kd_prep *p, int n, const char *const *sources, kd_out *out, kd_prep_totals *totals, kd_err *err)
{
    *totals = (kd_prep_totals){0};
    struct run *r = kd_alloc(sizeof *r);
    if (!r) return kd_fail_memory(err, "a batch");
    r->p = p, r->out = out;
    bool limited = false;
    int code = kd_source_open(&r->source, n, sources, p->labels, err);
    if (!code) code = kd_report_open(&r->report, p->report, err);
    if (!code) code = run_batches(r, &limited, err);
    if (!code && !r->writer) code = fail_empty(r, n, sources, err);
    if (!code) code = kd_images_finish(r->writer, err);
    if (r->shown > SHOWN && p->say) {
        char line[80];
        snprintf(line, sizeof line, "%lld more skipped: --report FILE names all", (long long)(r->shown - SHOWN));
        p->say(line);
    }
    if (r->report) {
        *totals = *kd_report_totals(r->report);
        totals->limited = limited;
        kd_err late = {0};                               // a run that failed has a report too: that is when it is wanted
        if (kd_report_commit(r->report, &late)) kd_fail(err, late.code, "%s", late.msg);
    }
    clear_batch(r);
    kd_images_writer_free(r->writer);
    kd_report_close(r->report);
    kd_source_close(r->source);
    free(r->first);
    kd_free(r);
    return err->code;
}
