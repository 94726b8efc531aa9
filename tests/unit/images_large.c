// Frames of images that are larger than what a reader keeps in memory: they stay in the file. What comes out is the same, in
// little memory, and what is wrong with the file is told as ever.
#include "base/io.h"
#include "data/dataset.h"
#include "formats/images.h"
#include "formats/info.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define OK(call) do { kd_err err_ = {0}; if (call) fail_msg("%s: %s", #call, err_.msg); } while (0)
#define E &err_

enum { SIDE = 32, C = 3, SIZE = SIDE * SIDE * C, MANY = 20000, SOME = 2000, RUN = 64, MIB = 1 << 20 };   // 59 and 5.9 MiB

static char folder[] = "/tmp/kd-large-XXXXXX", path[64], other[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    setenv("TMPDIR", folder, 1);
    snprintf(path, sizeof path, "%s/x.st", folder);
    snprintf(other, sizeof other, "%s/y.st", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    unlink(other);
    return rmdir(folder);
}

// Image k: its number in the first four bytes, and a pattern.
static void draw(uint8_t *p, int64_t k)
{
    for (int i = 0; i < SIZE; i++) p[i] = (uint8_t)(k + i * 7);
    memcpy(p, &(uint32_t){ (uint32_t)k }, 4);
}

static int64_t label_of(int64_t k) { return k * 7 % 10; }

// n images of one frame, or in frames of 64 if the output is written straight.
static void write_images(const char *to, int64_t n, int64_t side)
{
    kd_out *out;
    kd_images_writer *w;
    const kd_images_info info = { .h = side, .w = SIDE, .c = C, .dtype = KD_U8, .has_label = true, .has_seed = true };
    uint8_t pixels[SIZE] = {0};
    OK(kd_out_open(&out, to, true, E));
    OK(kd_images_create(&w, out, &info, NULL, E));
    for (int64_t k = 0; k < n; k++) {
        int64_t label = label_of(k);
        uint64_t seed = UINT64_MAX - (uint64_t)k;
        draw(pixels, k);
        OK(kd_images_put(w, &(kd_images){ .n = 1, .image = pixels, .label = &label, .seed = &seed }, E));
    }
    OK(kd_images_finish(w, E));
    OK(kd_out_commit(out, E));
    kd_images_writer_free(w);
    kd_out_close(out);
}

// Reads to the end or an error; images must count from 0 again after `record`. Returns how many were given.
static int64_t read_images(const char *from, int64_t record, kd_err *err)
{
    kd_images_reader *r;
    kd_images run;
    int64_t n = 0;
    uint8_t want[SIZE];
    if (kd_images_open(&r, from, err)) return 0;
    while (!kd_images_next(r, &run, err) && run.n) {
        assert_in_range(run.n, 1, RUN);
        assert_true(!run.index && !run.calls);
        for (int64_t i = 0; i < run.n; i++, n++) {
            const int64_t k = n % record;
            draw(want, k);
            assert_memory_equal((uint8_t *)run.image + i * SIZE, want, SIZE);
            assert_int_equal(run.label[i], label_of(k));
            assert_true(run.seed[i] == UINT64_MAX - (uint64_t)k);
        }
    }
    if (!err->code) assert_true(!kd_images_next(r, &run, err) && !run.n);
    kd_images_close(r);
    return n;
}

static void expect(int64_t given, int code, const char *message)
{
    kd_err err = {0};
    assert_int_equal(read_images(path, SOME, &err), given);
    assert_int_equal(err.code, code);
    if (!strstr(err.msg, message)) fail_msg("expected \"%s\" in \"%s\"", message, err.msg);
}

// The most memory this process had at once, in bytes. Not kd_memory_peak: that counts what the process was before exec too.
static int64_t peak(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long long kib = 0;
    while (f && fgets(line, sizeof line, f) && !sscanf(line, "VmHWM: %lld", &kib)) {}
    if (f) fclose(f);
    assert_true(kib > 0);
    return kib << 10;
}

#ifdef __SANITIZE_ADDRESS__
enum { CHECKING = 44 * MIB };                            // its shadow memory, and what was freed stays for a while
#else
enum { CHECKING = 0 };
#endif

// The file is of 59 MiB.
static void assert_grown(int64_t before, int64_t most)
{
    const int64_t grown = peak() - before;
    if (grown > most + CHECKING) fail_msg("the peak of memory grew by %lld KiB", (long long)grown >> 10);
}

static void little_memory(void **state)
{
    (void)state;
    write_images(path, MANY, SIDE);
    const int64_t before = peak();

    kd_err err = {0};
    assert_int_equal(read_images(path, MANY, &err), MANY);
    assert_int_equal(err.code, 0);
    assert_grown(before, 4 * MIB);

    json_t *doc;
    OK(kd_info_of(&doc, path, true, E));
    const json_t *images = json_object_get(doc, "images");
    assert_int_equal(json_integer_value(json_object_get(images, "n")), MANY);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(images, "labels"), "7")), MANY / 10);
    assert_string_equal(json_string_value(json_object_get(doc, "checksum")), "good");
    json_decref(doc);
    assert_grown(before, 4 * MIB);

    kd_dataset d;
    OK(kd_dataset_read(&d, path, 4 * MIB, E));
    assert_grown(before, 8 * MIB);                       // before the mapped pixels are looked at
    assert_int_equal(d.n, MANY);
    uint8_t want[SIZE];
    for (int64_t k = 0; k < MANY; k += 999) {
        draw(want, k);
        assert_memory_equal(d.image + k * SIZE, want, SIZE);
        assert_int_equal(d.label[k], label_of(k));
    }
    kd_dataset_free(&d);
}

