// The container: good files, bad files (also those of tests/golden/bad by content), streams, checksums, mutations.
#include "formats/safetensors.h"
#include "base/memory.h"
#include "formats/model.h"
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[] = "/tmp/kd-test-XXXXXX", path[64];
static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/f.st", dir);
    return 0;
}

static int remove_dir(void **state) { (void)state; unlink(path); return rmdir(dir); }

static void put(const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

// A frame of a header and `data` bytes counting up.
static size_t make(char *to, const char *header, int data)
{
    const uint64_t n = strlen(header);
    memcpy(to, &n, 8);
    memcpy(to + 8, header, n);
    for (int i = 0; i < data; i++)
        to[8 + n + (size_t)i] = (char)i;
    return 8 + n + (size_t)data;
}

static void save(const kd_frame *f)
{
    kd_err err = {0};
    kd_out *out;
    assert_int_equal(kd_out_open(&out, path, true, &err), 0);
    assert_int_equal(kd_safetensors_write(out, f, &err), 0);
    assert_int_equal(kd_out_commit(out, &err), 0);
    kd_out_close(out);
}

static kd_frame *sample(void)
{
    kd_err err = {0};
    kd_frame *f = kd_frame_new();
    kd_tensor *t;
    assert_int_equal(kd_frame_add(f, "b.weight", KD_F32, KD_SHAPE(2, 3), NULL, &t, &err), 0);
    for (int i = 0; i < 6; i++)
        ((float *)t->data)[i] = (float)i - 2.5f;
    assert_int_equal(kd_frame_add(f, "a \"quoted\\\" \n\x01 \xc3\xa9", KD_U8, KD_SHAPE(3), NULL, &t, &err), 0);
    memcpy(t->data, "xyz", 3);
    assert_int_equal(kd_frame_add(f, "empty", KD_F64, KD_SHAPE(4, 0), NULL, &t, &err), 0);
    assert_int_equal(kd_frame_add(f, "scalar", KD_I64, (kd_shape){0}, NULL, &t, &err), 0);
    *(int64_t *)t->data = -7;
    assert_int_equal(kd_frame_set_meta(f, "kd", "model/1", &err), 0);
    assert_int_equal(kd_frame_set_meta(f, "config", "{\"a\": \"\\u00e9\"}\n", &err), 0);
    return f;
}

static void assert_same(const kd_frame *a, const kd_frame *b)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        assert_string_equal(a->t[i].name, b->t[i].name);
        assert_int_equal(a->t[i].dtype, b->t[i].dtype);
        assert_true(kd_shape_same(&a->t[i].shape, &b->t[i].shape));
        assert_memory_equal(a->t[i].data, b->t[i].data, kd_tensor_bytes(&a->t[i]));
    }
}

static void round_trip(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_frame *f = sample(), *g;
    void *bytes;
    size_t n;
    save(f);
    assert_int_equal(kd_safetensors_load(path, &g, &err), 0);
    assert_same(f, g);
    assert_string_equal(kd_frame_meta(g, "config"), kd_frame_meta(f, "config"));
    assert_string_equal(kd_frame_kind(g), "model/1");
    assert_int_equal(strlen(kd_frame_meta(g, "kd_xxh3")), 16);
    assert_int_equal(kd_read_file(path, 1 << 20, &bytes, &n, &err), 0);
    uint64_t header;
    memcpy(&header, bytes, 8);
    assert_int_equal((8 + header) % 64, 0);
    save(g);                                           // what was read is written as the same bytes
    void *again;
    size_t m;
    assert_int_equal(kd_read_file(path, 1 << 20, &again, &m, &err), 0);
    assert_int_equal(n, m);
    assert_memory_equal(bytes, again, n);
    free(bytes);
    free(again);
    kd_frame_free(f);
    kd_frame_free(g);
}

