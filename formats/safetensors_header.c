// The header of a safetensors frame: JSON to tensors and back. Page: formats/safetensors.md
#include "formats/safetensors_header.h"
#include "base/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Reading ------------------------------------------------------------------------------------------------------

typedef struct entry { const char *name; kd_dtype dtype; kd_shape shape; int64_t begin, end; } entry;

// An integer that is not negative; a header has no 3.0.
static int take_size(const kd_json *j, int64_t *to, kd_err *err)
{
    char got[96];
    if (!json_is_integer(j->v) || json_integer_value(j->v) < 0)
        return kd_json_fail(j, err, "expected an integer of at least 0, got %s", kd_json_what(j, got, sizeof got));
    *to = json_integer_value(j->v);
    return 0;
}

static int take_dtype(const kd_json *tensor, kd_dtype *t, kd_err *err)
{
    const kd_json j = kd_json_at(tensor, "dtype");
    const char *name = NULL;
    KD_TRY(kd_json_str(&j, &name, err));
    return kd_dtype_parse(name, t) ? 0 : kd_json_fail(&j, err, "unknown dtype \"%.20s\"", name);
}

static int take_shape(const kd_json *tensor, kd_shape *s, kd_err *err)
{
    const kd_json j = kd_json_at(tensor, "shape");
    size_t n = 0;
    KD_TRY(kd_json_array(&j, &n, err));
    if (n > KD_MAX_DIMS)
        return kd_json_fail(&j, err, "%zu dimensions, at most %d are supported", n, KD_MAX_DIMS);
    *s = (kd_shape){ .n = (int)n };
    for (size_t i = 0; i < n; i++) {
        const kd_json d = kd_json_item(&j, i);
        KD_TRY(take_size(&d, &s->d[i], err));
    }
    return 0;
}

// The product may overflow before a later 0 makes it 0: that is refused too, as the reference reader does.
static bool length_of(const entry *e, int64_t *bytes)
{
    *bytes = (int64_t)kd_dtype_size(e->dtype);
    for (int i = 0; i < e->shape.n; i++)
        if (!kd_mul(*bytes, e->shape.d[i], bytes))
            return false;
    return true;
}

static int take_entry(const kd_json *tensor, entry *e, kd_err *err)
{
    char shape[200];
    KD_TRY(kd_json_object(tensor, err));
    KD_TRY(take_dtype(tensor, &e->dtype, err));
    KD_TRY(take_shape(tensor, &e->shape, err));
    const kd_json offsets = kd_json_at(tensor, "data_offsets"), begin = kd_json_item(&offsets, 0), end = kd_json_item(&offsets, 1);
    size_t n = 0;
    KD_TRY(kd_json_array(&offsets, &n, err));
    if (n != 2)
        return kd_json_fail(&offsets, err, "expected 2 integers, got %zu", n);
    KD_TRY(take_size(&begin, &e->begin, err));
    KD_TRY(take_size(&end, &e->end, err));
    if (e->end < e->begin)
        return kd_json_fail(&offsets, err, "%lld..%lld ends before it begins", (long long)e->begin, (long long)e->end);
    int64_t bytes;
    kd_shape_str(shape, sizeof shape, &e->shape);
    if (!length_of(e, &bytes))
        return kd_json_fail(tensor, err, "shape %s of %s is more than 2^63 bytes", shape, kd_dtype_name(e->dtype));
    if (bytes != e->end - e->begin)
        return kd_json_fail(tensor, err, "shape %s of %s takes %lld bytes, data_offsets %lld..%lld hold %lld", shape,
                            kd_dtype_name(e->dtype), (long long)bytes, (long long)e->begin, (long long)e->end,
                            (long long)(e->end - e->begin));
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

// Sorted tensors must cover the data without gap or overlap.
static int check_cover(const char *file, const entry *e, size_t n, int64_t *bytes, kd_err *err)
{
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (e[i].begin > at)
            return kd_fail(err, KD_EFORMAT, "%s: bytes %lld..%lld of the data, before tensor %s, belong to no tensor", file,
                           (long long)at, (long long)e[i].begin, e[i].name);
        if (e[i].begin < at)
            return kd_fail(err, KD_EFORMAT, "%s: tensor %s at %lld..%lld overlaps tensor %s at %lld..%lld", file, e[i].name,
                           (long long)e[i].begin, (long long)e[i].end, e[i - 1].name, (long long)e[i - 1].begin,
                           (long long)e[i - 1].end);
        at = e[i].end;
    }
    *bytes = at;
    return 0;
}

