// unet.cu's image files (clu0/unet.cu, prepare_data.py), a header of 256 i32, little-endian, and pixels:
//   word  0         1      2         3       4
//         20240620  count  channels  height  width     the others 0
//   f32 [count, channels, height, width] = grey level / 127.5 - 1
#include "base/memory.h"
#include "data/codec.h"
#include "data/reader.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = 20240620, HEADER = 256 * 4 };

struct unetcu { int64_t n, at, c, h, w; float *image; };     // image: [c, h, w], the one being read

static int32_t word(const uint8_t *b, int i)
{
    int32_t x;
    memcpy(&x, b + 4 * i, 4);
    return x;
}

static bool knows(const kd_head *h) { return h->n >= 20 && word(h->bytes, 0) == MAGIC; }

static int open_images(kd_reader *r, char **of, kd_err *err)
{
    uint8_t b[HEADER];
    size_t got;
    int64_t area, size = 0;
    (void)of;
    struct unetcu *x = r->own = kd_alloc(sizeof *x);
    if (!x) return kd_fail_memory(err, "a file of images");
    KD_TRY(kd_bytes_read(r->in, b, sizeof b, &got, err));
    if (got < sizeof b) return kd_fail(err, KD_EFORMAT, "unet.cu: the header ends after %zu of %d bytes", got, HEADER);
    x->n = word(b, 1), x->c = word(b, 2), x->h = word(b, 3), x->w = word(b, 4);
    const bool fits = x->n >= 0 && (x->c == 1 || x->c == 3) && x->h > 0 && x->w > 0 && kd_mul(x->h, x->w, &area) &&
                      area <= KD_PICTURE_PIXELS && kd_mul(area, 4 * x->c, &size);
    if (!fits)
        return kd_fail(err, KD_EFORMAT, "unet.cu: %lld images of %lldx%lld with %lld channels", (long long)x->n, (long long)x->w,
                       (long long)x->h, (long long)x->c);
    const int64_t left = kd_bytes_left(r->in);
    if (left >= 0 && left / size < x->n)
        return kd_fail(err, KD_EFORMAT, "unet.cu: %lld images of %lldx%lld in the header, data for %lld", (long long)x->n,
                       (long long)x->w, (long long)x->h, (long long)(left / size));
    x->image = kd_alloc((size_t)size);
    return x->image ? 0 : kd_fail_memory(err, "an image");
}

static int check_end(kd_bytes *in, kd_err *err)
{
    uint8_t more;
    size_t got;
    KD_TRY(kd_bytes_read(in, &more, 1, &got, err));
    return got ? kd_fail(err, KD_EFORMAT, "unet.cu: more data than the header says") : 0;
}

// The grey level that a pixel came from; those that came from none round to the nearest.
static int next(kd_reader *r, kd_item *item, bool *got, kd_err *err)
{
    struct unetcu *x = r->own;
    *got = x->at < x->n;
    if (!*got) return check_end(r->in, err);
    const int64_t area = x->h * x->w, size = area * x->c * 4;
    size_t n;
    KD_TRY(kd_bytes_read(r->in, x->image, (size_t)size, &n, err));
    if (n < (size_t)size)
        return kd_fail(err, KD_EFORMAT, "unet.cu: ends in image %lld of %lld", (long long)x->at + 1, (long long)x->n);
    KD_TRY(kd_picture_alloc(&item->picture, x->h, x->w, (int)x->c, err));
    for (int64_t k = 0; k < x->c; k++)
        for (int64_t i = 0; i < area; i++) {
            const float v = x->image[k * area + i];
            if (!(v >= -1 && v <= 1))
                return kd_fail(err, KD_EFORMAT, "unet.cu: image %lld has a pixel of %g, not in -1 to 1", (long long)x->at, (double)v);
            item->picture.p[i * x->c + k] = (uint8_t)lroundf((v + 1) * 127.5f);
        }
    x->at++;
    return 0;
}

static void close_images(kd_reader *r)
{
    struct unetcu *x = r->own;
    if (x) kd_free(x->image);
    kd_free(x);
}

const kd_reader_kind kd_read_unetcu = { .name = "unet.cu", .channels = 3, .many = true, .knows = knows, .open = open_images,
                                        .next = next, .close = close_images };
