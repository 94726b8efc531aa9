// Totals and the report: every file in exactly one line.
#include "data/report.h"
#include "base/memory.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct kd_report {
    kd_out *out;                                         // NULL: none is written
    kd_prep_totals totals;
    int64_t images;                                      // of the file that is read now
    char **change; int n, room;                          // its changes
};

int kd_report_open(kd_report **out, const char *path, kd_err *err)
{
    kd_report *r = *out = kd_alloc(sizeof *r);
    if (!r) return kd_fail_memory(err, "a report");
    if (path && kd_out_open(&r->out, path, false, err)) {
        kd_report_close(r);
        *out = NULL;
    }
    return err->code;
}

static void forget_file(kd_report *r)
{
    for (int i = 0; i < r->n; i++) free(r->change[i]);
    r->n = 0, r->images = 0;
}

void kd_report_close(kd_report *r)
{
    if (!r) return;
    forget_file(r);
    free(r->change);
    kd_out_close(r->out);
    kd_free(r);
}

const kd_prep_totals *kd_report_totals(const kd_report *r) { return &r->totals; }

int kd_report_picture(kd_report *r, const char *const *changes, int n, kd_err *err)
{
    r->images++, r->totals.images++;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < r->n && strcmp(r->change[k], changes[i])) k++;
        if (k < r->n) continue;
        if (r->n == r->room) {
            char **more = kd_realloc(r->change, (size_t)(r->room + 8) * sizeof *more);
            if (!more) return kd_fail_memory(err, "a report");
            r->change = more, r->room += 8;
        }
        if (!(r->change[r->n] = kd_strdup(changes[i]))) return kd_fail_memory(err, "a report");
        r->n++;
    }
    return 0;
}

// Bytes of the well-formed UTF-8 sequence at s, 0 if there is none (Unicode 15, table 3-7).
static int sequence(const uint8_t *s)
{
    if (s[0] < 0x80) return 1;
    const int n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    const uint8_t lo = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80, hi = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[0] < 0xc2 || s[0] > 0xf4 || s[1] < lo || s[1] > hi) return 0;
    for (int i = 2; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    return n;
}

char *kd_utf8(const char *s)
{
    kd_str to = {0};
    kd_err ignored = {0};
    int code = kd_str_add(&to, "", 0, &ignored);
    while (!code && *s) {
        const int n = sequence((const uint8_t *)s);
        code = n ? kd_str_add(&to, s, (size_t)n, &ignored) : kd_str_add(&to, "\xef\xbf\xbd", 3, &ignored);
        s += n ? n : 1;
    }
    if (code) free(to.p);
    return code ? NULL : to.p;
}

static void set_text(json_t *to, const char *key, const char *text)
{
    char *clean = kd_utf8(text);
    json_object_set_new(to, key, json_string(clean ? clean : "?"));
    free(clean);
}

static int write_line(kd_report *r, const char *path, const char *status, const char *why, const char *note, kd_err *err)
{
    json_t *line = json_object(), *changes = json_array();
    set_text(line, "path", path);
    set_text(line, "status", status);
    for (int i = 0; i < r->n; i++) json_array_append_new(changes, json_string(r->change[i]));
    if (r->n) json_object_set(line, "changes", changes);
    if (why) set_text(line, "why", why);
    if (note) set_text(line, "note", note);
    if (r->images > 1) json_object_set_new(line, "images", json_integer(r->images));
    char *text = json_dumps(line, 0);
    json_decref(changes);
    json_decref(line);
    if (!text) return kd_fail_memory(err, "a report");
    int code = kd_out_write(r->out, text, strlen(text), err);
    free(text);
    return code ? code : kd_out_write(r->out, "\n", 1, err);
}

int kd_report_file(kd_report *r, const char *path, const char *why, const char *remark, bool labels, kd_err *err)
{
    const bool kept = r->images || labels;
    r->totals.files++;
    if (kept) r->totals.kept++, r->totals.changed += r->n > 0;
    else r->totals.skipped++;
    const char *status = !kept ? "skipped" : r->n ? "changed" : "kept";
    const int code = r->out ? write_line(r, path, status, kept ? NULL : why, remark, err) : 0;
    forget_file(r);
    return code;
}

int kd_report_commit(kd_report *r, kd_err *err) { return r->out ? kd_out_commit(r->out, err) : 0; }
