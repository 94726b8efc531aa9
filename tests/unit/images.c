// Image streams: files, pipes, concatenation, broken streams, quantizing; PNG out.
#include "formats/images.h"
#include "base/memory.h"
#include "formats/png.h"
#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { H = 5, W = 3, C = 3, IMAGE = H * W * C };

static char dir[] = "/tmp/kd-test-XXXXXX", file[64], stream[64];
static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(file, sizeof file, "%s/file.st", dir);
    snprintf(stream, sizeof stream, "%s/stream.st", dir);
    return 0;
}

static int remove_dir(void **state) { (void)state; unlink(file); unlink(stream); return rmdir(dir); }

static uint8_t pixel(int64_t image, int64_t i) { return (uint8_t)(image * 31 + i * 7); }

// n images with labels and seeds, put in runs of `batch`.
static void put_images(kd_out *out, int64_t n, int64_t batch)
{
    kd_err err = {0};
    kd_frame *meta = kd_frame_new();
    kd_images_writer *w;
    kd_images_info info = { .h = H, .w = W, .c = C, .dtype = KD_U8, .has_label = true, .has_seed = true, .meta = meta };
    assert_int_equal(kd_frame_set_meta(meta, "kd_resizer", "bicubic", &err), 0);
    assert_int_equal(kd_frame_set_meta(meta, "kd_part", "77", &err), 0);              // of the stream it came from
    assert_int_equal(kd_frame_add_history(meta, "kd-prep imgs", &err), 0);
    assert_int_equal(kd_images_create(&w, out, &info, "kd-test", &err), 0);
    kd_frame_free(meta);
    uint8_t *pixels = malloc((size_t)(batch * IMAGE));
    int64_t *label = malloc((size_t)batch * 8);
    uint64_t *seed = malloc((size_t)batch * 8);
    for (int64_t at = 0; at < n; at += batch) {
        const int64_t k = n - at < batch ? n - at : batch;
        for (int64_t i = 0; i < k; i++) {
            label[i] = (at + i) % 10;
            seed[i] = UINT64_MAX - (uint64_t)(at + i);
            for (int64_t j = 0; j < IMAGE; j++)
                pixels[i * IMAGE + j] = pixel(at + i, j);
        }
        assert_int_equal(kd_images_put(w, &(kd_images){ .n = k, .image = pixels, .label = label, .seed = seed }, &err), 0);
    }
    assert_int_equal(kd_images_finish(w, &err), 0);
    kd_images_writer_free(w);
    free(pixels);
    free(label);
    free(seed);
}

static void write_file(int64_t n, int64_t batch)
{
    kd_err err = {0};
    kd_out *out;
    assert_int_equal(kd_out_open(&out, file, true, &err), 0);
    put_images(out, n, batch);
    assert_int_equal(kd_out_commit(out, &err), 0);
    kd_out_close(out);
}

// /dev/fd/N of a regular file is written straight, as a pipe is.
static void write_stream(int64_t n, int64_t batch, bool append)
{
    kd_err err = {0};
    kd_out *out;
    char name[32];
    FILE *f = fopen(stream, append ? "ab" : "wb");
    snprintf(name, sizeof name, "/dev/fd/%d", fileno(f));
    assert_int_equal(kd_out_open(&out, name, true, &err), 0);
    put_images(out, n, batch);
    assert_int_equal(kd_out_commit(out, &err), 0);
    kd_out_close(out);
    fclose(f);
}

