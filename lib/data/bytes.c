// Bytes of plain and gzip files. gzip data is unpacked by zlib, members one after another as one file.
#include "data/bytes.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { CHUNK = 1 << 15 };

struct kd_bytes {
    kd_in *in;
    bool packed, end;                                    // end: of the unpacked data
    z_stream z;
    uint8_t from[CHUNK], to[CHUNK];                      // packed bytes; unpacked ones, of which at..have are not yet taken
    size_t at, have;
};

int kd_bytes_open(kd_bytes **out, const char *path, kd_err *err)
{
    *out = NULL;
    kd_bytes *b = kd_alloc(sizeof *b);
    if (!b) return kd_fail_memory(err, "a file");
    int code = kd_in_open(&b->in, path, err);
    const void *head;
    if (!code && kd_in_peek(b->in, &head, 2) == 2 && !memcmp(head, "\x1f\x8b", 2)) {
        if (inflateInit2(&b->z, 16 + MAX_WBITS) == Z_OK) b->packed = true;         // 16: gzip, checksum verified
        else code = kd_fail_memory(err, "unpacking gzip");
    }
    if (code) kd_bytes_close(b);
    else *out = b;
    return code;
}

void kd_bytes_close(kd_bytes *b)
{
    if (!b) return;
    if (b->packed) inflateEnd(&b->z);
    kd_in_close(b->in);
    kd_free(b);
}

// The end of a member: another may follow; anything else after it is not gzip.
static int next_member(kd_bytes *b, kd_err *err)
{
    const void *head;
    size_t got = b->z.avail_in;
    if (got) head = b->z.next_in;
    else got = kd_in_peek(b->in, &head, 1);
    b->end = !got;
    if (got && *(const uint8_t *)head != 0x1f) return kd_fail(err, KD_EFORMAT, "gzip: other data after its end");
    if (got) inflateReset(&b->z);
    return 0;
}

// Unpacks some bytes into b->to; none only at the end.
static int fill(kd_bytes *b, kd_err *err)
{
    if (b->at) memmove(b->to, b->to + b->at, b->have - b->at);
    b->have -= b->at, b->at = 0;
    const size_t before = b->have;
    while (b->have == before && !b->end) {
        if (!b->z.avail_in) {
            size_t got;
            KD_TRY(kd_in_read(b->in, b->from, CHUNK, &got, err));
            if (!got) return kd_fail(err, KD_EFORMAT, "gzip: the file ends too early");
            b->z.next_in = b->from, b->z.avail_in = (uInt)got;
        }
        b->z.next_out = b->to + b->have, b->z.avail_out = (uInt)(CHUNK - b->have);
        const int code = inflate(&b->z, Z_NO_FLUSH);
        b->have = CHUNK - b->z.avail_out;
        if (code == Z_STREAM_END) KD_TRY(next_member(b, err));
        else if (code == Z_MEM_ERROR) return kd_fail_memory(err, "unpacking gzip");
        else if (code != Z_OK) return kd_fail(err, KD_EFORMAT, "gzip: %s", b->z.msg ? b->z.msg : "damaged data");
    }
    return 0;
}

int kd_bytes_peek(kd_bytes *b, const uint8_t **bytes, size_t n, size_t *got, kd_err *err)
{
    if (!b->packed) {
        const void *p;
        *got = kd_in_peek(b->in, &p, n);
        *bytes = p;
        return 0;
    }
    while (b->have - b->at < n && !b->end) KD_TRY(fill(b, err));
    *bytes = b->to + b->at;
    *got = b->have - b->at < n ? b->have - b->at : n;
    return 0;
}

int kd_bytes_read(kd_bytes *b, void *to, size_t n, size_t *got, kd_err *err)
{
    if (!b->packed) return kd_in_read(b->in, to, n, got, err);
    *got = 0;
    while (*got < n) {
        if (b->at == b->have) {
            if (b->end) break;
            KD_TRY(fill(b, err));
            continue;
        }
        const size_t left = n - *got, k = b->have - b->at < left ? b->have - b->at : left;
        memcpy((uint8_t *)to + *got, b->to + b->at, k);
        b->at += k, *got += k;
    }
    return 0;
}

int kd_bytes_rest(kd_bytes *b, size_t limit, uint8_t **to, size_t *n, kd_err *err)
{
    kd_str s = {0};
    int code = 0;
    int64_t left = kd_bytes_left(b);
    size_t step = left >= 0 ? (size_t)left + 1 : CHUNK, got = 1;     // one more: so that the end shows in the first read
    while (!code && got) {
        if (s.n > limit || (left >= 0 && (uint64_t)left > limit)) {
            code = kd_fail(err, KD_EFORMAT, "more than %zu bytes", limit);
            break;
        }
        if (s.room - s.n < step) {
            char *p = kd_realloc(s.p, s.n + step);
            if (!p) { code = kd_fail_memory(err, "a file"); break; }
            s.p = p, s.room = s.n + step;
        }
        const size_t want = s.room - s.n;
        code = kd_bytes_read(b, s.p + s.n, want, &got, err);
        s.n += got;
        if (got < want) break;
        step = s.n;
    }
    if (code) free(s.p);
    else *to = (uint8_t *)s.p, *n = s.n;
    return code;
}

bool kd_bytes_packed(const kd_bytes *b) { return b->packed; }
int64_t kd_bytes_left(const kd_bytes *b) { return b->packed ? -1 : kd_in_left(b->in); }
