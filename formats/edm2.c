// Page: formats/edm2.md
#include "formats/edm2.h"
#include "base/memory.h"
#include "formats/pickle.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENCODE, NDARRAY, DTYPE, REBUILD, REBUILD_2, BUFFER, BUFFER_2 };
static const kd_py_name names[] = {
    [ENCODE] = { "_codecs", "encode", KD_PY_CALLS },
    [NDARRAY] = { "numpy", "ndarray", KD_PY_CALLS },
    [DTYPE] = { "numpy", "dtype", KD_PY_TAKES_STATE },
    [REBUILD] = { "numpy.core.multiarray", "_reconstruct", KD_PY_TAKES_STATE },
    [REBUILD_2] = { "numpy._core.multiarray", "_reconstruct", KD_PY_TAKES_STATE },
    [BUFFER] = { "numpy.core.numeric", "_frombuffer", KD_PY_CALLS },
    [BUFFER_2] = { "numpy._core.numeric", "_frombuffer", KD_PY_CALLS },
    { NULL, NULL, KD_PY_CALLS } };

static const size_t FILE_MAX = (size_t)1 << 30;

/// What is read, and where it is: "ref.pkl: fid.mu".
typedef struct place { kd_edm2 *e; const char *file; size_t budget; char name[128]; } place;

bool kd_edm2_knows(const void *bytes, size_t n) { return kd_pickle_knows(bytes, n); }

static int fail(const place *w, const char *want, const kd_py *got, kd_err *err)
{
    char what[80];
    return kd_fail(err, KD_EFORMAT, "%s: %s: expected %s, got %s", w->file, w->name, want, kd_py_what(got, what, sizeof what));
}

static bool is_call(const kd_py *v, int name) { return v->type == KD_PY_CALL && v->name == name; }
static const kd_py *arguments(const kd_py *call) { return call->item[0]; }
static const kd_py *state(const kd_py *call) { return call->n > 1 ? call->item[1] : NULL; }

// Elements ---------------------------------------------------------------------------------------------------------------

// Protocol 2 has no bytes: they are text, the characters U+0000 to U+00FF, and UTF-8 in the file. False if they are not n.
static bool decode_latin1(uint8_t *to, size_t n, const kd_py *text)
{
    const uint8_t *s = (const uint8_t *)text->s, *const end = s + text->n;
    size_t k = 0;
    for (; s < end && k < n; k++) {
        if (*s < 0x80) to[k] = *s++;
        else if ((*s == 0xc2 || *s == 0xc3) && end - s > 1 && (s[1] & 0xc0) == 0x80) to[k] = (uint8_t)(s[0] << 6 | (s[1] & 0x3f)), s += 2;
        else return false;
    }
    return s == end && k == n;
}

static const kd_py *encoded_text(const kd_py *v)
{
    if (!is_call(v, ENCODE)) return NULL;
    const kd_py *a = arguments(v);
    return a->n == 2 && a->item[0]->type == KD_PY_STR && kd_py_is(a->item[1], "latin1") ? a->item[0] : NULL;
}

static void transpose(double *x, int64_t d)
{
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < i; j++) {
            const double t = x[i * d + j];
            x[i * d + j] = x[j * d + i], x[j * d + i] = t;
        }
}

// The file can back at most as many bytes as v has: only then memory is taken.
static int put(place *w, const kd_py *v, kd_shape shape, bool fortran, kd_err *err)
{
    const kd_py *text = encoded_text(v);
    const size_t n = (size_t)kd_shape_count(&shape) * sizeof(double);
    kd_tensor *t;
    if (!text && v->type != KD_PY_BYTES) return fail(w, "elements as bytes", v, err);
    char have[80];
    kd_shape_str(have, sizeof have, &shape);
    if (text ? text->n < n : v->n != n)
        return kd_fail(err, KD_EFORMAT, "%s: %s: F64 %s in %u bytes", w->file, w->name, have, (unsigned)(text ? text->n : v->n));
    if (n > w->budget) return kd_fail(err, KD_EFORMAT, "%s: %s: its arrays are larger than the file", w->file, w->name);
    w->budget -= n;
    if (kd_frame_get(w->e->arrays, w->name)) return kd_fail(err, KD_EFORMAT, "%s: %s: is there twice", w->file, w->name);
    KD_TRY(kd_frame_add(w->e->arrays, w->name, KD_F64, shape, NULL, &t, err));
    if (!text) memcpy(t->data, v->s, n);
    else if (!decode_latin1(t->data, n, text))
        return kd_fail(err, KD_EFORMAT, "%s: %s: its text is not the %zu bytes of F64 %s", w->file, w->name, n, have);
    if (fortran && shape.n == 2) transpose(t->data, shape.d[0]);
    return 0;
}

// Arrays -----------------------------------------------------------------------------------------------------------------

static int check_type(const place *w, const kd_py *v, kd_err *err)
{
    const kd_py *s = is_call(v, DTYPE) ? state(v) : NULL;
    if (!s || arguments(v)->n < 1 || s->n < 2 || s->item[1]->type != KD_PY_STR) return fail(w, "a type of elements", v, err);
    const kd_py *name = arguments(v)->item[0], *order = s->item[1];
    if (kd_py_is(name, "f8") && kd_py_is(order, "<")) return 0;
    if (name->type != KD_PY_STR) return fail(w, "the name of a type", name, err);
    return kd_fail(err, KD_EFORMAT, "%s: %s: elements of type '%.*s%.*s': expected '<f8'", w->file, w->name,
                   order->n < 8 ? (int)order->n : 8, order->s, name->n < 40 ? (int)name->n : 40, name->s);
}

