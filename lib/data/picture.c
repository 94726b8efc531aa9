// Pictures in memory: what a file is, decoding, grey and colour. The decoders are in *_decode.c, resizing in resize.c.
#include "data/picture.h"
#include "base/memory.h"
#include "data/codec.h"
#include <string.h>

int kd_picture_alloc(kd_picture *p, int64_t h, int64_t w, int c, kd_err *err)
{
    int64_t pixels;
    if (h < 1 || w < 1 || !kd_mul(h, w, &pixels) || pixels > KD_PICTURE_PIXELS)
        return kd_fail(err, KD_EFORMAT, "%lldx%lld pixels: more than 2^28 are not read", (long long)w, (long long)h);
    uint8_t *bytes = kd_alloc((size_t)pixels * (size_t)c);
    if (!bytes) return kd_fail_memory(err, "a picture");
    p->p = bytes;
    p->h = h, p->w = w, p->c = c;
    return 0;
}

void kd_picture_free(kd_picture *p)
{
    kd_free(p->p);
    p->p = NULL;
}

// First bytes that tell kinds of files apart. Kinds that no reader takes are here too: a reason to skip should have a name.
static const struct { const char *kind; size_t at, n; const char *bytes; } signatures[] = {
    { "png", 0, 8, "\x89PNG\r\n\x1a\n" },
    { "jpeg", 0, 3, "\xff\xd8\xff" },
    { "gzip", 0, 2, "\x1f\x8b" },
    { "webp", 8, 4, "WEBP" },
    { "gif", 0, 4, "GIF8" },
    { "bmp", 0, 2, "BM" },
    { "tiff", 0, 4, "II*\0" },
    { "tiff", 0, 4, "MM\0*" },
    { "netpbm", 0, 3, "P4\n" }, { "netpbm", 0, 3, "P5\n" }, { "netpbm", 0, 3, "P6\n" },
    { "heif", 4, 8, "ftypheic" }, { "avif", 4, 8, "ftypavif" },
    { "zip", 0, 4, "PK\x03\x04" },
    { "tar", 257, 5, "ustar" },
    { "npy", 0, 6, "\x93NUMPY" },
};

const char *kd_sniff(const void *bytes, size_t n)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (n >= signatures[i].at + signatures[i].n && !memcmp(b + signatures[i].at, signatures[i].bytes, signatures[i].n))
            return signatures[i].kind;
    // IDX: two zeros, the element type (08 bytes, 09, 0B to 0E others), the number of dimensions.
    if (n >= 4 && !b[0] && !b[1] && b[2] >= 8 && b[2] <= 14 && b[3] >= 1 && b[3] <= 4) return "idx";
    return NULL;
}

int kd_picture_decode(kd_picture *out, const void *bytes, size_t n, const uint8_t background[3], kd_err *err)
{
    const char *kind = kd_sniff(bytes, n);
    int turn = 1, code;
    *out = (kd_picture){0};
    if (kind && !strcmp(kind, "png")) code = kd_png_decode(out, &turn, bytes, n, background, err);
    else if (kind && !strcmp(kind, "jpeg")) code = kd_jpeg_decode(out, &turn, bytes, n, err);
    else code = kd_fail(err, KD_EFORMAT, "neither PNG nor JPEG");
    if (!code) code = kd_picture_turn(out, turn, err);
    if (code) kd_picture_free(out);
    return code;
}

int kd_picture_channels(kd_picture *p, int c, kd_err *err)
{
    if (p->c == c) return 0;
    kd_picture to = *p;
    KD_TRY(kd_picture_alloc(&to, p->h, p->w, c, err));
    const int64_t pixels = p->h * p->w;
    for (int64_t i = 0; i < pixels; i++) {
        if (c == 3) {
            memset(to.p + 3 * i, p->p[i], 3);
        } else {                                          // ITU-R 601-2 luma, rounded, in 16 bits: Pillow's convert("L")
            const uint8_t *q = p->p + 3 * i;
            to.p[i] = (uint8_t)((19595u * q[0] + 38470u * q[1] + 7471u * q[2] + 32768u) >> 16);
        }
    }
    kd_picture_free(p);
    *p = to;
    return 0;
}