static void append_file(const char *to, const char *from)
{
    kd_err err = {0};
    void *bytes;
    size_t n;
    assert_int_equal(kd_read_file(from, 1 << 26, &bytes, &n, &err), 0);
    FILE *f = fopen(to, "ab");
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    free(bytes);
}

static void concatenation(void **state)
{
    (void)state;
    kd_err err = {0};
    write_images(path, SOME, SIDE);
    write_images(other, SOME, SIDE);
    append_file(path, other);
    write_images(other, 0, SIDE);
    append_file(path, other);
    assert_int_equal(read_images(path, SOME, &err), 2 * SOME);
    assert_int_equal(err.code, 0);
    write_images(other, SOME, SIDE - 1);
    append_file(path, other);
    expect(2 * SOME, KD_EUSAGE, "images after number 4000 are U8 of 31x32x3, those before U8 of 32x32x3");
}

// A shell's `<file` may begin anywhere in it.
static void file_as_stdin(void **state)
{
    (void)state;
    kd_err err = {0};
    write_images(other, SOME, SIDE);
    FILE *f = fopen(path, "wb");
    fputs("seven..", f);
    fclose(f);
    append_file(path, other);
    const int kept = dup(STDIN_FILENO), fd = open(path, O_RDONLY);
    lseek(fd, 7, SEEK_SET);
    dup2(fd, STDIN_FILENO);
    const int64_t n = read_images("-", SOME, &err);
    if (kept >= 0) dup2(kept, STDIN_FILENO);
    close(kept);
    close(fd);
    assert_int_equal(err.code, 0);
    assert_int_equal(n, SOME);
}

