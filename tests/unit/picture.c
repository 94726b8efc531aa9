// Decoding: the peers' pixels for plain 8-bit pictures, our rule (composite, scale, turn) for the others, and bad files.
#include "data/codec.h"
#include "base/io.h"
#include "formats/safetensors.h"
#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define IMAGES "tests/golden/prep/images/"
#define OK(call) do { kd_err err_ = {0}; if (call) fail_msg("%s: %s", #call, err_.msg); } while (0)
#define E &err_

static const uint8_t white[3] = { 255, 255, 255 };

static uint32_t seed = 1;
static uint32_t draw(void) { return seed = seed * 1664525 + 1013904223, seed >> 8; }

// PNG files made here ---------------------------------------------------------------------------------------------

struct png { int w, h, type, depth; bool interlaced; int colours, transparent; int orientation; png_color_16 *key; };
struct made { uint8_t bytes[1 << 16]; size_t n; uint8_t row[64][512]; png_color palette[256]; uint8_t alpha[256]; };

static void keep(png_structp png, png_bytep bytes, size_t n)
{
    struct made *m = png_get_io_ptr(png);
    assert_true(m->n + n <= sizeof m->bytes);
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

// A PNG of random samples (below 2^depth, or the palette's size); m->row holds its rows as stored.
static void make_png(struct made *m, const struct png *p)
{
    const int channels = (int[]){ 1, 0, 3, 1, 2, 0, 4 }[p->type], bytes = (p->w * channels * p->depth + 7) / 8;
    m->n = 0;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, m, keep, NULL);
    png_set_IHDR(png, info, (png_uint_32)p->w, (png_uint_32)p->h, p->depth, p->type, p->interlaced ? PNG_INTERLACE_ADAM7 : 0, 0, 0);
    for (int i = 0; i < p->colours; i++) {
        m->palette[i] = (png_color){ (uint8_t)draw(), (uint8_t)draw(), (uint8_t)draw() };
        m->alpha[i] = i < p->transparent ? (uint8_t)(i ? draw() : 0) : 255;
    }
    if (p->colours) png_set_PLTE(png, info, m->palette, p->colours);
    if (p->transparent) png_set_tRNS(png, info, m->alpha, p->transparent, NULL);
    if (p->key) png_set_tRNS(png, info, NULL, 0, p->key);
    uint8_t exif[] = { 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, (uint8_t)p->orientation, 0, 0, 0, 0, 0, 0 };
    if (p->orientation) png_set_eXIf_1(png, info, sizeof exif, exif);
    png_write_info(png, info);
    png_bytep rows[64];
    for (int y = 0; y < p->h; y++) {
        rows[y] = m->row[y];
        for (int x = 0; x < bytes; x++) rows[y][x] = (uint8_t)draw();
        if (p->colours && p->depth == 8)
            for (int x = 0; x < p->w; x++) rows[y][x] %= (uint8_t)p->colours;
    }
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
}

// Sample k of pixel x in a row, at the file's depth.
static uint32_t sample(const uint8_t *row, const struct png *p, int x, int k)
{
    const int channels = (int[]){ 1, 0, 3, 1, 2, 0, 4 }[p->type], i = x * channels + k;
    if (p->depth == 16) return (uint32_t)row[2 * i] << 8 | row[2 * i + 1];
    return row[i * p->depth / 8] >> (8 - p->depth - i * p->depth % 8) & ((1u << p->depth) - 1);
}

// The rule in real numbers: alpha composited at the file's depth and rounded, then 16 bits scaled to 8 and rounded.
static uint8_t mixed(double colour, double alpha, int depth, uint8_t behind)
{
    const double top = depth == 16 ? 65535 : 255;
    const double v = floor((alpha * colour + (top - alpha) * behind * (top / 255)) / top + 0.5);
    return (uint8_t)(depth == 16 ? floor(v / 257 + 0.5) : v);
}

