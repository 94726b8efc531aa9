// Page: formats/npz.md
#include "formats/npz.h"
#include "base/memory.h"
#include "formats/zip.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct kd_npz_memory {
    void *map; size_t mapped;      // a regular file
    char *read;                    // or what was read of a pipe
    void **block; int blocks, room;        // arrays that are not as they lie there
    kd_zip *zip;
};

bool kd_npz_knows(const void *bytes, size_t n) { return n >= 4 && !memcmp(bytes, "PK\3\4", 4); }

void kd_npz_free(kd_npz *z)
{
    if (!z) return;
    struct kd_npz_memory *m = z->memory;
    kd_frame_free(z->arrays);
    if (m) {
        kd_zip_close(m->zip);
        if (m->map) munmap(m->map, m->mapped);
        for (int i = 0; i < m->blocks; i++) kd_free(m->block[i]);
        free(m->block);
        free(m->read);
    }
    kd_free(m);
    kd_free(z);
}

// The bytes of the input ---------------------------------------------------------------------------------------------

static int map(struct kd_npz_memory *m, const char *path, kd_err *err)
{
    struct stat s;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &s) && s.st_size > 0) {
        m->mapped = (size_t)s.st_size;
        m->map = mmap(NULL, m->mapped, PROT_READ, MAP_PRIVATE, fd, 0);
        if (m->map == MAP_FAILED) m->map = NULL;
    }
    if (fd >= 0) close(fd);
    return m->map ? 0 : kd_fail(err, KD_EFAIL, "%s: cannot be mapped", path);
}

static int read_all(kd_str *s, kd_in *in, kd_err *err)
{
    char part[65536];
    for (size_t got = sizeof part; got == sizeof part;) {
        KD_TRY(kd_in_read(in, part, sizeof part, &got, err));
        KD_TRY(kd_str_add(s, part, got, err));
    }
    return 0;
}

static int keep(struct kd_npz_memory *m, void *block, kd_err *err)
{
    if (m->blocks == m->room) {
        void **more = kd_realloc(m->block, (size_t)(m->room + 8) * sizeof *more);
        if (!more) {
            kd_free(block);
            return kd_fail_memory(err, "arrays");
        }
        m->block = more, m->room += 8;
    }
    m->block[m->blocks++] = block;
    return 0;
}

// One array ------------------------------------------------------------------------------------------------------------

struct header { kd_dtype dtype; bool fortran; kd_shape shape; size_t at; };

// The text after 'KEY': in the header, or NULL.
static const char *value(const char *text, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(text, quoted);
    if (!at) return NULL;
    at += strlen(quoted);
    return at + strspn(at, " ");
}

static bool parse_type(const char *text, kd_dtype *to)
{
    static const struct { const char *name; kd_dtype dtype; } types[] = { { "b1", KD_BOOL }, { "u1", KD_U8 }, { "i1", KD_I8 },
        { "u2", KD_U16 }, { "i2", KD_I16 }, { "f2", KD_F16 }, { "u4", KD_U32 }, { "i4", KD_I32 }, { "f4", KD_F32 }, { "u8", KD_U64 },
        { "i8", KD_I64 }, { "f8", KD_F64 } };
    if (!text || text[0] != '\'' || !text[1] || !strchr("<=|", text[1])) return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strncmp(text + 2, types[i].name, 2) && text[4] == '\'') {
            *to = types[i].dtype;
            return true;
        }
    return false;
}

static bool parse_shape(const char *text, kd_shape *to)
{
    *to = (kd_shape){0};
    if (!text || *text++ != '(') return false;
    for (;;) {
        text += strspn(text, " ,");
        if (*text == ')') return true;
        char *end;
        if (*text < '0' || *text > '9' || to->n == KD_MAX_DIMS) return false;
        const long long d = strtoll(text, &end, 10);
        if (end - text > 15) return false;
        to->d[to->n++] = d;
        text = end;
    }
}

static int parse(struct header *h, const uint8_t *bytes, size_t n, const char *where, kd_err *err)
{
    if (n < 12 || memcmp(bytes, "\x93NUMPY", 6) || bytes[6] < 1 || bytes[6] > 3)
        return kd_fail(err, KD_EFORMAT, "%s: not an array of numpy", where);
    const size_t start = bytes[6] == 1 ? 10 : 12;
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    if (start == 12) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > n - start || length > 65535) return kd_fail(err, KD_EFORMAT, "%s: its header ends after %zu bytes", where, n - start);
    char *text = strndup((const char *)bytes + start, length);
    if (!text) return kd_fail_memory(err, "an array's header");
    const char *type = value(text, "descr"), *order = value(text, "fortran_order");
    int code = 0;
    h->at = start + length;
    h->fortran = order && !strncmp(order, "True", 4);
    if (!parse_type(type, &h->dtype))
        code = kd_fail(err, KD_EFORMAT, "%s: elements of type %.*s cannot be read", where,
                       type ? (int)strcspn(type, ",") : 7, type ? type : "unknown");
    else if (!order || !parse_shape(value(text, "shape"), &h->shape)) code = kd_fail(err, KD_EFORMAT, "%s: a damaged header", where);
    else if (h->fortran && h->shape.n > 2) code = kd_fail(err, KD_EFORMAT, "%s: more than two axes in Fortran's order", where);
    free(text);
    return code;
}

