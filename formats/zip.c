// Reading zip archives in memory. Page: formats/zip.md. The format: PKWARE's APPNOTE.TXT 6.3, its section numbers below.
#include "formats/zip.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL = 30, ENTRY = 46, END = 22, END64 = 56, LOCATOR64 = 20, COMMENT_MAX = 65535, EXTRA64 = 1,
       ENCRYPTED = 1, STORED = 0, DEFLATED = 8,
       RATIO_MAX = 1032 };                               // of deflate: 258 bytes from two bits (zlib's technical page)

struct kd_zip {
    const char *file;
    const uint8_t *bytes; size_t n;
    kd_zip_member *m; size_t n_members;                  // sorted by name
    size_t directory;                                    // where it starts: members end before it
};

static uint64_t le(const uint8_t *b, int n)
{
    uint64_t x = 0;
    for (int i = 0; i < n; i++)
        x |= (uint64_t)b[i] << 8 * i;
    return x;
}

static bool is(const uint8_t *b, const char magic[4]) { return !memcmp(b, magic, 4); }

static int fail(const kd_zip *z, kd_err *err, const char *what) { return kd_fail(err, KD_EFORMAT, "%s: zip: %s", z->file, what); }

static int fail_member(const kd_zip *z, const kd_zip_member *m, kd_err *err, const char *what)
{
    return kd_fail(err, KD_EFORMAT, "%s: zip: %.*s: %s", z->file, m->n_name < 100 ? (int)m->n_name : 100, m->name, what);
}

// The end record (4.3.16), and for large archives those before it (4.3.14, 4.3.15) -------------------------------

typedef struct end { uint64_t entries, size, offset, disk; size_t at; } end;

static int find_end(const kd_zip *z, size_t *at, kd_err *err)
{
    const size_t reach = z->n < END + COMMENT_MAX ? z->n : END + COMMENT_MAX;
    for (size_t back = 4; back <= reach; back++) {
        const uint8_t *b = z->bytes + z->n - back;
        if (!is(b, "PK\5\6"))
            continue;
        if (back < END)
            return kd_fail(err, KD_EFORMAT, "%s: zip: cut short: the end record has %zu of %d bytes", z->file, back, END);
        if (le(b + 20, 2) != back - END)
            continue;
        *at = z->n - back;
        return 0;
    }
    return fail(z, err, "no directory at its end: cut short or damaged");
}

static int read_end64(const kd_zip *z, end *e, kd_err *err)
{
    const uint8_t *locator = z->bytes + e->at - LOCATOR64;
    const uint64_t at = le(locator + 8, 8);
    if (at > e->at - LOCATOR64 || e->at - LOCATOR64 - at < END64 || !is(z->bytes + at, "PK\6\6"))
        return fail(z, err, "the zip64 end record is not where its locator says");
    const uint8_t *b = z->bytes + at;
    *e = (end){ .disk = le(b + 16, 4) | le(b + 20, 4), .entries = le(b + 32, 8), .size = le(b + 40, 8), .offset = le(b + 48, 8),
                .at = (size_t)at };
    return le(b + 24, 8) == e->entries ? 0 : fail(z, err, "an archive in several parts");
}

static int read_end(const kd_zip *z, end *e, kd_err *err)
{
    size_t at = 0;
    KD_TRY(find_end(z, &at, err));
    const uint8_t *b = z->bytes + at;
    *e = (end){ .disk = le(b + 4, 2) | le(b + 6, 2), .entries = le(b + 10, 2), .size = le(b + 12, 4), .offset = le(b + 16, 4), .at = at };
    if (at >= LOCATOR64 && is(b - LOCATOR64, "PK\6\7"))
        KD_TRY(read_end64(z, e, err));
    else if (le(b + 8, 2) != e->entries)
        return fail(z, err, "an archive in several parts");
    if (e->disk)
        return fail(z, err, "an archive in several parts");
    if (e->offset > e->at || e->size != e->at - e->offset)
        return fail(z, err, "the directory does not end at the end record");
    if (e->entries > e->size / ENTRY)
        return fail(z, err, "the directory is too short for its entries");
    return 0;
}

// The directory (4.3.12) ---------------------------------------------------------------------------------------

