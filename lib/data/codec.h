// What the files of lib/data share: the decoders behind kd_picture_decode, and a filter. Private to lib/data.
#ifndef KD_CODEC_H
#define KD_CODEC_H
#include "data/picture.h"

enum { KD_PICTURE_PIXELS = 1 << 28 };        // more is refused before allocating: a decompression bomb, not a training picture

/// Makes *p h x w x c, its pixels zero. errors KD_EFORMAT above KD_PICTURE_PIXELS, KD_EFAIL without memory
int kd_picture_alloc(kd_picture *p, int64_t h, int64_t w, int c, kd_err *err);

/// The decoders: pixels as stored, and the EXIF orientation (1 to 8) still to be applied in *turn.
int kd_png_decode(kd_picture *out, int *turn, const void *bytes, size_t n, const uint8_t background[3], kd_err *err);
int kd_jpeg_decode(kd_picture *out, int *turn, const void *bytes, size_t n, kd_err *err);

/// EXIF orientation, 1 to 8, of a block that begins with the TIFF header ("II*", "MM"); 1 if it says none.
int kd_exif_orientation(const void *tiff, size_t n);

/// Brings the picture into the position that EXIF orientation `turn` (1 to 8) asks for.
int kd_picture_turn(kd_picture *p, int turn, kd_err *err);

/// The weight of a place x from the centre: Keys 1981, "Cubic convolution interpolation", a = -1/2; 0 from |x| = 2 on.
double kd_filter_cubic(double x);

#endif