static int take_metadata(kd_frame *f, const kd_json *meta, kd_err *err)
{
    const char *key;
    json_t *value;
    KD_TRY(kd_json_object(meta, err));
    json_object_foreach((json_t *)meta->v, key, value) {
        const kd_json j = kd_json_at(meta, key);
        const char *text;
        KD_TRY(kd_json_str(&j, &text, err));
        KD_TRY(kd_frame_set_meta(f, key, text, err));
    }
    return 0;
}

// The tensor is made as a borrower of `nothing`, so that no memory is taken for data that may not be there.
static int add_tensors(kd_frame *f, const entry *e, size_t n, kd_err *err)
{
    static char nothing;
    for (size_t i = 0; i < n; i++) {
        kd_tensor *t;
        KD_TRY(kd_frame_add(f, e[i].name, e[i].dtype, e[i].shape, &nothing, &t, err));
        t->data = NULL;
    }
    return 0;
}

int kd_header_parse(kd_frame *f, const char *file, const char *text, size_t n, int64_t *bytes, kd_err *err)
{
    json_t *root = NULL;
    entry *e = NULL;
    size_t count = 0;
    const char *key;
    json_t *value;
    char label[512];
    snprintf(label, sizeof label, "%s: header", file);
    KD_TRY(kd_json_parse(&root, label, KD_EFORMAT, text, n, err));
    const kd_json top = kd_json_top(root, file, KD_EFORMAT);
    if (kd_json_object(&top, err))
        goto done;
    e = kd_alloc(sizeof *e * (json_object_size(root) + 1));
    if (!e) {
        kd_fail_memory(err, file);
        goto done;
    }
    json_object_foreach(root, key, value) {
        const kd_json j = kd_json_at(&top, key);
        if (!strcmp(key, "__metadata__")) {
            if (take_metadata(f, &j, err))
                goto done;
            continue;
        }
        e[count].name = key;
        if (take_entry(&j, &e[count++], err))
            goto done;
    }
    qsort(e, count, sizeof *e, by_place);
    if (!check_cover(file, e, count, bytes, err))
        add_tensors(f, e, count, err);
done:
    kd_free(e);
    json_decref(root);
    return err->code;
}

static char *skip_space(char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
        p++;
    return p;
}

char *kd_header_checksum(char *text, size_t n)
{
    static const char key[] = "\"kd_xxh3\"";
    char *end = text + n;
    for (char *p = text; (p = memmem(p, (size_t)(end - p), key, sizeof key - 1));) {
        p = skip_space(p + sizeof key - 1, end);
        if (p == end || *p++ != ':')
            continue;
        p = skip_space(p, end);
        int digits = 0;
        while (digits < 16 && end - p > 1 + digits && p[1 + digits] && strchr("0123456789abcdef", p[1 + digits]))
            digits++;
        if (digits == 16 && end - p > 17 && *p == '"' && p[17] == '"')
            return p + 1;
    }
    return NULL;
}

// Writing ------------------------------------------------------------------------------------------------------

// RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF.
static bool is_utf8(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const int more = *p < 0x80 ? 0 : *p >= 0xc2 && *p < 0xe0 ? 1 : (*p & 0xf0) == 0xe0 ? 2 : *p >= 0xf0 && *p < 0xf5 ? 3 : -1;
        if (more < 0 || (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] >= 0xa0) || (*p == 0xf0 && p[1] < 0x90) ||
            (*p == 0xf4 && p[1] >= 0x90))
            return false;
        p++;
        for (int i = 0; i < more; i++, p++)
            if ((*p & 0xc0) != 0x80)
                return false;
    }
    return true;
}

