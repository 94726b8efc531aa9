// Storages: which ones there are, where their bytes are. Page: formats/torch.md
#include "formats/torch_private.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const kd_dtype dtypes[] = { KD_F32, KD_F64, KD_F16, KD_BF16, KD_I64, KD_I32, KD_I16, KD_I8, KD_U8, KD_BOOL };
const kd_py_name kd_torch_names[] = {
    [KD_TORCH_DICT] = { "collections", "OrderedDict", KD_PY_MAKES_DICT },
    [KD_TORCH_TENSOR] = { "torch._utils", "_rebuild_tensor_v2", KD_PY_CALLS },
    [KD_TORCH_PARAMETER] = { "torch._utils", "_rebuild_parameter", KD_PY_CALLS },
    [KD_TORCH_SIZE] = { "torch", "Size", KD_PY_CALLS },
    [KD_TORCH_MODULE] = { "__torch__", "", KD_PY_MAKES_OBJECT },            // TorchScript's: a class of the archive's own code
    [KD_TORCH_TAGGED] = { "torch.jit._pickle", "restore_type_tag", KD_PY_CALLS },
    [KD_TORCH_LIST] = { "torch.jit._pickle", "build_intlist", KD_PY_CALLS }, { "torch.jit._pickle", "build_doublelist", KD_PY_CALLS },
    { "torch.jit._pickle", "build_boollist", KD_PY_CALLS }, { "torch.jit._pickle", "build_tensorlist", KD_PY_CALLS },
    [KD_TORCH_STORAGES] = { "torch", "FloatStorage", KD_PY_CALLS },
    { "torch", "DoubleStorage", KD_PY_CALLS }, { "torch", "HalfStorage", KD_PY_CALLS }, { "torch", "BFloat16Storage", KD_PY_CALLS },
    { "torch", "LongStorage", KD_PY_CALLS }, { "torch", "IntStorage", KD_PY_CALLS }, { "torch", "ShortStorage", KD_PY_CALLS },
    { "torch", "CharStorage", KD_PY_CALLS }, { "torch", "ByteStorage", KD_PY_CALLS }, { "torch", "BoolStorage", KD_PY_CALLS },
    { NULL, NULL, KD_PY_CALLS } };

enum { SHOWN = 60 };                                     // of a key, in messages
static int shown(size_t n) { return n < SHOWN ? (int)n : SHOWN; }

static int64_t bytes_of(const kd_storage *s) { return s->count * (int64_t)kd_dtype_size(s->dtype); }

static int compare(const void *x, const void *y)
{
    const kd_storage *a = x, *b = y;
    const int c = memcmp(a->key, b->key, a->n_key < b->n_key ? a->n_key : b->n_key);
    return c ? c : a->n_key < b->n_key ? -1 : a->n_key > b->n_key;
}

static kd_storage *find(const kd_torch_store *st, const kd_py *key)
{
    const kd_storage k = { .key = key->s, .n_key = key->n };
    return key->type == KD_PY_STR ? bsearch(&k, st->s, st->n_s, sizeof k, compare) : NULL;
}

// Persistent ids -------------------------------------------------------------------------------------------------

// ("storage", torch.FloatStorage, key, "cpu", elements), in legacy files with a sixth: None, or the view that is meant.
static int parse(const kd_torch_store *st, const kd_py *outside, kd_storage *s, const kd_py **view, kd_err *err)
{
    const kd_py *t = outside->item[0];
    if (t->type != KD_PY_TUPLE || (t->n != 5 && t->n != 6) || !kd_py_is(t->item[0], "storage"))
        return kd_fail(err, KD_EFORMAT, "%s: a persistent id that is not a storage's", st->file);
    if (t->item[1]->type != KD_PY_NAME || t->item[1]->name < KD_TORCH_STORAGES || t->item[2]->type != KD_PY_STR)
        return kd_fail(err, KD_EFORMAT, "%s: a storage without a type and a key", st->file);
    *s = (kd_storage){ .key = t->item[2]->s, .n_key = t->item[2]->n, .dtype = dtypes[t->item[1]->name - KD_TORCH_STORAGES] };
    int64_t bytes;
    if (t->item[4]->type != KD_PY_INT || !kd_mul(t->item[4]->i, (int64_t)kd_dtype_size(s->dtype), &bytes))
        return kd_fail(err, KD_EFORMAT, "%s: storage %.*s: its number of elements is not one", st->file, shown(s->n_key), s->key);
    s->count = t->item[4]->i;
    *view = t->n == 6 && t->item[5]->type != KD_PY_NONE ? t->item[5] : NULL;
    return 0;
}