// Reads all; images must count from 0 again at each multiple of `record` (0: one record). Returns how many, or -code.
static int64_t read_all(const char *path, int64_t record, kd_err *err)
{
    kd_images_reader *r;
    kd_images run;
    int64_t n = 0;
    if (kd_images_open(&r, path, err))
        return -err->code;
    const kd_images_info *info = kd_images_info_of(r);
    assert_true(info->h == H && info->w == W && info->c == C && info->dtype == KD_U8 && info->has_label && info->has_seed &&
                !info->has_index && !info->has_calls);
    assert_string_equal(kd_frame_meta(info->meta, "kd_history"), "kd-prep imgs\nkd-test");
    assert_string_equal(kd_frame_meta(info->meta, "kd_resizer"), "bicubic");
    assert_null(kd_frame_meta(info->meta, "kd_part"));
    while (!kd_images_next(r, &run, err) && run.n)
        for (int64_t i = 0; i < run.n; i++, n++) {
            const int64_t k = record ? n % record : n;
            assert_int_equal(run.label[i], k % 10);
            assert_true(run.seed[i] == UINT64_MAX - (uint64_t)k && !run.index && !run.calls);
            for (int64_t j = 0; j < IMAGE; j++)
                assert_int_equal(((uint8_t *)run.image)[i * IMAGE + j], pixel(k, j));
        }
    if (!err->code)
        assert_true(!kd_images_next(r, &run, err) && !run.n);          // the end is the end
    kd_images_close(r);
    return err->code ? -err->code : n;
}

static size_t load(const char *path, char **bytes)
{
    kd_err err = {0};
    void *p;
    size_t n;
    assert_int_equal(kd_read_file(path, 1 << 24, &p, &n, &err), 0);
    *bytes = p;
    return n;
}