static void history_and_kinds(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_frame *f = kd_frame_new();
    assert_int_equal(kd_frame_add_history(f, NULL, &err), 0);
    assert_null(kd_frame_meta(f, "kd_history"));
    assert_int_equal(kd_frame_add_history(f, "kd-prep imgs", &err), 0);
    assert_int_equal(kd_frame_add_history(f, "kd-train -c cfg.json", &err), 0);
    assert_string_equal(kd_frame_meta(f, "kd_history"), "kd-prep imgs\nkd-train -c cfg.json");
    assert_int_equal(kd_frame_want(f, "x", "model/1", true, &err), 0);
    assert_int_equal(kd_frame_want(f, "x", "model/1", false, &err), KD_EFORMAT);
    assert_string_equal(err.msg, "x: expected model/1, got a file that says no kind");
    assert_int_equal(kd_frame_set_meta(f, "kd", "images/1", &(kd_err){0}), 0);
    kd_err other = {0};
    assert_int_equal(kd_frame_want(f, "x", "model/1", true, &other), KD_EFORMAT);
    assert_string_equal(other.msg, "x: expected model/1, got images/1");
    kd_frame_set_meta(f, "name", "\xff", &(kd_err){0});
    kd_out *out;
    kd_err bad = {0};
    assert_int_equal(kd_out_open(&out, "/dev/null", true, &bad), 0);
    assert_int_equal(kd_safetensors_write(out, f, &bad), KD_EUSAGE);
    kd_out_close(out);
    kd_frame_free(f);
}

static void picks_a_tensor(void **state)
{
    (void)state;
    kd_frame *f = sample(), *g;
    const kd_tensor *t;
    char name[128];
    kd_err err = {0}, none = {0}, wrong = {0};
    save(f);
    snprintf(name, sizeof name, "%s:scalar", path);
    assert_int_equal(kd_safetensors_pick(name, &g, &t, &err), 0);
    assert_int_equal(*(int64_t *)t->data, -7);
    kd_frame_free(g);
    snprintf(name, sizeof name, "%s:nothing", path);
    assert_int_equal(kd_safetensors_pick(name, &g, &t, &none), KD_EUSAGE);
    assert_int_equal(kd_safetensors_pick("file", &g, &t, &wrong), KD_EUSAGE);
    assert_string_equal(wrong.msg, "file: expected FILE:NAME, a safetensors file and a tensor in it");
    kd_frame_free(f);
}