static uint8_t expected(const struct made *m, const struct png *p, int y, int x, int k, const uint8_t behind[3])
{
    const uint8_t *row = m->row[y];
    const double top = p->depth == 16 ? 65535 : 255, grow = p->depth < 8 ? 255.0 / ((1 << p->depth) - 1) : 1;
    if (p->type == PNG_COLOR_TYPE_PALETTE) {
        const uint32_t i = sample(row, p, x, 0);
        const uint8_t rgb[] = { m->palette[i].red, m->palette[i].green, m->palette[i].blue };
        return mixed(rgb[k], m->alpha[i], 8, behind[k]);
    }
    const bool colour = p->type & PNG_COLOR_MASK_COLOR;
    double alpha = top;
    if (p->type & PNG_COLOR_MASK_ALPHA) alpha = sample(row, p, x, colour ? 3 : 1);
    if (p->key && !colour && sample(row, p, x, 0) == p->key->gray) alpha = 0;
    if (p->key && colour && sample(row, p, x, 0) == p->key->red && sample(row, p, x, 1) == p->key->green &&
        sample(row, p, x, 2) == p->key->blue) alpha = 0;
    return mixed(sample(row, p, x, colour ? k : 0) * grow, alpha, p->depth, behind[k]);
}

static void every_png_kind(void **state)
{
    (void)state;
    enum { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGBA = 6 };
    static png_color_16 grey_key = { .gray = 1 };
    static const struct png cases[] = {
        { 13, 9, GREY, 1, 0, 0, 0, 0, 0 }, { 13, 9, GREY, 2, 0, 0, 0, 0, 0 }, { 13, 9, GREY, 4, 0, 0, 0, 0, 0 },
        { 13, 9, GREY, 8, 0, 0, 0, 0, 0 }, { 13, 9, GREY, 16, 0, 0, 0, 0, 0 }, { 13, 9, RGB, 8, 0, 0, 0, 0, 0 },
        { 13, 9, RGB, 16, 0, 0, 0, 0, 0 }, { 13, 9, GREY_ALPHA, 8, 0, 0, 0, 0, 0 }, { 13, 9, GREY_ALPHA, 16, 0, 0, 0, 0, 0 },
        { 13, 9, RGBA, 8, 0, 0, 0, 0, 0 }, { 13, 9, RGBA, 16, 0, 0, 0, 0, 0 }, { 13, 9, PALETTE, 1, 0, 2, 0, 0, 0 },
        { 13, 9, PALETTE, 2, 0, 4, 2, 0, 0 }, { 13, 9, PALETTE, 4, 0, 16, 16, 0, 0 }, { 13, 9, PALETTE, 8, 0, 200, 0, 0, 0 },
        { 13, 9, PALETTE, 8, 0, 200, 100, 0, 0 }, { 13, 9, GREY, 1, 0, 0, 0, 0, &grey_key }, { 13, 9, GREY, 2, 0, 0, 0, 0, &grey_key },
        { 1, 1, RGBA, 16, 0, 0, 0, 0, 0 } };
    static const uint8_t behinds[][3] = { { 255, 255, 255 }, { 0, 0, 0 }, { 10, 200, 77 } };
    struct made *m = malloc(sizeof *m);
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct png p = cases[i / 2];
        p.interlaced = i % 2;
        make_png(m, &p);
        for (int b = 0; b < 3; b++) {
            kd_picture q;
            OK(kd_picture_decode(&q, m->bytes, m->n, behinds[b], E));
            const bool clear = p.type & PNG_COLOR_MASK_ALPHA || p.key;
            assert_int_equal(q.c, p.type & PNG_COLOR_MASK_COLOR || (clear && b == 2) ? 3 : 1);
            assert_int_equal(q.w, p.w);
            assert_int_equal(q.had_16bit, p.depth == 16);
            assert_int_equal(q.had_palette, p.type == PALETTE);
            if (p.type & PNG_COLOR_MASK_ALPHA) assert_true(q.had_alpha);
            for (int y = 0; y < p.h; y++)
                for (int x = 0; x < p.w; x++)
                    for (int k = 0; k < q.c; k++) {
                        const int got = q.p[(y * p.w + x) * q.c + k], want = expected(m, &p, y, x, k, behinds[b]);
                        if (got != want) fail_msg("case %zu, %d,%d,%d: %d, expected %d", i, y, x, k, got, want);
                    }
            kd_picture_free(&q);
        }
    }
    free(m);
}