static void store(const char *bytes, size_t n)
{
    FILE *f = fopen(stream, "wb");
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void any_number_any_batch(void **state)
{
    (void)state;
    static const int64_t counts[] = { 0, 1, 63, 64, 65, 128, 200 }, batches[] = { 1, 7, 64, 300 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char *first[2] = { NULL, NULL };
        size_t n[2] = { 0, 0 };
        for (size_t k = 0; k < sizeof batches / sizeof *batches; k++) {
            kd_err err = {0};
            write_file(counts[i], batches[k]);
            write_stream(counts[i], batches[k], false);
            for (int which = 0; which < 2; which++) {
                char *bytes;
                const char *name = which ? stream : file;
                assert_int_equal(read_all(name, 0, &err), counts[i]);
                const size_t m = load(name, &bytes);
                if (k) {                               // the same bytes, whatever the batch
                    assert_int_equal(m, n[which]);
                    assert_memory_equal(bytes, first[which], m);
                    free(bytes);
                } else {
                    first[which] = bytes;
                    n[which] = m;
                }
            }
        }
        free(first[0]);
        free(first[1]);
    }
}

static void concatenation(void **state)
{
    (void)state;
    kd_err err = {0};
    write_stream(70, 7, false);
    write_stream(0, 7, true);
    write_stream(70, 64, true);
    assert_int_equal(read_all(stream, 70, &err), 140);
    char *a, *b, both[200000];
    write_file(70, 70);
    const size_t n = load(file, &a), m = load(stream, &b);
    assert_true(n + m < sizeof both);
    memcpy(both, a, n);
    memcpy(both + n, b, m);
    store(both, n + m);
    assert_int_equal(read_all(stream, 70, &err), 210);
    free(a);
    free(b);
}

static void expect_failure(int code, const char *message)
{
    kd_err err = {0};
    char want[300];
    snprintf(want, sizeof want, "%s: %s", stream, message);
    assert_int_equal(read_all(stream, 0, &err), -code);
    assert_string_equal(err.msg, want);
}

// Where the frame with this part begins.
static size_t find_part(const char *bytes, size_t n, int part)
{
    char key[32];
    snprintf(key, sizeof key, "\"kd_part\":\"%d\"", part);
    for (size_t at = 0; at < n;) {
        uint64_t header;
        memcpy(&header, bytes + at, 8);
        const char *data = memmem(bytes + at, header, "data_offsets", 12);
        assert_non_null(data);
        int64_t end = 0;
        for (const char *p = data; p && p < bytes + at + 8 + header;
             p = memmem(p + 1, (size_t)(bytes + at + 8 + header - p - 1), "data_offsets", 12))
            end = strtoll(strchr(p, ',') + 1, NULL, 10);
        if (memmem(bytes + at, header, key, strlen(key)))
            return at;
        at += 8 + header + (size_t)end;
    }
    return n;
}

static void broken_streams(void **state)
{
    (void)state;
    char *bytes;
    write_stream(200, 64, false);
    const size_t n = load(stream, &bytes);
    store(bytes, 0);
    expect_failure(KD_EFORMAT, "empty: not even an end mark");
    const size_t second = find_part(bytes, n, 1), third = find_part(bytes, n, 2), fourth = find_part(bytes, n, 3);
    assert_true(second < third && third < fourth && fourth < n);
    store(bytes, third);
    expect_failure(KD_EFORMAT, "stream ends after image 128 without its end mark: the program before it failed");
    store(bytes, third + 5);
    expect_failure(KD_EFORMAT, "5 bytes where a header's length takes 8");
    store(bytes + second, n - second);
    expect_failure(KD_EFORMAT, "after image 0: expected part 0 of a record, got part 1");
    char *cut = malloc(n);
    memcpy(cut, bytes, second);
    memcpy(cut + second, bytes + third, n - third);
    store(cut, n - (third - second));
    expect_failure(KD_EFORMAT, "after image 64: expected part 1 of a record, got part 2");
    free(cut);
    free(bytes);
}

static kd_frame *foreign(kd_dtype image, int64_t n, int64_t h, kd_dtype label)
{
    kd_err err = {0};
    kd_frame *f = kd_frame_new();
    assert_int_equal(kd_frame_add(f, "image", image, KD_SHAPE(n, h, W, C), NULL, NULL, &err), 0);
    kd_tensor *t;
    assert_int_equal(kd_frame_add(f, "label", label, KD_SHAPE(n), NULL, &t, &err), 0);
    if (label == KD_U8 && n > 1)
        ((uint8_t *)t->data)[1] = 200;
    return f;
}

// Writes two peers' frames one after the other and reads them.
static int read_frames(kd_frame *a, kd_frame *b, kd_err *err, int64_t *label)
{
    kd_err ok = {0};
    kd_out *out;
    kd_images_reader *r;
    kd_images run = {0};
    assert_int_equal(kd_out_open(&out, stream, true, &ok), 0);
    assert_int_equal(kd_safetensors_write(out, a, &ok), 0);
    if (b)
        assert_int_equal(kd_safetensors_write(out, b, &ok), 0);
    assert_int_equal(kd_out_commit(out, &ok), 0);
    kd_out_close(out);
    kd_frame_free(a);
    kd_frame_free(b);
    if (!kd_images_open(&r, stream, err)) {
        while (!kd_images_next(r, &run, err) && run.n)
            *label = run.label ? run.label[run.n - 1] : -1;
        kd_images_close(r);
    }
    return err->code;
}

static void peers_files(void **state)
{
    (void)state;
    int64_t label = 0;
    kd_err ok = {0};
    assert_int_equal(read_frames(foreign(KD_U8, 2, H, KD_U8), NULL, &ok, &label), 0);
    assert_int_equal(label, 200);
    static const struct { kd_dtype a; int64_t ha; kd_dtype la, b; int64_t hb; int code; const char *message; } cases[] = {
        { KD_F16, H, KD_I64, KD_F16, H, KD_EFORMAT, "image: expected U8 or F32 [n,h,w,c], got F16 [2,5,3,3]" },
        { KD_U8, H, KD_F32, KD_U8, H, KD_EFORMAT, "label: expected I64 [2], got F32 [2]" },
        { KD_U8, H, KD_I64, KD_U8, 6, KD_EUSAGE, "images after number 2 are U8 of 6x3x3, those before U8 of 5x3x3" },
        { KD_U8, H, KD_I64, KD_F32, H, KD_EUSAGE, "images after number 2 are F32 of 5x3x3, those before U8 of 5x3x3" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kd_err err = {0};
        char want[300];
        snprintf(want, sizeof want, "%s: %s", stream, cases[i].message);
        assert_int_equal(read_frames(foreign(cases[i].a, 2, cases[i].ha, cases[i].la),
                                     foreign(cases[i].b, 2, cases[i].hb, KD_I64), &err, &label), cases[i].code);
        assert_string_equal(err.msg, want);
    }
    kd_err err = {0};
    kd_frame *f = kd_frame_new();
    assert_int_equal(read_frames(f, NULL, &err, &label), KD_EFORMAT);
    assert_non_null(strstr(err.msg, "no tensor named image: not images"));
}

static void quantizing(void **state)
{
    (void)state;
    uint8_t all[256], back[256];
    float x[256];
    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    kd_images_float(x, all, 256);
    assert_true(x[0] == -1 && x[255] == 1);
    kd_images_quantize(back, x, 256, false);
    assert_memory_equal(all, back, 256);
    const float odd[] = { -3, 3, NAN, 0, INFINITY, -INFINITY, 1.0f / 255, -1.0f / 255 };
    kd_images_quantize(back, odd, 8, false);                           // 0: 127.5, up
    assert_memory_equal(back, "\x00\xff\x00\x80\xff\x00\x80\x7f", 8);
    kd_images_quantize(back, odd, 8, true);
    assert_memory_equal(back, "\x00\xff\x00\x7f\xff\x00\x80\x7f", 8);
}

static void png_out(void **state)
{
    (void)state;
    for (int c = 1; c <= 3; c += 2) {
        kd_err err = {0};
        kd_out *out;
        uint8_t pixels[7 * 9 * 3], got[7 * 9 * 3];
        for (int i = 0; i < 7 * 9 * c; i++)
            pixels[i] = (uint8_t)(i * 5);
        assert_int_equal(kd_out_open(&out, file, true, &err), 0);
        assert_int_equal(kd_png_write(out, pixels, 7, 9, c, "kd-grid x", &err), 0);
        assert_int_equal(kd_out_commit(out, &err), 0);
        kd_out_close(out);
        png_image image = { .version = PNG_IMAGE_VERSION };
        assert_true(png_image_begin_read_from_file(&image, file));
        assert_true(image.width == 9 && image.height == 7);
        assert_int_equal(image.format, c == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB);
        assert_true(png_image_finish_read(&image, NULL, got, 0, NULL));
        assert_memory_equal(got, pixels, (size_t)(7 * 9 * c));
        char *bytes;
        const size_t n = load(file, &bytes);
        assert_non_null(memmem(bytes, n, "kd_history\0kd-grid x", 20));
        free(bytes);
    }
    kd_err err = {0};
    kd_out *out;
    assert_int_equal(kd_out_open(&out, "/dev/full", true, &err), 0);
    static uint8_t noise[300 * 300];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(i * i >> 3);
    assert_true(kd_png_write(out, noise, 300, 300, 1, NULL, &err) || kd_out_commit(out, &err));
    assert_int_equal(err.code, KD_EFAIL);
    assert_string_equal(err.msg, "/dev/full: No space left on device");
    kd_out_close(out);
}

// Each allocation and each write of a small file fails in turn: an error, and no file. In a child, because the hooks
// read the environment once.
static int write_in_child(const char *hook, int n)
{
    const pid_t child = fork();
    if (child == 0) {
        kd_err err = {0};
        kd_out *out = NULL;
        kd_images_writer *w = NULL;
        uint8_t pixels[IMAGE] = {0};
        int64_t label = 1;
        char value[16];
        snprintf(value, sizeof value, "%d", n);
        setenv(hook, value, 1);
        const kd_images_info info = { .h = H, .w = W, .c = C, .dtype = KD_U8, .has_label = true };
        (void)(kd_out_open(&out, file, true, &err) || kd_images_create(&w, out, &info, "kd-test", &err) ||
               kd_images_put(w, &(kd_images){ .n = 1, .image = pixels, .label = &label }, &err) || kd_images_finish(w, &err) ||
               kd_out_commit(out, &err));
        kd_images_writer_free(w);
        kd_out_close(out);
        _exit(err.code);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void every_failure_is_told(void **state)
{
    (void)state;
    static const char *const hooks[] = { "KD_FAIL_ALLOC", "KD_FAIL_WRITE" };
    for (int k = 0; k < 2; k++) {
        int n = 1;
        for (unlink(file); write_in_child(hooks[k], n); n++) {
            assert_int_equal(access(file, F_OK), -1);
            assert_true(n < 1000);
        }
        assert_true(n > (k ? 3 : 10));
        assert_int_equal(access(file, F_OK), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failure_is_told),       // first: the hooks must not have been read yet
        cmocka_unit_test(any_number_any_batch), cmocka_unit_test(concatenation), cmocka_unit_test(broken_streams),
        cmocka_unit_test(peers_files), cmocka_unit_test(quantizing), cmocka_unit_test(png_out),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