static void bad_headers(void **state)
{
    (void)state;
    static const struct { const char *header; int data; const char *message; } cases[] = {
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, "a.shape[0]: expected an integer of at least 0, got 2" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
          "a.shape: 9 dimensions, at most 8 are supported" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "a.data_offsets: expected 2 integers, got 3" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "a.data_offsets: expected a list, got nothing" },
        { "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a.dtype: expected a string, got nothing" },
        { "{\"a\":7}", 0, "a: expected an object, got 7" },
        { "{\"__metadata__\":[]}", 0, "__metadata__: expected an object, got a list of 0" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8,
          "bytes 0..4 of the data, before tensor a, belong to no tensor" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[0,4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, NULL },
        { "{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904,4,0],\"data_offsets\":[0,0]}}", 0,
          "a: shape [4611686018427387904,4,0] of F64 is more than 2^63 bytes" },
        { "{}", 1, "1 bytes after the last tensor belong to nothing" },
        { "{}", 0, NULL },
        { "{} x", 0, "header: not valid JSON: line 1, column 4: end of file expected near 'x'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[512], want[1100];
        kd_err err = {0};
        kd_frame *f;
        put(bytes, make(bytes, cases[i].header, cases[i].data));
        const int code = kd_safetensors_load(path, &f, &err);
        snprintf(want, sizeof want, "%s: %s", path, cases[i].message ? cases[i].message : "");
        if (cases[i].message) {
            assert_string_equal(err.msg, want);
            assert_int_equal(code, KD_EFORMAT);
            assert_null(f);
        } else {
            assert_int_equal(code, 0);
            kd_frame_free(f);
        }
    }
}

// tests/golden/bad: the good_* load, every other is refused with a message of its own.
static void golden_bad_files(void **state)
{
    (void)state;
    DIR *d = opendir("tests/golden/bad");
    assert_non_null(d);
    static char seen[64][200];
    int bad = 0, good = 0;
    for (struct dirent *e; (e = readdir(d));) {
        char name[300];
        kd_err err = {0};
        kd_frame *f;
        if (!strstr(e->d_name, ".safetensors"))
            continue;
        snprintf(name, sizeof name, "tests/golden/bad/%s", e->d_name);
        const int code = kd_safetensors_load(name, &f, &err);
        if (!strncmp(e->d_name, "good_", 5)) {
            assert_int_equal(code, 0);
            good++;
            kd_frame_free(f);
            continue;
        }
        assert_int_equal(code, KD_EFORMAT);
        const char *reason = err.msg + strlen(name);
        for (int i = 0; i < bad; i++)
            assert_string_not_equal(seen[i], reason);
        snprintf(seen[bad++], sizeof seen[0], "%s", reason);
    }
    closedir(d);
    assert_int_equal(good, 3);
    assert_int_equal(bad, 22);
}

static void peers_models_load(void **state)
{
    (void)state;
    static const struct { const char *name; kd_dtype dtype; } files[] = {
        { "tests/golden/checkpoints/kdiff_inference.fp32.safetensors", KD_F32 },
        { "tests/golden/checkpoints/kdiff_inference.fp16.safetensors", KD_F16 },
        { "tests/golden/checkpoints/kdiff_inference.bf16.safetensors", KD_BF16 },
        { "tests/golden/digits_run/digits.fp16.safetensors", KD_F16 },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        kd_err err = {0};
        kd_frame *f;
        char hex[17];
        assert_int_equal(kd_model_file_load(&f, files[i].name, false, &err), 0);
        assert_int_equal(kd_frame_get(f, "patch_in.proj.weight")->dtype, files[i].dtype);
        assert_non_null(kd_frame_meta(f, "config"));
        kd_model_hash(f, hex);
        assert_int_equal(strlen(hex), 16);
        kd_frame_free(f);
    }
}

static void checkpoint_gives_one_set(void **state)
{
    (void)state;
    static const char *const names[] = { "model.w", "ema.w", "opt.m.w", "opt.v.w", "ema.b.w" };
    for (int raw = 0; raw < 2; raw++) {
        kd_err err = {0};
        kd_frame *f = kd_frame_new(), *g;
        for (int i = 0; i < 5; i++) {
            kd_tensor *t;
            assert_int_equal(kd_frame_add(f, names[i], KD_F32, KD_SHAPE(1), NULL, &t, &err), 0);
            *(float *)t->data = (float)i;
        }
        kd_frame_set_meta(f, "kd", "checkpoint/1", &err);
        kd_frame_set_meta(f, "config", "{}", &err);
        save(f);
        assert_int_equal(kd_model_file_load(&g, path, raw, &err), 0);
        assert_int_equal(g->n, raw ? 1 : 2);
        assert_string_equal(g->t[0].name, "w");
        assert_true(*(float *)g->t[0].data == (raw ? 0 : 1));
        kd_frame_free(g);
        kd_frame_set_meta(f, "config", NULL, &err);
        save(f);
        char want[128];
        snprintf(want, sizeof want, "%s: no config in its metadata: not a model", path);
        assert_int_equal(kd_model_file_load(&g, path, raw, &err), KD_EFORMAT);
        assert_string_equal(err.msg, want);
        kd_frame_free(f);
    }
}

// The hash names the weights: not their order, nor the metadata.
static void model_hash(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_frame *f = sample(), *g = kd_frame_new();
    char a[17], b[17];
    for (int i = f->n - 1; i >= 0; i--)
        assert_int_equal(kd_frame_add(g, f->t[i].name, f->t[i].dtype, f->t[i].shape, f->t[i].data, NULL, &err), 0);
    kd_model_hash(f, a);
    kd_model_hash(g, b);
    assert_string_equal(a, b);
    ((float *)f->t[0].data)[5] += 1;
    kd_model_hash(f, b);
    assert_string_not_equal(a, b);
    kd_frame_free(g);
    kd_frame_free(f);
}

// A stream of frames through a pipe; the reader cannot seek and knows no length.
static void frames_through_a_pipe(void **state)
{
    (void)state;
    kd_err err = {0};
    int fd[2];
    char name[32];
    kd_frame *f = sample(), *g;
    kd_tensor *t;
    assert_int_equal(kd_frame_add(f, "large", KD_U8, KD_SHAPE(70 << 20), NULL, &t, &err), 0);     // beyond the first block
    ((char *)t->data)[(70 << 20) - 1] = 5;
    assert_int_equal(pipe(fd), 0);
    const pid_t child = fork();
    if (child == 0) {
        kd_out *out;
        close(fd[0]);
        snprintf(name, sizeof name, "/dev/fd/%d", fd[1]);
        int bad = kd_out_open(&out, name, true, &err);
        for (int i = 0; i < 2 && !bad; i++)
            bad = kd_safetensors_write(out, f, &err);
        _exit(bad || kd_out_commit(out, &err));
    }
    close(fd[1]);
    kd_in *in;
    snprintf(name, sizeof name, "/dev/fd/%d", fd[0]);
    assert_int_equal(kd_in_open(&in, name, &err), 0);
    assert_int_equal(kd_in_left(in), -1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kd_safetensors_read(in, &g, &err), 0);
        assert_same(f, g);
        kd_frame_free(g);
    }
    assert_int_equal(kd_safetensors_read(in, &g, &err), 0);
    assert_null(g);
    kd_in_close(in);
    close(fd[0]);
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    kd_frame_free(f);
}

