// PNG in, by libpng: every colour type and depth to 8-bit grey or RGB, transparency composited. Gamma and colour
// profiles are left alone, as the peers do.
#include "data/codec.h"
#include "base/memory.h"
#include <png.h>
#include <setjmp.h>
#include <string.h>

struct input {
    const uint8_t *bytes; size_t n, at;
    kd_err *err;
    png_bytep rows;                                      // decoded rows: all of an interlaced picture, else one
};

static void failed(png_structp png, png_const_charp why)
{
    struct input *in = png_get_error_ptr(png);
    kd_fail(in->err, KD_EFORMAT, "PNG: %s", why);
    png_longjmp(png, 1);
}

static void warned(png_structp png, png_const_charp why) { (void)png, (void)why; }    // no pixel is lost by those

static void give(png_structp png, png_bytep to, size_t n)
{
    struct input *in = png_get_io_ptr(png);
    if (n > in->n - in->at) png_error(png, "the file ends too early");
    memcpy(to, in->bytes + in->at, n);
    in->at += n;
}

// A sample of 0..top in front of a background of 0..255, rounded. Inlined with a constant top: no division is left.
static inline uint32_t mix(uint32_t v, uint32_t alpha, uint32_t behind, uint32_t top)
{
    if (alpha == top) return v;
    return (uint32_t)(((uint64_t)alpha * v + (uint64_t)(top - alpha) * behind * (top / 255) + top / 2) / top);
}

// One row as libpng gives it (1 to 4 channels, 8 or 16 bits) to 8-bit grey or RGB on the background.
static void convert_row(kd_picture *to, int64_t y, const uint8_t *row, int channels, int depth, const uint8_t background[3])
{
    const bool colour = channels >= 3, clear = channels == 2 || channels == 4;
    uint8_t *out = to->p + y * to->w * to->c;
    for (int64_t x = 0; x < to->w; x++, row += channels * depth / 8) {
        uint32_t v[4];
        for (int k = 0; k < channels; k++) v[k] = depth == 16 ? (uint32_t)row[2 * k] << 8 | row[2 * k + 1] : row[k];
        const uint32_t top = depth == 16 ? 65535 : 255, alpha = clear ? v[channels - 1] : top;
        if (alpha != top) to->had_alpha = true;
        for (int k = 0; k < to->c; k++) {
            const uint32_t sample = v[colour ? k : 0];
            *out++ = (uint8_t)(depth == 16 ? (mix(sample, alpha, background[k], 65535) + 128) / 257
                                           : mix(sample, alpha, background[k], 255));
        }
    }
}

static int read_rows(kd_picture *out, png_structp png, png_infop info, struct input *in, const uint8_t background[3])
{
    png_set_expand(png);                                 // palette to RGB, 1, 2, 4 bits to 8, tRNS to alpha
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    const int channels = png_get_channels(png, info), depth = png_get_bit_depth(png, info);
    const int64_t h = png_get_image_height(png, info), w = png_get_image_width(png, info);
    const bool grey_behind = background[0] == background[1] && background[1] == background[2];
    const int c = channels == 1 || (channels == 2 && grey_behind) ? 1 : 3;
    KD_TRY(kd_picture_alloc(out, h, w, c, in->err));
    const size_t bytes = png_get_rowbytes(png, info);
    in->rows = kd_alloc(bytes * (size_t)(passes > 1 ? h : 1));
    if (!in->rows) return kd_fail_memory(in->err, "a PNG");
    for (int pass = 0; pass < passes; pass++) {
        for (int64_t y = 0; y < h; y++) {
            png_bytep row = passes > 1 ? in->rows + bytes * (size_t)y : in->rows;
            png_read_row(png, row, NULL);
            if (pass == passes - 1) convert_row(out, y, row, channels, depth, background);
        }
    }
    return 0;
}

// Between setjmp and here no local variable changes that is read after the jump: all state is behind pointers.
static void decode(kd_picture *out, int *turn, png_structp png, png_infop info, struct input *in, const uint8_t background[3])
{
    if (setjmp(png_jmpbuf(png))) return;                 // failed() has filled err
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);    // the limit is on their product
    png_set_read_fn(png, in, give);
    png_read_info(png, info);
    out->had_palette = png_get_color_type(png, info) == PNG_COLOR_TYPE_PALETTE;
    out->had_16bit = png_get_bit_depth(png, info) == 16;
    if (read_rows(out, png, info, in, background)) return;
    png_read_end(png, info);                             // the rest must be whole too
    png_bytep exif = NULL;
    png_uint_32 n = 0;
    if (png_get_eXIf_1(png, info, &n, &exif)) *turn = kd_exif_orientation(exif, n);
}

int kd_png_decode(kd_picture *out, int *turn, const void *bytes, size_t n, const uint8_t background[3], kd_err *err)
{
    struct input in = { .bytes = bytes, .n = n, .err = err };
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &in, failed, warned);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (info) decode(out, turn, png, info, &in, background);
    else kd_fail_memory(err, "a PNG");
    png_destroy_read_struct(&png, &info, NULL);
    kd_free(in.rows);
    return err->code;
}
