// PyTorch's files: from bytes to pickles and storages. Page: formats/torch.md
#include "formats/torch_private.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// torch.serialization.MAGIC_NUMBER, 0x1950a86a20f9469cfc6c, and the protocol that every legacy file says.
static const char magic[10] = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
enum { LEGACY_PROTOCOL = 1001 };

// Pickles of protocol 0 too, if they begin with a name: to say what is wrong with them.
bool kd_torch_knows(const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    if (n >= 4 && !memcmp(p, "PK\3\4", 4))
        return true;
    return kd_pickle_knows(bytes, n) || (n >= 8 && p[0] == 'c' && memchr(p, '\n', n) && (p[4] | p[5] | p[6] | p[7]));
}

// Zip ------------------------------------------------------------------------------------------------------------

static int read_order(const kd_torch *t, const kd_zip *z, bool *swap, kd_err *err)
{
    const kd_zip_member *m = kd_zip_find(z, "byteorder");
    const uint8_t *bytes;
    void *block;
    *swap = false;
    if (!m)
        return 0;                                        // before PyTorch 2.1: little
    KD_TRY(kd_zip_read(z, m, &bytes, &block, err));
    *swap = m->size == 3 && !memcmp(bytes, "big", 3);
    const bool known = *swap || (m->size == 6 && !memcmp(bytes, "little", 6));
    kd_free(block);
    return known ? 0 : kd_fail(err, KD_EFORMAT, "%s: byteorder is neither little nor big", t->store->file);
}

// Places are those in the file, or in the member if it is packed.
static int read_object(kd_torch *t, const kd_zip *z, const kd_zip_member *m, const uint8_t *bytes, kd_err *err)
{
    kd_pickle *p;
    const size_t n = m->size, at = m->deflated ? 0 : m->at, packed = m->deflated ? m->n_packed : 0;
    size_t used;
    bool swap;
    KD_TRY(kd_pickle_read(&p, t->store->file, bytes, n, at, packed, kd_torch_names, &used, err));
    if (used != n)
        kd_fail(err, KD_EFORMAT, "%s: %zu bytes after the end of the pickle", t->store->file, n - used);
    else if (!read_order(t, z, &swap, err) && !kd_storages_list(t->store, p, err) && !kd_storages_of_zip(t->store, z, swap, err))
        kd_torch_take(t, p, err);
    kd_pickle_free(p);
    return err->code;
}

static int read_zip(kd_torch *t, kd_err *err)
{
    const kd_torch_store *st = t->store;
    kd_zip *z;
    const uint8_t *bytes;
    void *block;
    KD_TRY(kd_zip_open(&z, st->file, st->bytes, st->n, err));
    const kd_zip_member *m = kd_zip_find(z, "data.pkl");
    if (!m)
        kd_fail(err, KD_EFORMAT, "%s: a zip archive without data.pkl: not PyTorch's", st->file);
    else if (m->deflated && m->size > kd_pickle_backs(m->n_packed, true))
        kd_fail(err, KD_EFORMAT, "%s: data.pkl unpacks to %zu bytes, more than its %zu on disk back (%zu)", st->file, m->size, m->n_packed,
                kd_pickle_backs(m->n_packed, true));
    else if (!kd_zip_read(z, m, &bytes, &block, err)) {
        read_object(t, z, m, bytes, err);
        kd_free(block);
    }
    kd_zip_close(z);
    return err->code;
}

// Legacy: five pickles (magic, protocol, sizes of the writer's types, the object, the keys of its storages), then the storages

enum { MAGIC, PROTOCOL, SYSTEM, OBJECT, KEYS, PICKLES };

static int read_pickles(const kd_torch_store *st, kd_pickle *p[PICKLES], size_t *at, kd_err *err)
{
    for (int i = 0; i < PICKLES; i++) {
        size_t used;
        KD_TRY(kd_pickle_read(&p[i], st->file, st->bytes + *at, st->n - *at, *at, 0, kd_torch_names, &used, err));
        *at += used;
        const kd_py *v = kd_pickle_value(p[i]);
        if (i == MAGIC && (v->type != KD_PY_LONG || v->n != sizeof magic || memcmp(v->s, magic, sizeof magic)))
            return kd_fail(err, KD_EFORMAT, "%s: a pickle, but not PyTorch's: no magic number", st->file);
        if (i == PROTOCOL && (v->type != KD_PY_INT || v->i != LEGACY_PROTOCOL))
            return kd_fail(err, KD_EFORMAT, "%s: a legacy PyTorch file of an unknown protocol", st->file);
        if (i == SYSTEM && v->type != KD_PY_DICT)
            return kd_fail(err, KD_EFORMAT, "%s: a legacy PyTorch file without the sizes of its types", st->file);
    }
    return 0;
}