int kd_storages_list(kd_torch_store *st, kd_pickle *p, kd_err *err)
{
    const kd_py *const *list, *view;
    const size_t n = kd_pickle_outside(p, &list);
    KD_TRY(kd_pickle_spend(p, n * sizeof *st->s, err));
    st->s = kd_alloc(n * sizeof *st->s);
    if (!st->s)
        return kd_fail_memory(err, st->file);
    for (size_t i = 0; i < n; i++)
        KD_TRY(parse(st, list[i], &st->s[i], &view, err));
    qsort(st->s, n, sizeof *st->s, compare);
    for (size_t i = 0; i < n; i++) {                     // several tensors may share one
        const kd_storage *s = &st->s[i], *last = st->n_s ? &st->s[st->n_s - 1] : NULL;
        if (last && !compare(last, s)) {
            if (last->dtype != s->dtype || last->count != s->count)
                return kd_fail(err, KD_EFORMAT, "%s: storage %.*s: is said to be of two types or lengths", st->file, shown(s->n_key),
                               s->key);
            continue;
        }
        st->s[st->n_s++] = *s;
    }
    return 0;
}

int kd_storage_of(const kd_torch_store *st, const kd_py *outside, const kd_storage **s, int64_t *offset, int64_t *count, kd_err *err)
{
    kd_storage k;
    const kd_py *view = NULL;
    KD_TRY(parse(st, outside, &k, &view, err));
    *s = bsearch(&k, st->s, st->n_s, sizeof k, compare);
    *offset = 0;
    *count = k.count;
    if (!view)
        return 0;
    if (view->type != KD_PY_TUPLE || view->n != 3 || view->item[1]->type != KD_PY_INT || view->item[2]->type != KD_PY_INT)
        return kd_fail(err, KD_EFORMAT, "%s: storage %.*s: a view without place and length", st->file, shown(k.n_key), k.key);
    *offset = view->item[1]->i;
    *count = view->item[2]->i;
    if (*offset < 0 || *count < 0 || *offset > k.count || *count > k.count - *offset)
        return kd_fail(err, KD_EFORMAT, "%s: storage %.*s: a view reaches beyond its %" PRId64 " elements", st->file, shown(k.n_key), k.key,
                       k.count);
    return 0;
}

// Data -----------------------------------------------------------------------------------------------------------

static void swap_bytes(uint8_t *b, size_t size, int64_t count)
{
    for (int64_t i = 0; i < count; i++, b += size)
        for (size_t k = 0; k < size / 2; k++) {
            const uint8_t x = b[k];
            b[k] = b[size - 1 - k];
            b[size - 1 - k] = x;
        }
}

// Bytes that may stay where they are do: torch.save aligns them, by itself or by their order. Takes `block` (may be NULL).
static int put_data(kd_torch_store *st, kd_storage *s, const uint8_t *bytes, void *block, bool swap, kd_err *err)
{
    const size_t size = kd_dtype_size(s->dtype), n = (size_t)bytes_of(s);
    s->block = block;
    if (!block && (swap || (uintptr_t)bytes % size)) {
        if (!(s->block = kd_alloc(n)))
            return kd_fail_memory(err, st->file);
        memcpy(s->block, bytes, n);
    }
    s->data = s->block ? s->block : st->bytes + (bytes - st->bytes);
    if (swap)
        swap_bytes(s->data, size, s->count);
    st->total += (int64_t)n;
    return 0;
}

