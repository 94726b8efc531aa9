// PNG out (libpng): grids and single images.
#ifndef KD_PNG_H
#define KD_PNG_H
#include "base/io.h"

/// Writes h x w x c (1 or 3) 8-bit pixels, rows contiguous, as a PNG. text: NULL, or a kd history line for a tEXt chunk.
int kd_png_write(kd_out *out, const uint8_t *pixels, int64_t h, int64_t w, int c, const char *text, kd_err *err);
#endif
