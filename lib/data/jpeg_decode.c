// JPEG in, by libjpeg: grey, YCbCr, RGB, CMYK, YCCK; the accurate integer IDCT and smooth ("fancy") chroma upsampling,
// which the peers' decoders use by default.
#include "data/codec.h"
#include "base/memory.h"
#include <stdio.h>
#include <jpeglib.h>
#include <jerror.h>
#include <setjmp.h>
#include <string.h>

enum { SCANS = 500 };                                    // a real progressive file has about ten

struct state {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr on_error;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    kd_err *err;
    uint8_t *row;                                        // one line of CMYK
};

static void failed(j_common_ptr jpeg)
{
    struct state *s = jpeg->client_data;
    char why[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, why);
    kd_fail(s->err, jpeg->err->msg_code == JERR_OUT_OF_MEMORY ? KD_EFAIL : KD_EFORMAT, "JPEG: %s", why);
    longjmp(s->back, 1);
}

// libjpeg only warns of damage and invents the missing pixels. Here a warning is an error, but for those
// that leave every pixel as the encoder meant it.
static void warned(j_common_ptr jpeg, int level)
{
    if (level >= 0) return;                              // tracing
    switch (jpeg->err->msg_code) {
    case JWRN_ADOBE_XFORM: case JWRN_EXTRANEOUS_DATA: case JWRN_JFIF_MAJOR: case JWRN_TOO_MUCH_DATA: case JWRN_BOGUS_ICC: return;
    default: failed(jpeg);
    }
}

static void count_scans(j_common_ptr jpeg)
{
    struct state *s = jpeg->client_data;
    if (s->jpeg.input_scan_number <= SCANS) return;
    kd_fail(s->err, KD_EFORMAT, "JPEG: more than %d scans", SCANS);
    longjmp(s->back, 1);
}

static int orientation(const struct jpeg_decompress_struct *jpeg)
{
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m; m = m->next)      // XMP uses the same marker
        if (m->data_length > 6 && !memcmp(m->data, "Exif\0", 6)) return kd_exif_orientation(m->data + 6, m->data_length - 6);
    return 1;
}

// Adobe's programs store ink inverted, and others follow: s = 255 - ink. So a channel is s_k - (255 - s) * s_k / 255.
static void from_cmyk(uint8_t *to, const uint8_t *s, int64_t w)
{
    for (int64_t x = 0; x < w; x++, s += 4)
        for (int k = 0; k < 3; k++) *to++ = (uint8_t)(s[3] - ((255 - s[k]) * s[3] + 127) / 255);
}

static void read_rows(kd_picture *out, struct state *s)
{
    struct jpeg_decompress_struct *jpeg = &s->jpeg;
    const bool cmyk = jpeg->out_color_space == JCS_CMYK;
    if (kd_picture_alloc(out, jpeg->image_height, jpeg->image_width, jpeg->out_color_space == JCS_GRAYSCALE ? 1 : 3, s->err)) return;
    out->had_cmyk = cmyk;
    if (cmyk && !(s->row = kd_alloc((size_t)out->w * 4))) { kd_fail_memory(s->err, "a JPEG"); return; }
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = out->p + jpeg->output_scanline * out->w * out->c;
        JSAMPROW line = cmyk ? s->row : to;
        jpeg_read_scanlines(jpeg, &line, 1);
        if (cmyk) from_cmyk(to, s->row, out->w);
    }
    jpeg_finish_decompress(jpeg);
}

// As in png_decode.c: what is read after the jump lives behind pointers.
static void decode(kd_picture *out, int *turn, struct state *s, const void *bytes, size_t n)
{
    struct jpeg_decompress_struct *jpeg = &s->jpeg;
    if (setjmp(s->back)) return;
    jpeg_create_decompress(jpeg);
    jpeg->client_data = s;
    s->progress.progress_monitor = count_scans;
    jpeg->progress = &s->progress;
    jpeg_mem_src(jpeg, bytes, (unsigned long)n);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(jpeg, TRUE);
    switch (jpeg->jpeg_color_space) {
    case JCS_GRAYSCALE: jpeg->out_color_space = JCS_GRAYSCALE; break;
    case JCS_CMYK: case JCS_YCCK: jpeg->out_color_space = JCS_CMYK; break;
    default: jpeg->out_color_space = JCS_RGB;
    }
    jpeg->dct_method = JDCT_ISLOW;
    jpeg->do_fancy_upsampling = TRUE;
    *turn = orientation(jpeg);
    read_rows(out, s);
}

int kd_jpeg_decode(kd_picture *out, int *turn, const void *bytes, size_t n, kd_err *err)
{
    struct state s = { .err = err };
    s.jpeg.err = jpeg_std_error(&s.on_error);
    s.jpeg.client_data = &s;                             // jpeg_create_decompress keeps both, and may fail itself
    s.on_error.error_exit = failed;
    s.on_error.emit_message = warned;
    decode(out, turn, &s, bytes, n);
    jpeg_destroy_decompress(&s.jpeg);
    kd_free(s.row);
    return err->code;
}
