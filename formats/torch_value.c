// The tree that a pickle describes, into named tensors and JSON. Page: formats/torch.md
#include "formats/torch_private.h"
#include "base/memory.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64, TENSORS_MAX = 1 << 16 };

// Bytes that jansson (2.14) takes, rounded up: an object and an array with their first tables, a place in an array (which doubles by a
// copy), a pair in an object without its key, a number; and a tensor in a frame without its name.
enum { OBJECT = 256, ARRAY = 160, PLACE = 24, PAIR = 112, NUMBER = 32, TENSOR = 2 * sizeof(kd_tensor) };

typedef struct walk {
    kd_torch *t;
    kd_pickle *p;              // pays: shared values, or one inside itself, would have no end
    kd_str path;
    int depth;
    int64_t copied;            // bytes of tensors that were made contiguous
} walk;

static const char *file_of(const walk *w) { return w->t->store->file; }

static const char *path_of(const walk *w) { return w->path.n ? w->path.p : "top level"; }

static int fail(const walk *w, kd_err *err, const char *what)
{
    return kd_fail(err, KD_EFORMAT, "%s: %.200s: %s", file_of(w), path_of(w), what);
}

static int spend(walk *w, size_t bytes, kd_err *err) { return kd_pickle_spend(w->p, bytes, err); }

// Tensors --------------------------------------------------------------------------------------------------------

typedef struct view { const kd_storage *s; int64_t offset; kd_shape shape; int64_t stride[KD_MAX_DIMS]; bool negative; } view;

static int fail_tensor(const walk *w, kd_err *err, const char *what, const kd_py *got)
{
    char buf[80];
    return kd_fail(err, KD_EFORMAT, "%s: tensor %.200s: expected %s, got %s", file_of(w), path_of(w), what,
                   kd_py_what(got, buf, sizeof buf));
}

static int read_sizes(const walk *w, const kd_py *v, int64_t *to, const char *what, kd_err *err)
{
    if (v->type != KD_PY_TUPLE || v->n > KD_MAX_DIMS)
        return fail_tensor(w, err, what, v);
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->item[i]->type != KD_PY_INT || v->item[i]->i < 0)
            return fail_tensor(w, err, what, v->item[i]);
        to[i] = v->item[i]->i;
    }
    return 0;
}

// The place after the last element that is looked at, from that of the first; false if it does not fit 63 bits.
static bool reach(const view *x, int64_t *end)
{
    *end = 1;
    for (int i = 0; i < x->shape.n; i++) {
        int64_t step;
        if (!kd_mul(x->shape.d[i] - 1, x->stride[i], &step) || step > INT64_MAX - *end)
            return false;
        *end += step;
    }
    return true;
}

// Every element must lie in the storage, and there must not be more elements than it has (a stride of 0 repeats one).
static int check_view(const walk *w, const view *x, int64_t room, kd_err *err)
{
    int64_t count = 1, end = 0;
    char shape[200];
    bool empty = false, fits = true;
    for (int i = 0; i < x->shape.n; i++)
        empty |= x->shape.d[i] == 0;
    if (!empty) {
        for (int i = 0; i < x->shape.n && fits; i++)
            fits = kd_mul(count, x->shape.d[i], &count);
        fits = fits && count <= room && reach(x, &end) && x->offset <= room && end <= room - x->offset;
    }
    return fits ? 0 : kd_fail(err, KD_EFORMAT, "%s: tensor %.200s: %s from element %" PRId64 " on is more than its storage of %" PRId64
                              " has", file_of(w), path_of(w), kd_shape_str(shape, sizeof shape, &x->shape), x->offset, room);
}

// {"neg": True}: each element stands for its negative, as in the imaginary part of a conjugate. Other metadata could mean anything.
static int read_metadata(const walk *w, const kd_py *v, view *x, kd_err *err)
{
    if (v->type == KD_PY_NONE)
        return 0;
    if (v->type != KD_PY_DICT)
        return fail_tensor(w, err, "metadata", v);
    for (uint32_t i = 0; i < v->n; i += 2) {
        const kd_py *key = v->item[i], *value = v->item[i + 1];
        if (value->type != KD_PY_BOOL || (value->name && (!kd_py_is(key, "neg") || x->s->dtype == KD_BOOL)))
            return fail_tensor(w, err, "no metadata but \"neg\" of a number", key);
        x->negative |= kd_py_is(key, "neg") && value->name;
    }
    return 0;
}

