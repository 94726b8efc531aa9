// Many images as one picture: rows of equal cells with gaps between them.
#ifndef KD_GRID_H
#define KD_GRID_H
#include "base/err.h"
#include <stdint.h>

typedef struct kd_grid {
    uint8_t *p; int64_t h, w; int c;   // pixels [h,w,c]
} kd_grid;

/// Lays out n >= 1 images [n,h,w,c] of 8 bits in rows of `cols`, the last row filled up with white, `pad` white pixels
/// between images (none around), each pixel of an image drawn as scale x scale.
/// cols   0: the smallest whole number whose square holds n; at most n are made
/// errors KD_EUSAGE if the picture would have more than 2^31 - 1 pixels on a side (PNG's limit), KD_EFAIL without memory
int kd_grid_make(kd_grid *g, const uint8_t *image, int64_t n, int64_t h, int64_t w, int c, int64_t cols, int64_t pad,
                 int64_t scale, kd_err *err);
/// The same with one row a class that occurs, in the order of the classes; within a row in the order of the images.
/// label  [n]
int kd_grid_by_class(kd_grid *g, const uint8_t *image, const int64_t *label, int64_t n, int64_t h, int64_t w, int c, int64_t pad,
                     int64_t scale, kd_err *err);
void kd_grid_free(kd_grid *g);         // leaves it zeroed
#endif