static int add_string(kd_str *s, const char *text, kd_err *err)
{
    if (!is_utf8(text))
        return kd_fail(err, KD_EUSAGE, "%.40s: not UTF-8, which a safetensors header must be", text);
    KD_TRY(kd_str_add(s, "\"", 1, err));
    while (*text) {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\')
            plain++;
        KD_TRY(kd_str_add(s, text, plain, err));
        text += plain;
        if (*text == '"' || *text == '\\')
            KD_TRY(kd_str_printf(s, err, "\\%c", *text++));
        else if (*text == '\n')
            KD_TRY(kd_str_add(s, "\\n", (text++, 2), err));
        else if (*text)
            KD_TRY(kd_str_printf(s, err, "\\u%04x", (unsigned char)*text++));
    }
    return kd_str_add(s, "\"", 1, err);
}

static int add_pairs(kd_str *s, const kd_frame *f, bool plain, kd_err *err)
{
    KD_TRY(kd_str_printf(s, err, "\"__metadata__\":{"));
    for (int i = 0; i < f->n_meta; i++) {
        if (!plain && !strcmp(f->key[i], "kd_xxh3"))
            continue;
        KD_TRY(add_string(s, f->key[i], err));
        KD_TRY(kd_str_add(s, ":", 1, err));
        KD_TRY(add_string(s, f->value[i], err));
        if (!plain || i + 1 < f->n_meta)
            KD_TRY(kd_str_add(s, ",", 1, err));
    }
    return plain ? kd_str_add(s, "}", 1, err) : 0;
}

static int add_metadata(kd_str *s, const kd_frame *f, size_t *at, kd_err *err)
{
    KD_TRY(add_pairs(s, f, false, err));
    KD_TRY(kd_str_printf(s, err, "\"kd_xxh3\":\""));
    *at = s->n;
    return kd_str_printf(s, err, "0000000000000000\"}");
}

// Each after a comma, but the first where nothing stands before it.
static int put_tensors(kd_str *out, const kd_frame *f, bool first, kd_err *err)
{
    char shape[200];
    int64_t offset = 0;
    for (int i = 0; i < f->n; i++) {
        const kd_tensor *t = &f->t[i];
        const int64_t end = offset + (int64_t)kd_tensor_bytes(t);
        if (i || !first)
            KD_TRY(kd_str_add(out, ",", 1, err));
        KD_TRY(add_string(out, t->name, err));
        KD_TRY(kd_str_printf(out, err, ":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%lld,%lld]}", kd_dtype_name(t->dtype),
                             kd_shape_str(shape, sizeof shape, &t->shape), (long long)offset, (long long)end));
        offset = end;
    }
    return kd_str_add(out, "}", 1, err);
}

// Spaces to `want` bytes, and the length in front.
static int finish(kd_str *out, size_t want, kd_err *err)
{
    while (out->n < want)
        KD_TRY(kd_str_add(out, "                                                                ",
                          want - out->n < 64 ? want - out->n : 64, err));
    const uint64_t length = want - 8;
    memcpy(out->p, &length, sizeof length);           // little-endian, as all machines that kd runs on
    return 0;
}

static int fail_large(const kd_str *out, size_t most, kd_err *err)
{
    return kd_fail(err, KD_EFAIL, "the header of %zu bytes is larger than %zu", out->n - 8, most);
}

int kd_header_build(kd_str *out, const kd_frame *f, size_t room, size_t *at, kd_err *err)
{
    out->n = 0;
    KD_TRY(kd_str_add(out, "\0\0\0\0\0\0\0\0{", 9, err));
    KD_TRY(add_metadata(out, f, at, err));
    KD_TRY(put_tensors(out, f, false, err));
    const size_t want = room ? room : (out->n + KD_FRAME_ALIGN - 1) / KD_FRAME_ALIGN * KD_FRAME_ALIGN;
    if (out->n > want || want - 8 > KD_FRAME_LIMIT)
        return fail_large(out, room ? room - 8 : KD_FRAME_LIMIT, err);
    return finish(out, want, err);
}

int kd_header_build_plain(kd_str *out, const kd_frame *f, kd_err *err)
{
    out->n = 0;
    KD_TRY(kd_str_add(out, "\0\0\0\0\0\0\0\0{", 9, err));
    if (f->n_meta)
        KD_TRY(add_pairs(out, f, true, err));
    KD_TRY(put_tensors(out, f, !f->n_meta, err));
    const size_t want = (out->n + 7) / 8 * 8;
    return want - 8 > KD_FRAME_LIMIT ? fail_large(out, KD_FRAME_LIMIT, err) : finish(out, want, err);
}