static int read_legacy(kd_torch *t, kd_err *err)
{
    kd_pickle *p[PICKLES] = {0};
    size_t at = 0;
    t->legacy = true;
    if (!read_pickles(t->store, p, &at, err) && !kd_storages_list(t->store, p[OBJECT], err) &&
        !kd_storages_of_legacy(t->store, kd_pickle_value(p[KEYS]), at, err))
        kd_torch_take(t, p[OBJECT], err);
    for (int i = 0; i < PICKLES; i++)
        kd_pickle_free(p[i]);
    return err->code;
}

// Both -----------------------------------------------------------------------------------------------------------

static int read_any(kd_torch *t, kd_in *in, kd_err *err)
{
    kd_torch_store *st = t->store;
    void *bytes;
    st->file = kd_in_name(in);
    KD_TRY(kd_in_read_rest(in, PTRDIFF_MAX, &bytes, &st->n, err));
    st->bytes = bytes;
    if (!st->n)
        return kd_fail(err, KD_EFORMAT, "%s: empty", st->file);
    if (!kd_torch_knows(st->bytes, st->n < 64 ? st->n : 64))
        return kd_fail(err, KD_EFORMAT, "%s: neither a zip archive nor a pickle: not PyTorch's", st->file);
    return st->bytes[0] == 'P' ? read_zip(t, err) : read_legacy(t, err);
}

int kd_torch_read(kd_torch **out, kd_in *in, kd_err *err)
{
    kd_torch *t = kd_alloc(sizeof *t);
    *out = NULL;
    if (!t || !(t->store = kd_alloc(sizeof *t->store)) || !(t->tensors = kd_frame_new()))
        kd_fail_memory(err, kd_in_name(in));
    else if (!read_any(t, in, err))
        *out = t;
    if (!*out)
        kd_torch_free(t);
    return err->code;
}

int kd_torch_load(kd_torch **t, const char *path, kd_err *err)
{
    kd_in *in;
    *t = NULL;
    KD_TRY(kd_in_open(&in, path, err));
    kd_torch_read(t, in, err);
    kd_in_close(in);
    return err->code;
}

void kd_torch_free(kd_torch *t)
{
    if (!t)
        return;
    kd_frame_free(t->tensors);
    json_decref(t->rest);
    if (t->store) {
        kd_storages_free(t->store);
        free(t->store->bytes);
        kd_free(t->store);
    }
    kd_free(t);
}

// Walking over the rest ------------------------------------------------------------------------------------------

static bool holds_dict(const json_t *v)
{
    size_t i;
    json_t *item;
    json_array_foreach(v, i, item)
        if (json_is_object(item) || holds_dict(item))
            return true;
    return json_is_object(v);
}

typedef struct each { int (*see)(void *, const char *, const json_t *, kd_err *); void *arg; kd_str path; kd_err *err; } each;

static int visit(each *e, const json_t *v);

static int visit_at(each *e, const char *key, const json_t *v)
{
    const size_t before = e->path.n;
    KD_TRY(kd_str_printf(&e->path, e->err, "%s%s", before ? "." : "", key));
    KD_TRY(visit(e, v));
    e->path.n = before;
    return 0;
}

static int visit(each *e, const json_t *v)
{
    const char *key;
    size_t i;
    json_t *item;
    if (!holds_dict(v))
        return e->see(e->arg, e->path.n ? e->path.p : "", v, e->err);
    json_object_foreach((json_t *)v, key, item)
        KD_TRY(visit_at(e, key, item));
    json_array_foreach(v, i, item) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        KD_TRY(visit_at(e, index, item));
    }
    return 0;
}

int kd_torch_each(const json_t *rest, int (*see)(void *, const char *, const json_t *, kd_err *), void *arg, kd_err *err)
{
    each e = { .see = see, .arg = arg, .err = err };
    const int code = visit(&e, rest);
    free(e.path.p);
    return code;
}