static int check_size(const struct header *h, size_t n, const char *where, kd_err *err)
{
    int64_t bytes = (int64_t)kd_dtype_size(h->dtype);
    bool fits = true;
    for (int i = 0; i < h->shape.n; i++) fits = fits && kd_mul(bytes, h->shape.d[i], &bytes);
    if (fits && (uint64_t)bytes == n - h->at) return 0;
    char shape[128];
    return kd_fail(err, KD_EFORMAT, "%s: %s %s in %zu bytes", where, kd_dtype_name(h->dtype),
                   kd_shape_str(shape, sizeof shape, &h->shape), n - h->at);
}

// Elements in C order, where a tensor may be: aligned as its type.
static int place(void **to, struct kd_npz_memory *m, const struct header *h, const uint8_t *from, kd_err *err)
{
    const size_t size = kd_dtype_size(h->dtype);
    const int64_t n = kd_shape_count(&h->shape), rows = h->shape.d[0], cols = h->shape.d[1];
    *to = (void *)(uintptr_t)from;
    if (!(h->fortran && h->shape.n == 2) && (uintptr_t)from % size == 0) return 0;
    char *copy = kd_alloc((size_t)n * size + 1);
    if (!copy) return kd_fail_memory(err, "arrays");
    *to = copy;
    KD_TRY(keep(m, copy, err));
    if (!h->fortran || h->shape.n < 2) memcpy(copy, from, (size_t)n * size);
    else
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) memcpy(copy + (size_t)(i * cols + j) * size, from + (size_t)(j * rows + i) * size, size);
    return 0;
}

static int add(kd_npz *z, const kd_zip_member *member, const char *file, kd_err *err)
{
    char where[300], name[128];
    const uint8_t *bytes;
    void *block = NULL, *data;
    struct header h;
    snprintf(where, sizeof where, "%.150s: %.*s", file, member->n_name < 100 ? (int)member->n_name : 100, member->name);
    snprintf(name, sizeof name, "%.*s", member->n_name < 104 ? (int)member->n_name - 4 : 100, member->name);
    KD_TRY(kd_zip_read(z->memory->zip, member, &bytes, &block, err));
    if (block) KD_TRY(keep(z->memory, block, err));
    KD_TRY(parse(&h, bytes, member->size, where, err));
    KD_TRY(check_size(&h, member->size, where, err));
    KD_TRY(place(&data, z->memory, &h, bytes + h.at, err));
    return kd_frame_add(z->arrays, name, h.dtype, h.shape, data, NULL, err);
}

static int open_archive(kd_npz *z, kd_in *in, kd_err *err)
{
    struct kd_npz_memory *m = z->memory;
    kd_str s = {0};
    const char *file = kd_in_name(in);
    const bool regular = strcmp(file, "stdin") && kd_in_left(in) >= 0 && kd_in_offset(in) == 0;
    if (regular) KD_TRY(map(m, file, err));
    else {
        const int code = read_all(&s, in, err);
        m->read = s.p;
        KD_TRY(code);
    }
    return kd_zip_open(&m->zip, file, regular ? m->map : m->read, regular ? m->mapped : s.n, err);
}

int kd_npz_read(kd_npz **out, kd_in *in, kd_err *err)
{
    kd_npz *z = kd_alloc(sizeof *z);
    const kd_zip_member *member;
    if (!z || !(z->memory = kd_alloc(sizeof *z->memory)) || !(z->arrays = kd_frame_new())) {
        kd_npz_free(z);
        return kd_fail_memory(err, "arrays");
    }
    int code = open_archive(z, in, err);
    for (size_t i = 0; !code && (member = kd_zip_at(z->memory->zip, i)); i++)
        if (member->n_name > 4 && !memcmp(member->name + member->n_name - 4, ".npy", 4)) code = add(z, member, kd_in_name(in), err);
    if (!code && !z->arrays->n) code = kd_fail(err, KD_EUSAGE, "%s: an archive without arrays of numpy", kd_in_name(in));
    if (code) kd_npz_free(z);
    else *out = z;
    return code;
}