// A pipe with one large frame is read whole, and given in the same runs.
static void large_frame_in_a_pipe(void **state)
{
    (void)state;
    kd_err err = {0};
    write_images(path, SOME, SIDE);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (!child) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("cat", "cat", path, (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    char name[32];
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    assert_int_equal(read_images(name, SOME, &err), SOME);
    assert_int_equal(err.code, 0);
    close(ends[0]);
    waitpid(child, NULL, 0);
}

static void flip(int64_t at)
{
    FILE *f = fopen(path, "r+b");
    fseek(f, at, at < 0 ? SEEK_END : SEEK_SET);
    const int c = fgetc(f);
    fseek(f, -1, SEEK_CUR);
    fputc(c ^ 1, f);
    fclose(f);
}

// Damage is told before the last run is given: nobody takes such a file for a whole set.
static void damage(void **state)
{
    (void)state;
    const int64_t before_last = (SOME - 1) / RUN * RUN;
    struct stat st;
    write_images(path, SOME, SIDE);
    flip(-1);                                            // in the last seed
    expect(before_last, KD_EFORMAT, "the file was damaged or changed");
    write_images(path, SOME, SIDE);
    flip(-SOME * 16 - 1);                                // in the last pixel
    expect(before_last, KD_EFORMAT, "the file was damaged or changed");

    write_images(path, SOME, SIDE);
    stat(path, &st);
    assert_int_equal(truncate(path, st.st_size - 1), 0);
    expect(0, KD_EFORMAT, "x.st: data ends after 6175999 of 6176000 bytes");
    write_images(path, SOME, SIDE);
    FILE *f = fopen(path, "ab");
    fputs("five.", f);
    fclose(f);
    expect(SOME, KD_EFORMAT, "x.st: 5 bytes where a header's length takes 8");
}

// Opens the file, cuts it after `left` bytes (from the end if negative) as another program might, and reads on.
static void expect_cut(off_t left, const char *message)
{
    kd_images_reader *r;
    kd_images run;
    kd_err err = {0};
    struct stat st;
    OK(kd_images_open(&r, path, E));
    OK(kd_images_next(r, &run, E));
    stat(path, &st);
    assert_int_equal(truncate(path, left < 0 ? st.st_size + left : left), 0);
    while (!kd_images_next(r, &run, &err) && run.n) {}
    assert_int_equal(err.code, KD_EFORMAT);
    assert_string_equal(strrchr(err.msg, '/') + 1, message);
    kd_images_close(r);
}

static void shrinking(void **state)
{
    (void)state;
    write_images(path, SOME, SIDE);
    expect_cut(3000000, "x.st: tensor label ends after 512 of 16000 bytes");
    write_images(path, SOME, SIDE);
    expect_cut(-8000, "x.st: tensor seed ends after 8000 of 16000 bytes");
    kd_frame *f = kd_frame_new();
    kd_out *out;
    OK(kd_frame_add(f, "image", KD_U8, KD_SHAPE(SOME, SIDE, SIDE, C), NULL, NULL, E));
    OK(kd_out_open(&out, path, true, E));
    OK(kd_safetensors_write(out, f, E));
    OK(kd_out_commit(out, E));
    kd_out_close(out);
    kd_frame_free(f);
    expect_cut(-44000, "x.st: tensor image ends after 6100000 of 6144000 bytes");
}

// Another program's order and types: labels of one byte before the pixels, something large behind them, no checksum.
static void peers_order(void **state)
{
    (void)state;
    kd_frame *f = kd_frame_new();
    kd_tensor *t;
    kd_out *out;
    OK(kd_frame_add(f, "label", KD_U8, KD_SHAPE(SOME), NULL, &t, E));
    for (int64_t k = 0; k < SOME; k++) ((uint8_t *)t->data)[k] = (uint8_t)label_of(k);
    OK(kd_frame_add(f, "image", KD_U8, KD_SHAPE(SOME, SIDE, SIDE, C), NULL, &t, E));
    for (int64_t k = 0; k < SOME; k++) draw((uint8_t *)t->data + k * SIZE, k);
    OK(kd_frame_add(f, "more", KD_F32, KD_SHAPE(SOME, SIZE), NULL, &t, E));
    OK(kd_frame_add(f, "seed", KD_U64, KD_SHAPE(SOME), NULL, &t, E));
    for (int64_t k = 0; k < SOME; k++) ((uint64_t *)t->data)[k] = UINT64_MAX - (uint64_t)k;
    OK(kd_out_open(&out, path, true, E));
    OK(kd_safetensors_write_plain(out, f, E));
    OK(kd_out_commit(out, E));
    kd_out_close(out);
    kd_frame_free(f);
    expect(SOME, 0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_memory),               // first: the peak of the process does not fall again
        cmocka_unit_test(concatenation), cmocka_unit_test(file_as_stdin), cmocka_unit_test(large_frame_in_a_pipe),
        cmocka_unit_test(damage), cmocka_unit_test(shrinking), cmocka_unit_test(peers_order),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
