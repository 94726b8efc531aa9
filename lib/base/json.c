// JSON with errors that name the place.
#include "base/json.h"
#include "base/memory.h"
#include "base/opt.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Jansson's parser does not survive a failed allocation: it goes on with a shortened string, or asserts. So when memory
// runs out in it we jump out of it, and free what it had allocated: `live` lists that while a parse runs. Only then do its
// allocations count for the KD_FAIL_ALLOC test hook.
static _Thread_local struct { jmp_buf out; bool on; void **live; size_t n, room; } parse;

static bool remember(void *p)
{
    if (parse.n == parse.room) {
        const size_t room = parse.room ? 2 * parse.room : 256;
        void **live = realloc(parse.live, room * sizeof *live);
        if (!live)
            return false;
        parse.live = live;
        parse.room = room;
    }
    parse.live[parse.n++] = p;
    return true;
}

static void *allocate(size_t n)
{
    void *p = parse.on ? kd_realloc(NULL, n) : malloc(n);
    if (!parse.on || (p && remember(p)))
        return p;
    free(p);
    longjmp(parse.out, 1);
}

// What is freed while parsing is mostly what came last.
static void release(void *p)
{
    for (size_t i = parse.on && p ? parse.n : 0; i-- > 0;)
        if (parse.live[i] == p) {
            parse.live[i] = parse.live[--parse.n];
            break;
        }
    free(p);
}

static void end_parse(bool keep)
{
    parse.on = false;
    while (!keep && parse.n > 0)
        free(parse.live[--parse.n]);
    free(parse.live);
    parse.live = NULL;
    parse.n = parse.room = 0;
}

int kd_json_parse(json_t **root, const char *file, int code, const char *text, size_t n, kd_err *err)
{
    json_error_t e;
    *root = NULL;
    json_set_alloc_funcs(allocate, release);
    if (setjmp(parse.out)) {
        end_parse(false);
        return kd_fail_memory(err, file);
    }
    parse.on = true;
    *root = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    end_parse(true);
    if (*root)
        return 0;
    return kd_fail(err, code, "%s: not valid JSON: line %d, column %d: %s", file, e.line, e.column, e.text);
}

kd_json kd_json_top(const json_t *root, const char *file, int code)
{
    return (kd_json){ .v = root, .file = file, .code = code };
}

kd_json kd_json_at(const kd_json *o, const char *key)
{
    return (kd_json){ .v = json_object_get(o->v, key), .file = o->file, .code = o->code, .up = o, .key = key };
}

kd_json kd_json_item(const kd_json *a, size_t index)
{
    return (kd_json){ .v = json_array_get(a->v, index), .file = a->file, .code = a->code, .up = a, .index = index };
}

bool kd_json_given(const kd_json *j) { return j->v && !json_is_null(j->v); }

const char *kd_json_path(const kd_json *j, char *buf, size_t room)
{
    buf[0] = 0;
    if (!j->up)
        return buf;
    kd_json_path(j->up, buf, room);
    const size_t n = strlen(buf);
    if (j->key)
        snprintf(buf + n, room - n, "%s%s", n ? "." : "", j->key);
    else
        snprintf(buf + n, room - n, "[%zu]", j->index);
    return buf;
}

int kd_json_fail(const kd_json *j, kd_err *err, const char *fmt, ...)
{
    char path[256], message[640];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    kd_json_path(j, path, sizeof path);
    return kd_fail(err, j->code, "%s: %s%s%s", j->file, path, *path ? ": " : "", message);
}

