// PNG out, by libpng.
#include "formats/png.h"
#include <png.h>
#include <setjmp.h>
#include <stdio.h>

typedef struct sink { kd_out *out; kd_err *err; } sink;

static void write_bytes(png_structp png, png_bytep bytes, png_size_t n)
{
    sink *s = png_get_io_ptr(png);
    if (kd_out_write(s->out, bytes, n, s->err))
        png_error(png, "write");
}

static void no_flush(png_structp png) { (void)png; }

// libpng wants this not to return. Our own error, if there is one, came first and stays.
static void on_error(png_structp png, png_const_charp message)
{
    sink *s = png_get_error_ptr(png);
    kd_fail(s->err, KD_EFAIL, "%s: PNG: %s", kd_out_name(s->out), message);
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp message) { (void)png, (void)message; }

static void write_picture(png_structp png, png_infop info, const uint8_t *pixels, int64_t h, int64_t w, int c, const char *text)
{
    png_text line = { .compression = PNG_TEXT_COMPRESSION_NONE, .key = (char *)"kd_history", .text = (char *)text };
    png_set_write_fn(png, png_get_error_ptr(png), write_bytes, no_flush);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
    png_set_IHDR(png, info, (png_uint_32)w, (png_uint_32)h, 8, c == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (text)
        png_set_text(png, info, &line, 1);
    png_write_info(png, info);
    for (int64_t y = 0; y < h; y++)
        png_write_row(png, (png_const_bytep)(pixels + y * w * c));
    png_write_end(png, info);
}

int kd_png_write(kd_out *out, const uint8_t *pixels, int64_t h, int64_t w, int c, const char *text, kd_err *err)
{
    if (h < 1 || w < 1 || h > INT32_MAX || w > INT32_MAX || (c != 1 && c != 3))
        return kd_fail(err, KD_EUSAGE, "%s: a PNG cannot be %lldx%lldx%d", kd_out_name(out), (long long)h, (long long)w, c);
    sink s = { out, err };
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info)
        kd_fail_memory(err, "a PNG");
    else if (!setjmp(png_jmpbuf(png)))
        write_picture(png, info, pixels, h, w, c, text);
    png_destroy_write_struct(&png, &info);
    return err->code;
}
