// Pictures in memory: decoding by content, orientation, colour, resizing as Pillow does it.
#ifndef KD_PICTURE_H
#define KD_PICTURE_H
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// 8-bit pixels, rows contiguous, c = 1 grey, 3 RGB. `had` notes what decoding changed, for kd-prep's report; had_alpha: some
/// pixel was not opaque.
typedef struct kd_picture {
    uint8_t *p; int64_t h, w; int c;
    bool had_alpha, had_palette, had_rotation, had_16bit, had_cmyk;
} kd_picture;
void kd_picture_free(kd_picture *p);                     // frees p->p; safe on a zeroed one

/// What a file is, from its first bytes, never from its name: "png", "jpeg", "idx", "gzip"; a name for some kinds that are not
/// read ("webp", "gif", ...), so that a person can be told; else NULL.
const char *kd_sniff(const void *bytes, size_t n);

/// Decodes PNG (any colour type, 1-16 bits, interlaced, palette and palette transparency) or JPEG (grey, YCbCr, RGB,
/// CMYK/YCCK by Adobe's inversion; libjpeg's accurate IDCT and fancy upsampling).
///   alpha       composited on `background`, before resizing: round((a*c + (255-a)*bg) / 255) per channel
///   16 bits     scaled to 8 by (v + 128) / 257, rounded; alpha is composited at 16 bits first
///   EXIF        orientation applied (libexif reads it)
/// errors  KD_EFORMAT with the reason ("PNG: CRC error in IDAT", "JPEG: premature end of file")
/// Decompression bombs: more than 2^28 pixels is refused before allocating.
int kd_picture_decode(kd_picture *out, const void *bytes, size_t n, const uint8_t background[3], kd_err *err);

/// Grey to colour (copy) or colour to grey (Pillow's L: (19595 r + 38470 g + 7471 b + 32768) >> 16), in place.
int kd_picture_channels(kd_picture *p, int c, kd_err *err);

typedef enum { KD_BOX, KD_BILINEAR, KD_BICUBIC, KD_LANCZOS } kd_filter;
/// Pillow's Image.resize on 8-bit pixels, to the grey level (tests/golden/prep). h, w > 0. Which axis goes first follows
/// Pillow 13; for pictures more than twice as high as wide, and for some stretched ones, earlier versions differ by some levels.
int kd_picture_resize(kd_picture *p, int64_t h, int64_t w, kd_filter filter, kd_err *err);

/// The smallest size of the same proportions that covers *h x *w: one side as it is, the other rounded down.
void kd_picture_cover(int64_t from_h, int64_t from_w, int64_t *h, int64_t *w);
/// Cover and centre crop, as torchvision's Resize and CenterCrop: one side fits exactly, the other is cut, offset
/// (resized - size) / 2 with halves rounded to even. crop false: stretched.
int kd_picture_fit(kd_picture *p, int64_t h, int64_t w, kd_filter filter, bool crop, kd_err *err);

#endif