// Sizes that are all ones stand in the extra field instead, in this order (4.5.3).
static int read_extra64(const kd_zip *z, const uint8_t *extra, size_t n, uint64_t *const value[3], const kd_zip_member *m, kd_err *err)
{
    size_t at = 0, len = 0;
    while (at + 4 <= n && le(extra + at, 2) != EXTRA64)
        at += 4 + (size_t)le(extra + at + 2, 2);
    if (at + 4 <= n)
        len = (size_t)le(extra + at + 2, 2);
    at += 4;
    for (int i = 0; i < 3; i++) {
        if (*value[i] != UINT32_MAX)
            continue;
        if (len < 8 || at + 8 > n)
            return fail_member(z, m, err, "a large size without its zip64 field");
        *value[i] = le(extra + at, 8);
        at += 8;
        len -= 8;
    }
    return 0;
}

// The local header (4.3.7) repeats the name; its sizes may be 0 where a writer did not know them yet.
static int read_local(const kd_zip *z, kd_zip_member *m, uint64_t at, uint64_t packed, kd_err *err)
{
    if (at > z->directory || z->directory - at < LOCAL || !is(z->bytes + at, "PK\3\4"))
        return fail_member(z, m, err, "no member where the directory says");
    const uint8_t *b = z->bytes + at;
    const size_t n_name = (size_t)le(b + 26, 2), skip = LOCAL + n_name + (size_t)le(b + 28, 2), room = z->directory - (size_t)at;
    if (skip > room || packed > room - skip)
        return fail_member(z, m, err, "reaches beyond the end of the members");
    if (n_name != m->n_name || memcmp(b + LOCAL, m->name, n_name))
        return fail_member(z, m, err, "has another name in its own header");
    m->at = (size_t)at + skip;
    m->packed = z->bytes + m->at;
    m->n_packed = (size_t)packed;
    return 0;
}

static int read_entry(const kd_zip *z, kd_zip_member *m, size_t *at, size_t stop, kd_err *err)
{
    const uint8_t *b = z->bytes + *at;
    if (stop - *at < ENTRY || !is(b, "PK\1\2"))
        return fail(z, err, "the directory is damaged");
    const size_t n_name = (size_t)le(b + 28, 2), n_extra = (size_t)le(b + 30, 2), all = ENTRY + n_name + n_extra + (size_t)le(b + 32, 2);
    if (stop - *at < all)
        return fail(z, err, "the directory is damaged");
    uint64_t size = le(b + 24, 4), packed = le(b + 20, 4), offset = le(b + 42, 4);
    uint64_t *const large[3] = { &size, &packed, &offset };
    *m = (kd_zip_member){ .name = (const char *)b + ENTRY, .n_name = n_name, .crc = (uint32_t)le(b + 16, 4) };
    KD_TRY(read_extra64(z, b + ENTRY + n_name, n_extra, large, m, err));
    const int flags = (int)le(b + 8, 2), method = (int)le(b + 10, 2);
    if (flags & ENCRYPTED)
        return fail_member(z, m, err, "encrypted");
    if (method != STORED && method != DEFLATED)
        return kd_fail(err, KD_EFORMAT, "%s: zip: %.*s: packed by method %d: only stored and deflated members are read", z->file,
                       n_name < 100 ? (int)n_name : 100, m->name, method);
    m->deflated = method == DEFLATED;
    if (!m->deflated && size != packed)
        return fail_member(z, m, err, "stored, but of two sizes");
    m->size = size;
    *at += all;
    return read_local(z, m, offset, packed, err);
}

// Order and folder ---------------------------------------------------------------------------------------------

static int by_place(const void *x, const void *y)
{
    const kd_zip_member *a = x, *b = y;
    return a->at < b->at ? -1 : a->at > b->at;
}

static int compare_names(const char *a, size_t n, const char *b, size_t m)
{
    const int c = memcmp(a, b, n < m ? n : m);
    return c ? c : n < m ? -1 : n > m;
}

static int by_name(const void *x, const void *y)
{
    const kd_zip_member *a = x, *b = y;
    return compare_names(a->name, a->n_name, b->name, b->n_name);
}

// A member's header begins where the one before has ended, or later (there may be a descriptor between).
static int check_order(const kd_zip *z, kd_err *err)
{
    qsort(z->m, z->n_members, sizeof *z->m, by_place);
    for (size_t i = 1; i < z->n_members; i++) {
        const kd_zip_member *last = &z->m[i - 1], *m = &z->m[i];
        if (m->at - LOCAL - m->n_name < last->at + last->n_packed)
            return fail_member(z, m, err, "overlaps another member");
    }
    return 0;
}