// One colour stands for transparency, at 8 and 16 bits.
static void colour_key(void **state)
{
    (void)state;
    struct made *m = malloc(sizeof *m);
    for (int depth = 8; depth <= 16; depth += 8) {
        struct png p = { 2, 1, PNG_COLOR_TYPE_RGB, depth, 0, 0, 0, 0, 0 };
        png_color_16 key = {0};
        const uint32_t before = seed;
        make_png(m, &p);                                 // once to learn the first pixel, again with it as the key
        key.red = (png_uint_16)sample(m->row[0], &p, 0, 0);
        key.green = (png_uint_16)sample(m->row[0], &p, 0, 1);
        key.blue = (png_uint_16)sample(m->row[0], &p, 0, 2);
        p.key = &key, seed = before;
        make_png(m, &p);
        kd_picture q;
        OK(kd_picture_decode(&q, m->bytes, m->n, (uint8_t[]){ 1, 2, 3 }, E));
        assert_memory_equal(q.p, ((uint8_t[]){ 1, 2, 3 }), 3);
        for (int k = 0; k < 3; k++) assert_int_equal(q.p[3 + k], expected(m, &p, 0, 1, k, white));
        assert_true(q.had_alpha);
        kd_picture_free(&q);
    }
    free(m);
}

// What lies under full transparency is nowhere in the result, resizing included.
static void hidden_colour_stays_hidden(void **state)
{
    (void)state;
    struct made *m = malloc(sizeof *m);
    struct png p = { 40, 40, PNG_COLOR_TYPE_PALETTE, 8, 0, 2, 1, 0, 0 };
    make_png(m, &p);                                     // colour 0 random and transparent, colour 1 random and opaque
    kd_picture q;
    OK(kd_picture_decode(&q, m->bytes, m->n, (uint8_t *)&m->palette[1], E));
    OK(kd_picture_fit(&q, 16, 16, KD_LANCZOS, true, E));
    for (int i = 0; i < 16 * 16; i++) assert_memory_equal(q.p + 3 * i, &m->palette[1], 3);
    kd_picture_free(&q);
    free(m);
}

// The peers --------------------------------------------------------------------------------------------------------

static void golden_decode(void **state)
{
    (void)state;
    static const char *const plain[] = {
        "bilevel_33x35.png", "checker_100x64.png", "disc_70x91.png", "gradient_50x37.png", "gray_60x40.png", "interlaced_37x29.png",
        "odd_32x33.png", "palette_66x50.png", "wide_64x20.png", "jpeg420_90x72.jpg", "jpeg422_progressive_81x53.jpg",
        "jpeg444_47x53.jpg", "jpeg_cmyk_48x48.jpg", "jpeg_gray_44x40.jpg" };
    kd_frame *golden;
    OK(kd_safetensors_load("tests/golden/prep/prep.safetensors", &golden, E));
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        char path[128];
        void *bytes;
        size_t n;
        kd_picture q;
        snprintf(path, sizeof path, IMAGES "%s", plain[i]);
        OK(kd_read_file(path, 1 << 20, &bytes, &n, E));
        OK(kd_picture_decode(&q, bytes, n, white, E));
        assert_int_equal(q.c, strstr(plain[i], "gray") || strstr(plain[i], "bilevel") ? 1 : 3);
        assert_int_equal(q.had_cmyk, strstr(plain[i], "cmyk") != NULL);
        OK(kd_picture_channels(&q, 3, E));
        snprintf(path, sizeof path, "%s.rgb", plain[i]);
        const kd_tensor *want = kd_frame_get(golden, path);
        assert_int_equal(q.h, want->shape.d[0]);
        assert_int_equal(q.w, want->shape.d[1]);
        assert_memory_equal(q.p, want->data, kd_tensor_bytes(want));
        free(bytes);
        kd_picture_free(&q);
    }
    kd_frame_free(golden);
}

