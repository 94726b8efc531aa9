// Tensors and frames on the host.
#include "tensor/tensor.h"
#include "base/memory.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *name; size_t size; } dtypes[KD_DTYPES] = {
    [KD_F32] = { "F32", 4 }, [KD_F64] = { "F64", 8 }, [KD_F16] = { "F16", 2 }, [KD_BF16] = { "BF16", 2 },
    [KD_I64] = { "I64", 8 }, [KD_I32] = { "I32", 4 }, [KD_I16] = { "I16", 2 }, [KD_I8] = { "I8", 1 },
    [KD_U64] = { "U64", 8 }, [KD_U32] = { "U32", 4 }, [KD_U16] = { "U16", 2 }, [KD_U8] = { "U8", 1 }, [KD_BOOL] = { "BOOL", 1 },
};

size_t kd_dtype_size(kd_dtype t) { return dtypes[t].size; }
const char *kd_dtype_name(kd_dtype t) { return dtypes[t].name; }

bool kd_dtype_parse(const char *name, kd_dtype *t)
{
    for (int i = 0; i < KD_DTYPES; i++)
        if (!strcmp(dtypes[i].name, name)) {
            *t = (kd_dtype)i;
            return true;
        }
    return false;
}

// Shapes -------------------------------------------------------------------------------------------------------

kd_shape kd_shape_of(int n, const int64_t *d)
{
    assert(n >= 0 && n <= KD_MAX_DIMS);
    kd_shape s = { .n = n };
    if (n)
        memcpy(s.d, d, (size_t)n * sizeof *d);
    return s;
}

int64_t kd_shape_count(const kd_shape *s)
{
    int64_t count = 1;
    for (int i = 0; i < s->n; i++)
        count *= s->d[i];
    return count;
}

bool kd_shape_same(const kd_shape *a, const kd_shape *b)
{
    return a->n == b->n && !memcmp(a->d, b->d, (size_t)a->n * sizeof *a->d);
}

char *kd_shape_str(char *buf, size_t room, const kd_shape *s)
{
    size_t at = 0;
    snprintf(buf, room, "[]");
    for (int i = 0; i < s->n && at < room; i++)
        at += (size_t)snprintf(buf + at, room - at, "%s%lld%s", i ? "," : "[", (long long)s->d[i], i + 1 == s->n ? "]" : "");
    return buf;
}

int64_t kd_tensor_count(const kd_tensor *t) { return kd_shape_count(&t->shape); }
size_t kd_tensor_bytes(const kd_tensor *t) { return (size_t)kd_tensor_count(t) * kd_dtype_size(t->dtype); }

void kd_tensor_release(kd_tensor *t)
{
    if (!t->borrowed)
        kd_free(t->data);
    t->data = NULL;
}

int64_t kd_find_not_finite(const float *v, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(v[i]))
            return i;
    return -1;
}

// Frames -------------------------------------------------------------------------------------------------------

kd_frame *kd_frame_new(void) { return kd_alloc(sizeof(kd_frame)); }

void kd_frame_free(kd_frame *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->n; i++) {
        free(f->t[i].name);
        kd_tensor_release(&f->t[i]);
    }
    for (int i = 0; i < f->n_meta; i++) {
        free(f->key[i]);
        free(f->value[i]);
    }
    free(f->t);
    free(f->key);
    free(f->value);
    kd_free(f);
}

static int room_for_tensor(kd_frame *f, kd_err *err)
{
    if (f->n < f->room)
        return 0;
    const int room = f->room ? 2 * f->room : 16;
    kd_tensor *t = kd_realloc(f->t, (size_t)room * sizeof *t);
    if (!t)
        return kd_fail_memory(err, "a list of tensors");
    f->t = t;
    f->room = room;
    return 0;
}

int kd_frame_add(kd_frame *f, const char *name, kd_dtype dtype, kd_shape shape, void *data, kd_tensor **out, kd_err *err)
{
    KD_TRY(room_for_tensor(f, err));
    kd_tensor t = { .name = kd_strdup(name), .dtype = dtype, .shape = shape, .data = data, .borrowed = data != NULL };
    if (!data)
        t.data = kd_alloc(kd_tensor_bytes(&t));
    if (!t.name || !t.data) {
        free(t.name);
        if (!data)
            kd_free(t.data);
        return kd_fail_memory(err, name);
    }
    f->t[f->n] = t;
    if (out)
        *out = &f->t[f->n];
    f->n++;
    return 0;
}

kd_tensor *kd_frame_get(const kd_frame *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->t[i].name, name))
            return &f->t[i];
    return NULL;
}

static int find_meta(const kd_frame *f, const char *key)
{
    for (int i = 0; i < f->n_meta; i++)
        if (!strcmp(f->key[i], key))
            return i;
    return -1;
}

static int room_for_meta(kd_frame *f, kd_err *err)
{
    if (f->n_meta < f->room_meta)
        return 0;
    const int room = f->room_meta ? 2 * f->room_meta : 8;
    char **key = kd_realloc(f->key, (size_t)room * sizeof *key);
    if (!key)
        return kd_fail_memory(err, "metadata");
    f->key = key;
    char **value = kd_realloc(f->value, (size_t)room * sizeof *value);
    if (!value)
        return kd_fail_memory(err, "metadata");
    f->value = value;
    f->room_meta = room;
    return 0;
}

static void remove_meta(kd_frame *f, int i)
{
    free(f->key[i]);
    free(f->value[i]);
    f->n_meta--;
    const size_t rest = (size_t)(f->n_meta - i);
    memmove(f->key + i, f->key + i + 1, rest * sizeof *f->key);
    memmove(f->value + i, f->value + i + 1, rest * sizeof *f->value);
}

int kd_frame_set_meta(kd_frame *f, const char *key, const char *value, kd_err *err)
{
    const int i = find_meta(f, key);
    if (!value) {
        if (i >= 0)
            remove_meta(f, i);
        return 0;
    }
    char *copy = kd_strdup(value);
    if (!copy)
        return kd_fail_memory(err, "metadata");
    if (i >= 0) {
        free(f->value[i]);
        f->value[i] = copy;
        return 0;
    }
    char *name = kd_strdup(key);
    if (!name || room_for_meta(f, err)) {
        free(name);
        free(copy);
        return kd_fail_memory(err, "metadata");
    }
    f->key[f->n_meta] = name;
    f->value[f->n_meta++] = copy;
    return 0;
}

const char *kd_frame_meta(const kd_frame *f, const char *key)
{
    const int i = find_meta(f, key);
    return i < 0 ? NULL : f->value[i];
}