static int read_shape(kd_shape *to, const place *w, const kd_py *v, kd_err *err)
{
    static const char want[] = "a vector or a square matrix";
    int64_t bytes = sizeof(double);
    *to = (kd_shape){0};
    if (v->type != KD_PY_TUPLE || v->n < 1 || v->n > 2) return fail(w, want, v, err);
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->item[i]->type != KD_PY_INT || !kd_mul(bytes, v->item[i]->i, &bytes)) return fail(w, want, v->item[i], err);
        to->d[to->n++] = v->item[i]->i;
    }
    return to->n == 1 || to->d[0] == to->d[1] ? 0 : fail(w, want, v->item[1], err);
}

// (1, shape, type, in Fortran's order?, elements)
static int read_rebuilt(place *w, const kd_py *v, kd_err *err)
{
    const kd_py *a = arguments(v), *s = state(v);
    kd_shape shape;
    if (a->n != 3 || a->item[0]->type != KD_PY_NAME || a->item[0]->name != NDARRAY || !s || s->n != 5 || s->item[3]->type != KD_PY_BOOL)
        return fail(w, "an array of numpy", v, err);
    KD_TRY(read_shape(&shape, w, s->item[1], err));
    KD_TRY(check_type(w, s->item[2], err));
    return put(w, s->item[4], shape, s->item[3]->name, err);
}

// (elements, type, shape, order)
static int read_buffer(place *w, const kd_py *v, kd_err *err)
{
    const kd_py *a = arguments(v);
    kd_shape shape;
    if (a->n != 4) return fail(w, "an array of numpy", v, err);
    const bool fortran = kd_py_is(a->item[3], "F");
    if (!fortran && !kd_py_is(a->item[3], "C")) return fail(w, "the order \"C\" or \"F\"", a->item[3], err);
    KD_TRY(read_shape(&shape, w, a->item[2], err));
    KD_TRY(check_type(w, a->item[1], err));
    return put(w, a->item[0], shape, fortran, err);
}

static int read_array(place *w, const kd_py *v, kd_err *err)
{
    if (is_call(v, REBUILD) || is_call(v, REBUILD_2)) return read_rebuilt(w, v, err);
    if (is_call(v, BUFFER) || is_call(v, BUFFER_2)) return read_buffer(w, v, err);
    return fail(w, "an array of numpy", v, err);
}

// The dicts ----------------------------------------------------------------------------------------------------------------

// A key becomes part of a name, which is printed.
static bool plain(const kd_py *key)
{
    if (key->type != KD_PY_STR || !key->n || key->n > 60) return false;
    for (uint32_t i = 0; i < key->n; i++)
        if (key->s[i] <= ' ' || key->s[i] > '~' || key->s[i] == '.') return false;
    return true;
}

static int read_metric(place *w, const kd_py *key, const kd_py *dict, kd_err *err)
{
    for (uint32_t i = 0; i < dict->n; i += 2) {
        const kd_py *name = dict->item[i];
        snprintf(w->name, sizeof w->name, "%.*s", (int)key->n, key->s);
        if (!plain(name)) return fail(w, "an array's name", name, err);
        snprintf(w->name, sizeof w->name, "%.*s.%.*s", (int)key->n, key->s, (int)name->n, name->s);
        KD_TRY(read_array(w, dict->item[i + 1], err));
    }
    return 0;
}

static int read_top(place *w, const kd_py *v, kd_err *err)
{
    snprintf(w->name, sizeof w->name, "top level");
    if (v->type != KD_PY_DICT) return fail(w, "a dict of statistics", v, err);
    for (uint32_t i = 0; i < v->n; i += 2) {
        const kd_py *key = v->item[i], *value = v->item[i + 1];
        snprintf(w->name, sizeof w->name, "top level");
        if (!plain(key)) return fail(w, "a key", key, err);
        if (value->type == KD_PY_DICT) KD_TRY(read_metric(w, key, value, err));
        else if (value->type > KD_PY_STR || kd_py_is(key, "num_images")) {
            snprintf(w->name, sizeof w->name, "%.*s", (int)key->n, key->s);
            if (value->type > KD_PY_STR) return fail(w, "a dict of arrays", value, err);
            if (value->type != KD_PY_INT || value->i < 2) return fail(w, "a number of at least 2", value, err);
            w->e->n = value->i;
        }
    }
    return 0;
}

static int read_file(kd_edm2 *e, kd_in *in, kd_err *err)
{
    void *bytes = NULL;
    size_t n, used;
    kd_pickle *p = NULL;
    KD_TRY(kd_in_read_rest(in, FILE_MAX, &bytes, &n, err));
    place w = { .e = e, .file = kd_in_name(in), .budget = n };
    int code = kd_pickle_read(&p, w.file, bytes, n, 0, 0, names, &used, err);
    if (!code && used != n) code = kd_fail(err, KD_EFORMAT, "%s: %zu bytes after the end of the pickle", w.file, n - used);
    if (!code) code = read_top(&w, kd_pickle_value(p), err);
    kd_pickle_free(p);
    free(bytes);
    return code;
}

int kd_edm2_read(kd_edm2 **out, kd_in *in, kd_err *err)
{
    kd_edm2 *e = kd_alloc(sizeof *e);
    *out = NULL;
    if (!e || !(e->arrays = kd_frame_new())) {
        kd_edm2_free(e);
        return kd_fail_memory(err, "statistics");
    }
    const int code = read_file(e, in, err);
    if (code) kd_edm2_free(e);
    else *out = e;
    return code;
}

void kd_edm2_free(kd_edm2 *e)
{
    if (!e) return;
    kd_frame_free(e->arrays);
    kd_free(e);
}