static void luma(void **state)
{
    (void)state;
    static const int cases[][4] = { {0, 0, 0, 0}, {255, 255, 255, 255}, {255, 0, 0, 76}, {0, 255, 0, 150}, {0, 0, 255, 29}, {1, 2, 3, 2} };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kd_picture q = {0};
        OK(kd_picture_alloc(&q, 1, 1, 3, E));
        for (int k = 0; k < 3; k++) q.p[k] = (uint8_t)cases[i][k];
        OK(kd_picture_channels(&q, 1, E));
        assert_int_equal(q.p[0], cases[i][3]);
        kd_picture_free(&q);
    }
}

// Orientation ------------------------------------------------------------------------------------------------------

static void eight_positions(void **state)
{
    (void)state;
    kd_frame *golden;
    OK(kd_safetensors_load("tests/golden/prep/box_bilinear.safetensors", &golden, E));
    for (int k = 1; k <= 8; k++) {
        char name[24];
        snprintf(name, sizeof name, "turn.%d", k);
        const kd_tensor *want = kd_frame_get(golden, name);
        kd_picture q = {0};
        OK(kd_picture_alloc(&q, 3, 5, 1, E));
        for (int i = 0; i < 15; i++) q.p[i] = (uint8_t)(17 * i);
        OK(kd_picture_turn(&q, k, E));
        assert_int_equal(q.h, want->shape.d[0]);
        assert_int_equal(q.w, want->shape.d[1]);
        assert_memory_equal(q.p, want->data, 15);
        assert_int_equal(q.had_rotation, k != 1);
        kd_picture_free(&q);
    }
    kd_frame_free(golden);
}

static void exif_in_png(void **state)
{
    (void)state;
    struct made *m = malloc(sizeof *m);
    for (int k = 1; k <= 9; k++) {                       // 9 is no orientation: the picture stays
        const struct png p = { 7, 4, PNG_COLOR_TYPE_GRAY, 8, 0, 0, 0, k, 0 };
        make_png(m, &p);
        kd_picture q, want = {0};
        OK(kd_picture_decode(&q, m->bytes, m->n, white, E));
        OK(kd_picture_alloc(&want, 4, 7, 1, E));
        for (int y = 0; y < 4; y++) memcpy(want.p + 7 * y, m->row[y], 7);
        OK(kd_picture_turn(&want, k == 9 ? 1 : k, E));
        assert_int_equal(q.h, want.h);
        assert_memory_equal(q.p, want.p, 28);
        kd_picture_free(&q), kd_picture_free(&want);
    }
    free(m);
}

// A camera's JPEG (orientation 6): the peer's pixels, turned.
static void exif_in_jpeg(void **state)
{
    (void)state;
    kd_frame *golden;
    void *bytes;
    size_t n;
    kd_picture q, want = {0};
    OK(kd_safetensors_load("tests/golden/prep/prep.safetensors", &golden, E));
    OK(kd_read_file(IMAGES "jpeg_exif6_64x40.jpg", 1 << 20, &bytes, &n, E));
    OK(kd_picture_decode(&q, bytes, n, white, E));
    OK(kd_picture_alloc(&want, 40, 64, 3, E));
    memcpy(want.p, kd_frame_get(golden, "jpeg_exif6_64x40.jpg.rgb")->data, 40 * 64 * 3);
    OK(kd_picture_turn(&want, 6, E));
    assert_true(q.had_rotation && q.h == 64 && q.w == 40);
    assert_memory_equal(q.p, want.p, 40 * 64 * 3);
    kd_picture_free(&q), kd_picture_free(&want);
    free(bytes);
    kd_frame_free(golden);
}

// Bad files --------------------------------------------------------------------------------------------------------

static int decode(const void *bytes, size_t n, kd_err *err)
{
    kd_picture q;
    const int code = kd_picture_decode(&q, bytes, n, white, err);
    if (!code) kd_picture_free(&q);
    return code;
}