// (storage, offset, size, stride, requires_grad, hooks[, metadata]). Hooks are Python's code: none can be in a file that is read here.
static int read_view(const walk *w, const kd_py *args, view *x, kd_err *err)
{
    int64_t offset = 0, room = 0;
    if (args->n < 6 || args->n > 7)
        return fail_tensor(w, err, "six arguments", args);
    if (args->item[0]->type != KD_PY_OUTSIDE)
        return fail_tensor(w, err, "a storage", args->item[0]);
    KD_TRY(kd_storage_of(w->t->store, args->item[0], &x->s, &offset, &room, err));
    if (args->item[1]->type != KD_PY_INT || args->item[1]->i < 0)
        return fail_tensor(w, err, "a place in the storage", args->item[1]);
    x->offset = args->item[1]->i;
    KD_TRY(read_sizes(w, args->item[2], x->shape.d, "sizes", err));
    KD_TRY(read_sizes(w, args->item[3], x->stride, "strides", err));
    x->shape.n = (int)args->item[2]->n;
    if (args->item[3]->n != args->item[2]->n)
        return fail(w, err, "sizes and strides differ in number");
    if (args->item[5]->n || (args->item[5]->type != KD_PY_DICT && args->item[5]->type != KD_PY_NONE))
        return fail_tensor(w, err, "no hooks", args->item[5]);
    if (args->n == 7)
        KD_TRY(read_metadata(w, args->item[6], x, err));
    KD_TRY(check_view(w, x, room, err));
    x->offset += offset;
    return 0;
}

static bool contiguous(const view *x)
{
    int64_t stride = 1;
    for (int i = x->shape.n; i-- > 0;) {
        if (x->shape.d[i] != 1 && x->stride[i] != stride)
            return false;
        stride *= x->shape.d[i];
    }
    return true;
}

static void gather(uint8_t *to, const view *x, int64_t count)
{
    const size_t size = kd_dtype_size(x->s->dtype);
    const uint8_t *from = x->s->data;
    int64_t i[KD_MAX_DIMS] = {0}, at = x->offset;
    for (int64_t k = 0; k < count; k++) {
        memcpy(to + (size_t)k * size, from + (size_t)at * size, size);
        for (int d = x->shape.n; d-- > 0;) {             // the next one in C order
            at += x->stride[d];
            if (++i[d] < x->shape.d[d])
                break;
            at -= x->stride[d] * x->shape.d[d];
            i[d] = 0;
        }
    }
}

static void negate(void *data, kd_dtype type, int64_t count)
{
    const bool is_float = type == KD_F64 || type == KD_F32 || type == KD_F16 || type == KD_BF16;
    uint8_t *b = data;
    uint16_t *h = data;
    uint32_t *s = data;
    uint64_t *d = data;
    for (int64_t i = 0; i < count; i++)
        switch (kd_dtype_size(type)) {
        case 1: b[i] = (uint8_t)(0 - b[i]); break;
        case 2: h[i] = (uint16_t)(is_float ? h[i] ^ 1u << 15 : 0u - h[i]); break;
        case 4: s[i] = is_float ? s[i] ^ UINT32_C(1) << 31 : 0 - s[i]; break;
        case 8: d[i] = is_float ? d[i] ^ UINT64_C(1) << 63 : 0 - d[i]; break;
        }
}