// A pipe that claims a terabyte and holds ten bytes is refused without a terabyte.
static void a_pipe_is_not_believed(void **state)
{
    (void)state;
    kd_err err = {0};
    int fd[2];
    char bytes[200], name[32];
    kd_in *in;
    kd_frame *f;
    assert_int_equal(pipe(fd), 0);
    const size_t n = make(bytes, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1099511627776],\"data_offsets\":[0,1099511627776]}}", 10);
    assert_int_equal(write(fd[1], bytes, n), n);
    close(fd[1]);
    snprintf(name, sizeof name, "/dev/fd/%d", fd[0]);
    assert_int_equal(kd_in_open(&in, name, &err), 0);
    assert_int_equal(kd_safetensors_read(in, &f, &err), KD_EFORMAT);
    assert_non_null(strstr(err.msg, "tensor a ends after 10 of 1099511627776 bytes"));
    kd_in_close(in);
    close(fd[0]);
}

// Every byte changed in several ways, and every length: refused or read, never a crash; with a checksum, a change that
// leaves the frame readable is found unless it undid the checksum itself.
static void mutations(void **state)
{
    (void)state;
    kd_frame *f = sample();
    void *good;
    size_t n;
    kd_err err = {0};
    save(f);
    kd_frame_free(f);
    assert_int_equal(kd_read_file(path, 1 << 20, &good, &n, &err), 0);
    char *bytes = malloc(n);
    const char *sum = memmem(good, n, "\"kd_xxh3\"", 9);
    const size_t sum_at = (size_t)(sum - (const char *)good), sum_end = sum_at + 11 + 16 + 1;
    int accepted = 0;
    for (size_t i = 0; i < n; i++) {
        static const unsigned char change[] = { 0x01, 0x80, 0xff, 0x20, 0x10 };
        for (size_t k = 0; k < sizeof change; k++) {
            kd_err e = {0};
            kd_frame *g;
            memcpy(bytes, good, n);
            bytes[i] ^= (char)change[k];
            put(bytes, n);
            if (!kd_safetensors_load(path, &g, &e)) {
                accepted++;
                assert_true(i >= sum_at && i < sum_end);
                kd_frame_free(g);
            } else {
                assert_int_equal(e.code, KD_EFORMAT);
                assert_non_null(e.msg[0] ? e.msg : NULL);
            }
        }
    }
    assert_true(accepted > 0);                         // "kd_xxh2": no checksum
    for (size_t i = 0; i < n; i++) {
        kd_err e = {0};
        kd_frame *g;
        put(good, i);
        assert_int_equal(kd_safetensors_load(path, &g, &e), KD_EFORMAT);
    }
    free(bytes);
    free(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip), cmocka_unit_test(history_and_kinds), cmocka_unit_test(picks_a_tensor),
        cmocka_unit_test(bad_headers), cmocka_unit_test(golden_bad_files), cmocka_unit_test(peers_models_load),
        cmocka_unit_test(checkpoint_gives_one_set), cmocka_unit_test(model_hash), cmocka_unit_test(frames_through_a_pipe),
        cmocka_unit_test(a_pipe_is_not_believed), cmocka_unit_test(mutations),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