// Cut anywhere, a file is an error, and one that says so; with a byte changed it is decoded or an error.
static void cut_and_changed(void **state)
{
    (void)state;
    static const char *const files[] = { "rgba_45x45.png", "interlaced_37x29.png", "palette_trns_66x50.png", "jpeg_exif6_64x40.jpg",
                                         "jpeg422_progressive_81x53.jpg", "jpeg_cmyk_48x48.jpg" };
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char path[128];
        void *bytes;
        size_t n;
        snprintf(path, sizeof path, IMAGES "%s", files[f]);
        OK(kd_read_file(path, 1 << 20, &bytes, &n, E));
        for (size_t cut = 0; cut < n; cut++) {
            kd_err err = {0};
            uint8_t *copy = malloc(cut ? cut : 1);       // of exact length: the sanitizer sees a read past it
            memcpy(copy, bytes, cut);
            if (decode(copy, cut, &err) != KD_EFORMAT) fail_msg("%s cut to %zu of %zu bytes is taken", files[f], cut, n);
            assert_true(err.msg[0]);
            free(copy);
        }
        for (size_t at = 0; at < n; at += 3) {
            kd_err err = {0};
            uint8_t *b = bytes;
            b[at] ^= 0x5a;
            const int code = decode(bytes, n, &err);
            assert_true(code == 0 || code == KD_EFORMAT);
            b[at] ^= 0x5a;
        }
        free(bytes);
    }
}

#define SAYS(want, bytes, n) do { kd_err err_ = {0}; \
        assert_int_equal(decode(bytes, n, E), KD_EFORMAT); assert_string_equal(err_.msg, want); } while (0)

static void messages(void **state)
{
    (void)state;
    void *bytes;
    size_t n;
    OK(kd_read_file(IMAGES "odd_32x33.png", 1 << 20, &bytes, &n, E));
    uint8_t *b = bytes;
    SAYS("PNG: the file ends too early", b, n / 2);
    b[18] ^= 1;
    SAYS("PNG: IHDR: CRC error", b, n);
    free(bytes);
    OK(kd_read_file(IMAGES "jpeg444_47x53.jpg", 1 << 20, &bytes, &n, E));
    SAYS("JPEG: Premature end of JPEG file", bytes, n / 2);
    free(bytes);
    SAYS("neither PNG nor JPEG", "RIFF1234WEBP", 12);
    SAYS("neither PNG nor JPEG", "", 0);
    // A bomb: 60000 x 60000 pixels promised by 33 bytes, with a right checksum.
    static const uint8_t bomb[] = "\x89PNG\r\n\x1a\n" "\0\0\0\rIHDR\0\0\xea\x60\0\0\xea\x60\x08\x02\0\0\0\x0f\xb0\xe2\x15"
                                  "\0\0\0\0IDAT\x35\xaf\x06\x1e";
    SAYS("60000x60000 pixels: more than 2^28 are not read", bomb, sizeof bomb - 1);
}

static void sniffing(void **state)
{
    (void)state;
    static const struct { const char *bytes; size_t n; const char *kind; } cases[] = {
        { "\x89PNG\r\n\x1a\n", 8, "png" }, { "\x89PNG\r\n\x1a", 7, NULL }, { "\xff\xd8\xff\xe0", 4, "jpeg" }, { "\0\0\x08\x03", 4, "idx" },
        { "\0\0\x07\x03", 4, NULL }, { "\x1f\x8b", 2, "gzip" }, { "GIF89a", 6, "gif" }, { "<html>", 6, NULL }, { "", 0, NULL } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *kind = kd_sniff(cases[i].bytes, cases[i].n);
        if (cases[i].kind) assert_string_equal(kind, cases[i].kind);
        else assert_null(kind);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_decode), cmocka_unit_test(luma), cmocka_unit_test(every_png_kind), cmocka_unit_test(colour_key),
        cmocka_unit_test(hidden_colour_stays_hidden), cmocka_unit_test(eight_positions), cmocka_unit_test(exif_in_png),
        cmocka_unit_test(exif_in_jpeg), cmocka_unit_test(cut_and_changed), cmocka_unit_test(messages), cmocka_unit_test(sniffing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