static int add_tensor(walk *w, const kd_py *args, kd_err *err)
{
    view x = {0};
    kd_tensor *t;
    KD_TRY(read_view(w, args, &x, err));
    const int64_t count = kd_shape_count(&x.shape), size = (int64_t)kd_dtype_size(x.s->dtype);
    const char *name = w->path.n ? w->path.p : "tensor";
    if (w->t->tensors->n == TENSORS_MAX)
        return fail(w, err, "more tensors than are read (65536)");
    KD_TRY(spend(w, TENSOR + kd_pickle_cost(w->path.n + 1), err));
    if (count && contiguous(&x) && !x.negative)
        return kd_frame_add(w->t->tensors, name, x.s->dtype, x.shape, (uint8_t *)x.s->data + x.offset * size, NULL, err);
    w->copied += count * size;
    if (w->copied > w->t->store->total)
        return fail(w, err, "the tensors that are not contiguous, or negative, are larger than all storages");
    KD_TRY(kd_frame_add(w->t->tensors, name, x.s->dtype, x.shape, NULL, &t, err));
    gather(t->data, &x, count);
    if (x.negative)
        negate(t->data, t->dtype, count);
    return 0;
}

// Values ---------------------------------------------------------------------------------------------------------

static int take(walk *w, const kd_py *v, json_t **to, kd_err *err);

static int take_text(walk *w, const kd_py *v, json_t **to, kd_err *err)
{
    KD_TRY(spend(w, NUMBER + kd_pickle_cost(v->n + 1), err));
    *to = json_stringn(v->s, v->n);                      // NULL if it is not UTF-8 (or without memory: then the next call fails too)
    if (!*to)
        return fail(w, err, "text that is not UTF-8");
    return 0;
}

static int take_int(walk *w, int64_t i, json_t **to, kd_err *err)
{
    KD_TRY(spend(w, NUMBER, err));
    return (*to = json_integer(i)) ? 0 : kd_fail_memory(err, file_of(w));
}

