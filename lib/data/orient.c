// The position a camera says a picture has: EXIF tag 0x0112 (CIPA DC-008, 4.6.4 A), read by libexif and applied here.
#include "data/codec.h"
#include "base/memory.h"
#include <libexif/exif-data.h>
#include <string.h>

int kd_exif_orientation(const void *tiff, size_t n)
{
    static const char start[6] = "Exif\0";                // libexif takes a block only behind these six bytes
    if (n < 8 || n > 1 << 24) return 1;
    uint8_t *block = kd_alloc(n + sizeof start);
    ExifData *exif = block ? exif_data_new() : NULL;
    int turn = 1;
    if (exif) {
        memcpy(block, start, sizeof start);
        memcpy(block + sizeof start, tiff, n);
        exif_data_unset_option(exif, EXIF_DATA_OPTION_FOLLOW_SPECIFICATION);     // as written, not as it should be
        exif_data_load_data(exif, block, (unsigned)(n + sizeof start));
        ExifEntry *e = exif_content_get_entry(exif->ifd[EXIF_IFD_0], EXIF_TAG_ORIENTATION);
        if (e && e->format == EXIF_FORMAT_SHORT && e->components == 1 && e->size >= 2)
            turn = exif_get_short(e->data, exif_data_get_byte_order(exif));
        exif_data_unref(exif);
    }
    kd_free(block);
    return turn >= 1 && turn <= 8 ? turn : 1;
}

int kd_picture_turn(kd_picture *p, int turn, kd_err *err)
{
    //   1 as it is   2 mirrored   3 turned by 180   4 upside down    5 to 8: the same of the transposed picture
    if (turn == 1) return 0;
    const int64_t h = p->h, w = p->w, c = p->c;
    const int swap = turn >= 5;
    // Where the stored pixel of output (y, x) is: rows from the bottom, columns from the right?
    const int up = turn == 3 || turn == 4 || turn == 7 || turn == 8;
    const int left = turn == 2 || turn == 3 || turn == 6 || turn == 7;
    kd_picture to = *p;
    KD_TRY(kd_picture_alloc(&to, swap ? w : h, swap ? h : w, (int)c, err));
    for (int64_t y = 0; y < to.h; y++) {
        for (int64_t x = 0; x < to.w; x++) {
            // Output coordinates are flipped first, then transposed back to the stored ones.
            const int64_t fy = up ? to.h - 1 - y : y, fx = left ? to.w - 1 - x : x;
            const int64_t sy = swap ? fx : fy, sx = swap ? fy : fx;
            memcpy(to.p + (y * to.w + x) * c, p->p + (sy * w + sx) * c, (size_t)c);
        }
    }
    to.had_rotation = true;
    kd_picture_free(p);
    *p = to;
    return 0;
}