static int strip_folder(const kd_zip *z, kd_err *err)
{
    if (!z->n_members)
        return fail(z, err, "empty");
    const char *slash = memchr(z->m[0].name, '/', z->m[0].n_name);
    const size_t n = slash ? (size_t)(slash - z->m[0].name) + 1 : 0;
    for (size_t i = 0; i < z->n_members && n; i++) {
        kd_zip_member *m = &z->m[i];
        if (m->n_name < n || memcmp(m->name, z->m[0].name, n))
            return fail_member(z, m, err, "not in the folder of the others");
    }
    for (size_t i = 0; i < z->n_members; i++) {
        z->m[i].name += n;
        z->m[i].n_name -= n;
    }
    qsort(z->m, z->n_members, sizeof *z->m, by_name);
    for (size_t i = 1; i < z->n_members; i++)
        if (!by_name(&z->m[i - 1], &z->m[i]))
            return fail_member(z, &z->m[i], err, "is there twice");
    return 0;
}

static int read_directory(kd_zip *z, kd_err *err)
{
    end e = {0};
    KD_TRY(read_end(z, &e, err));
    z->directory = (size_t)e.offset;
    z->m = kd_alloc((size_t)e.entries * sizeof *z->m);
    if (!z->m)
        return kd_fail_memory(err, z->file);
    size_t at = z->directory;
    for (uint64_t i = 0; i < e.entries; i++)
        KD_TRY(read_entry(z, &z->m[z->n_members++], &at, e.at, err));
    if (at != e.at)
        return fail(z, err, "the directory is longer than its entries");
    KD_TRY(check_order(z, err));
    return strip_folder(z, err);
}

int kd_zip_open(kd_zip **out, const char *file, const void *bytes, size_t n, kd_err *err)
{
    kd_zip *z = kd_alloc(sizeof *z);
    *out = NULL;
    if (!z)
        return kd_fail_memory(err, file);
    z->file = file;
    z->bytes = bytes;
    z->n = n;
    const int code = read_directory(z, err);
    if (code)
        kd_zip_close(z);
    else
        *out = z;
    return code;
}

void kd_zip_close(kd_zip *z)
{
    if (!z)
        return;
    kd_free(z->m);
    kd_free(z);
}

const kd_zip_member *kd_zip_find(const kd_zip *z, const char *name)
{
    const kd_zip_member key = { .name = name, .n_name = strlen(name) };
    return bsearch(&key, z->m, z->n_members, sizeof key, by_name);
}

// Bytes --------------------------------------------------------------------------------------------------------

static uint32_t crc_of(const uint8_t *bytes, size_t n) { return (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, n); }

static size_t at_most(size_t n) { return n < 1 << 30 ? n : 1 << 30; }          // zlib counts in 32 bits

// Exactly m->size bytes into `to`, from exactly m->n_packed.
static bool inflate_all(const kd_zip_member *m, uint8_t *to)
{
    z_stream s = {0};
    size_t in = 0, out = 0;
    int code = inflateInit2(&s, -MAX_WBITS);             // raw: zip has its own checksum
    if (code != Z_OK)
        return false;
    while (code == Z_OK) {
        const size_t n_in = at_most(m->n_packed - in), n_out = at_most(m->size - out);
        s.next_in = (Bytef *)(uintptr_t)(m->packed + in);
        s.avail_in = (uInt)n_in;
        s.next_out = to + out;
        s.avail_out = (uInt)n_out;
        code = inflate(&s, Z_NO_FLUSH);                  // Z_BUF_ERROR if it can do nothing: ends the loop
        in += n_in - s.avail_in;
        out += n_out - s.avail_out;
    }
    inflateEnd(&s);
    return code == Z_STREAM_END && in == m->n_packed && out == m->size;
}

const kd_zip_member *kd_zip_at(const kd_zip *z, size_t i) { return i < z->n_members ? &z->m[i] : NULL; }

int kd_zip_read(const kd_zip *z, const kd_zip_member *m, const uint8_t **bytes, void **block, kd_err *err)
{
    *block = NULL;
    *bytes = m->packed;
    if (m->deflated) {
        if (m->size / RATIO_MAX > m->n_packed)
            return fail_member(z, m, err, "claims more bytes than deflate can make of it");
        uint8_t *to = kd_alloc(m->size);
        if (!to)
            return kd_fail_memory(err, z->file);
        if (!inflate_all(m, to)) {
            kd_free(to);
            return fail_member(z, m, err, "its packed bytes are damaged");
        }
        *bytes = *block = to;
    }
    if (crc_of(*bytes, m->size) == m->crc)
        return 0;
    kd_free(*block);
    *block = NULL;
    return fail_member(z, m, err, "its checksum (CRC-32) is another: damaged");
}