static int read_member(kd_torch_store *st, const kd_zip *z, kd_storage *s, bool swap, kd_err *err)
{
    kd_str name = {0};
    const uint8_t *bytes;
    void *block;
    KD_TRY(kd_str_printf(&name, err, "data/%.*s", (int)s->n_key, s->key));
    const kd_zip_member *m = kd_zip_find(z, name.p);
    free(name.p);
    if (!m)
        return kd_fail(err, KD_EFORMAT, "%s: storage %.*s is missing in the archive", st->file, shown(s->n_key), s->key);
    if (m->size != (size_t)bytes_of(s))
        return kd_fail(err, KD_EFORMAT, "%s: storage %.*s has %zu bytes, %" PRId64 " are declared", st->file, shown(s->n_key), s->key,
                       m->size, bytes_of(s));
    st->unpacked += m->deflated ? m->size : 0;
    if (st->unpacked > kd_pickle_backs(st->n, false))
        return kd_fail(err, KD_EFORMAT, "%s: storage %.*s: the packed ones would take more memory than the file's %zu bytes back (%zu)",
                       st->file, shown(s->n_key), s->key, st->n, kd_pickle_backs(st->n, false));
    KD_TRY(kd_zip_read(z, m, &bytes, &block, err));
    return put_data(st, s, bytes, block, swap, err);
}

int kd_storages_of_zip(kd_torch_store *st, const kd_zip *z, bool swap, kd_err *err)
{
    for (size_t i = 0; i < st->n_s; i++)
        KD_TRY(read_member(st, z, &st->s[i], swap, err));
    return 0;
}

// Each: its number of elements (8 bytes), then they.
static int read_next(kd_torch_store *st, kd_storage *s, size_t *at, kd_err *err)
{
    uint64_t count = 0;
    if (st->n - *at < 8)
        return kd_fail(err, KD_EFORMAT, "%s: ends before storage %.*s", st->file, shown(s->n_key), s->key);
    for (int i = 0; i < 8; i++)
        count |= (uint64_t)st->bytes[*at + (size_t)i] << 8 * i;
    *at += 8;
    if (count != (uint64_t)s->count)
        return kd_fail(err, KD_EFORMAT, "%s: storage %.*s has %" PRIu64 " elements, %" PRId64 " are declared", st->file, shown(s->n_key),
                       s->key, count, s->count);
    const size_t n = (size_t)bytes_of(s);
    if (st->n - *at < n)
        return kd_fail(err, KD_EFORMAT, "%s: ends after %zu of the %zu bytes of storage %.*s", st->file, st->n - *at, n, shown(s->n_key),
                       s->key);
    KD_TRY(put_data(st, s, st->bytes + *at, NULL, false, err));
    *at += n;
    return 0;
}

int kd_storages_of_legacy(kd_torch_store *st, const kd_py *keys, size_t at, kd_err *err)
{
    if (keys->type != KD_PY_LIST || keys->n != st->n_s)
        return kd_fail(err, KD_EFORMAT, "%s: the list of storages is not of the %zu that its tensors use", st->file, st->n_s);
    for (uint32_t i = 0; i < keys->n; i++) {
        kd_storage *s = find(st, keys->item[i]);
        if (!s || s->data)
            return kd_fail(err, KD_EFORMAT, "%s: the list of storages has one %s", st->file, s ? "twice" : "that no tensor uses");
        KD_TRY(read_next(st, s, &at, err));
    }
    return at == st->n ? 0 : kd_fail(err, KD_EFORMAT, "%s: %zu bytes after the last storage belong to nothing", st->file, st->n - at);
}

void kd_storages_free(kd_torch_store *st)
{
    for (size_t i = 0; i < st->n_s; i++)
        kd_free(st->s[i].block);
    kd_free(st->s);
}