const char *kd_json_what(const kd_json *j, char *buf, size_t room)
{
    if (!j->v)
        return "nothing";
    switch (json_typeof(j->v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: snprintf(buf, room, "a list of %zu", json_array_size(j->v)); return buf;
    case JSON_STRING: snprintf(buf, room, "\"%.60s\"", json_string_value(j->v)); return buf;
    case JSON_INTEGER: snprintf(buf, room, "%lld", (long long)json_integer_value(j->v)); return buf;
    case JSON_REAL: snprintf(buf, room, "%.9g", json_real_value(j->v)); return buf;
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    default: return "null";
    }
}

static int fail_expected(const kd_json *j, const char *what, kd_err *err)
{
    char buf[96];
    return kd_json_fail(j, err, "expected %s, got %s", what, kd_json_what(j, buf, sizeof buf));
}

int kd_json_int(const kd_json *j, int64_t lo, int64_t hi, int64_t *to, kd_err *err)
{
    int64_t v = 0;
    bool ok = json_is_integer(j->v);
    if (ok) {
        v = json_integer_value(j->v);
    } else if (json_is_real(j->v)) {
        const double d = json_real_value(j->v);
        ok = fabs(d) < 0x1p53 && d == floor(d);
        v = ok ? (int64_t)d : 0;
    }
    if (ok && v >= lo && v <= hi) {
        *to = v;
        return 0;
    }
    char what[96] = "an integer";
    if (hi != INT64_MAX)
        snprintf(what, sizeof what, "an integer %lld to %lld", (long long)lo, (long long)hi);
    else if (lo != INT64_MIN)
        snprintf(what, sizeof what, "an integer of at least %lld", (long long)lo);
    return fail_expected(j, what, err);
}

int kd_json_num(const kd_json *j, double lo, double hi, double *to, kd_err *err)
{
    const double v = json_number_value(j->v);
    if (json_is_number(j->v) && v >= lo && v <= hi) {
        *to = v;
        return 0;
    }
    char what[96] = "a number";
    if (isfinite(hi))
        snprintf(what, sizeof what, "a number %.9g to %.9g", lo, hi);
    else if (isfinite(lo))
        snprintf(what, sizeof what, "a number of at least %.9g", lo);
    return fail_expected(j, what, err);
}

int kd_json_bool(const kd_json *j, bool *to, kd_err *err)
{
    if (!json_is_boolean(j->v))
        return fail_expected(j, "true or false", err);
    *to = json_is_true(j->v);
    return 0;
}

int kd_json_str(const kd_json *j, const char **to, kd_err *err)
{
    if (!json_is_string(j->v))
        return fail_expected(j, "a string", err);
    *to = json_string_value(j->v);
    return 0;
}

int kd_json_object(const kd_json *j, kd_err *err)
{
    return json_is_object(j->v) ? 0 : fail_expected(j, "an object", err);
}

int kd_json_array(const kd_json *j, size_t *n, kd_err *err)
{
    if (!json_is_array(j->v))
        return fail_expected(j, "a list", err);
    *n = json_array_size(j->v);
    return 0;
}

int kd_json_ints(const kd_json *j, size_t n, int64_t lo, int64_t hi, int64_t *to, kd_err *err)
{
    size_t have = 0;
    KD_TRY(kd_json_array(j, &have, err));
    if (have != n)
        return kd_json_fail(j, err, "expected %zu integers, got %zu", n, have);
    for (size_t i = 0; i < n; i++) {
        const kd_json item = kd_json_item(j, i);
        KD_TRY(kd_json_int(&item, lo, hi, &to[i], err));
    }
    return 0;
}

int kd_json_known(const kd_json *object, const char *const *known, int n, kd_err *err)
{
    const char *key;
    json_t *value;
    KD_TRY(kd_json_object(object, err));
    json_object_foreach((json_t *)object->v, key, value) {
        int i = 0;
        while (i < n && strcmp(known[i], key))
            i++;
        if (i < n)
            continue;
        const kd_json at = kd_json_at(object, key);
        const char *near = kd_nearest(key, known, n);
        return kd_json_fail(&at, err, near ? "unknown key (did you mean %s?)" : "unknown key", near);
    }
    return 0;
}

// Printing -----------------------------------------------------------------------------------------------------

typedef struct printer { kd_str *s; kd_err *err; } printer;

static int print_bytes(const char *bytes, size_t n, void *arg)
{
    printer *p = arg;
    return kd_str_add(p->s, bytes, n, p->err) ? -1 : 0;
}

// Not by json_dumps: in jansson 2.14 it goes on without a key that there was no memory for.
int kd_json_print(kd_str *s, const json_t *v, size_t flags, kd_err *err)
{
    printer p = { s, err };
    if (json_dump_callback(v, print_bytes, &p, flags | JSON_ENCODE_ANY))
        return kd_fail_memory(err, "JSON");
    return err->code;
}