static int take_float(walk *w, double f, json_t **to, kd_err *err)
{
    KD_TRY(spend(w, 2 * NUMBER, err));                   // or a short text
    *to = isfinite(f) ? json_real(f) : json_string(isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
    return *to ? 0 : kd_fail_memory(err, file_of(w));
}

// Adds ".key" to the path; what it was before is its length.
static int push_key(walk *w, const kd_py *key, kd_err *err)
{
    const char *dot = w->path.n ? "." : "";
    if (key->type == KD_PY_INT)
        return kd_str_printf(&w->path, err, "%s%" PRId64, dot, key->i);
    json_t *text = key->type == KD_PY_STR ? json_stringn(key->s, key->n) : NULL;
    const bool good = text && key->n && !memchr(key->s, 0, key->n);
    json_decref(text);
    if (!good)
        return fail(w, err, "a key that is neither text nor a number");
    KD_TRY(kd_str_add(&w->path, dot, strlen(dot), err));
    return kd_str_add(&w->path, key->s, key->n, err);
}

static void pop_key(walk *w, size_t n)
{
    w->path.n = n;
    if (w->path.p)
        w->path.p[n] = 0;
}

static int put_pair(walk *w, json_t **to, const char *key, json_t *value, kd_err *err)
{
    int code = 0;
    if (!*to)
        code = spend(w, OBJECT, err);
    if (!code)
        code = spend(w, 2 * PAIR + strlen(key) + w->path.n, err);     // kd-info makes another pair, under the whole path
    if (!code && !*to && !(*to = json_object()))
        code = kd_fail_memory(err, file_of(w));
    if (!code && json_object_get(*to, key))
        code = fail(w, err, "is there twice");
    if (code) {
        json_decref(value);
        return code;
    }
    return json_object_set_new(*to, key, value) ? kd_fail_memory(err, file_of(w)) : 0;
}

// A dict of nothing but tensors is left out too, unless it is empty.
static int take_dict(walk *w, const kd_py *v, json_t **to, kd_err *err)
{
    const size_t before = w->path.n;
    for (uint32_t i = 0; i < v->n; i += 2) {
        json_t *value = NULL;
        KD_TRY(push_key(w, v->item[i], err));
        KD_TRY(take(w, v->item[i + 1], &value, err));
        if (value)
            KD_TRY(put_pair(w, to, w->path.p + before + (before > 0), value, err));
        pop_key(w, before);
    }
    if (v->n)
        return 0;
    KD_TRY(spend(w, OBJECT, err));
    return (*to = json_object()) ? 0 : kd_fail_memory(err, file_of(w));
}

static int take_list(walk *w, const kd_py *v, json_t **to, kd_err *err)
{
    const size_t before = w->path.n;
    KD_TRY(spend(w, ARRAY, err));
    json_t *list = *to = json_array();
    if (!list)
        return kd_fail_memory(err, file_of(w));
    for (uint32_t i = 0; i < v->n; i++) {
        json_t *value = NULL;
        const kd_py key = { .type = KD_PY_INT, .i = i };
        KD_TRY(push_key(w, &key, err));
        KD_TRY(take(w, v->item[i], &value, err));
        if (json_array_append_new(list, value ? value : json_null()))
            return kd_fail_memory(err, file_of(w));
        pop_key(w, before);
    }
    return 0;
}

static int take_call(walk *w, const kd_py *v, json_t **to, kd_err *err)
{
    const kd_py *args = v->item[0];
    if (v->name == KD_TORCH_TENSOR)
        return add_tensor(w, args, err);
    if (v->name == KD_TORCH_PARAMETER && args->n == 3 && !args->item[2]->n)
        return take(w, args->item[0], to, err);
    if (v->name == KD_TORCH_SIZE && args->n == 1 && args->item[0]->type == KD_PY_TUPLE)
        return take(w, args->item[0], to, err);
    if (v->name == KD_TORCH_MODULE)
        return v->n == 2 ? take(w, v->item[1], to, err) : fail(w, err, "an object without attributes");
    if ((v->name >= KD_TORCH_LIST && v->name < KD_TORCH_STORAGES && args->n == 1) || (v->name == KD_TORCH_TAGGED && args->n == 2))
        return take(w, args->item[0], to, err);
    return kd_fail(err, KD_EFORMAT, "%s: %.200s: %s.%s with %u arguments", file_of(w), path_of(w),
                   kd_torch_names[v->name].module, kd_torch_names[v->name].name, (unsigned)args->n);
}

static int take_deep(walk *w, const kd_py *v, json_t **to, kd_err *err)
{
    char what[80];
    switch (v->type) {
    case KD_PY_NONE:  *to = json_null(); return 0;
    case KD_PY_BOOL:  *to = json_boolean(v->name); return 0;
    case KD_PY_INT:   return take_int(w, v->i, to, err);
    case KD_PY_FLOAT: return take_float(w, v->f, to, err);
    case KD_PY_STR:   return take_text(w, v, to, err);
    case KD_PY_LIST:
    case KD_PY_TUPLE: return take_list(w, v, to, err);
    case KD_PY_DICT:  return take_dict(w, v, to, err);
    case KD_PY_CALL:  return take_call(w, v, to, err);
    default:          return fail(w, err, kd_py_what(v, what, sizeof what));
    }
}

/// *to: NULL before; a new reference, also when it fails half way; NULL for a tensor.
static int take(walk *w, const kd_py *v, json_t **to, kd_err *err)
{
    KD_TRY(spend(w, PLACE, err));
    if (w->depth == DEPTH_MAX)
        return fail(w, err, "nested more than 64 deep");
    w->depth++;
    const int code = take_deep(w, v, to, err);
    w->depth--;
    if (code) {
        json_decref(*to);
        *to = NULL;
    }
    return code;
}

// Paths must differ: {"a": {"b": x}, "a.b": y} would not.
static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int check_names(const walk *w, kd_err *err)
{
    const kd_frame *f = w->t->tensors;
    char **name = kd_alloc((size_t)f->n * sizeof *name);
    if (!name)
        return kd_fail_memory(err, file_of(w));
    for (int i = 0; i < f->n; i++)
        name[i] = f->t[i].name;
    qsort(name, (size_t)f->n, sizeof *name, by_name);
    for (int i = 1; i < f->n && !err->code; i++)
        if (!strcmp(name[i - 1], name[i]))
            kd_fail(err, KD_EFORMAT, "%s: tensor %.200s is there twice", file_of(w), name[i]);
    kd_free(name);
    return err->code;
}

int kd_torch_take(kd_torch *t, kd_pickle *p, kd_err *err)
{
    walk w = { .t = t, .p = p };
    if (!take(&w, kd_pickle_value(p), &t->rest, err))
        check_names(&w, err);
    if (!err->code && !t->rest && !(t->rest = json_object()))
        kd_fail_memory(err, file_of(&w));
    free(w.path.p);
    return err->code;
}
