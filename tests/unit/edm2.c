// EDM2's references: the arrays of every protocol and of numpy 1 and 2 to the bit; files cut anywhere; any byte changed; no memory.
#include "formats/edm2.h"
#include "formats/safetensors.h"
#include "tests/support/fault.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define GOLDEN "tests/golden/edm2/"

static int read_path(kd_edm2 **e, const char *path, kd_err *err)
{
    kd_in *in = NULL;
    KD_TRY(kd_in_open(&in, path, err));
    const int code = kd_edm2_read(e, in, err);
    kd_in_close(in);
    return code;
}

static int read_bytes(kd_edm2 **e, const void *bytes, size_t n, kd_err *err)
{
    char path[40];
    const int fd = memfd_create("t", 0);
    assert_int_equal(write(fd, bytes, n), n);
    lseek(fd, 0, SEEK_SET);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    const int code = read_path(e, path, err);
    close(fd);
    return code;
}

static uint8_t *file(const char *name, size_t *n)
{
    char path[100];
    void *bytes;
    kd_err err = {0};
    snprintf(path, sizeof path, GOLDEN "%s.pkl", name);
    if (kd_read_file(path, 1 << 20, &bytes, n, &err)) fail_msg("%s", err.msg);
    return bytes;
}

static void every_protocol(void **state)
{
    (void)state;
    static const struct { const char *name; int arrays; } files[] = { { "protocol2", 4 }, { "protocol3", 4 }, { "protocol4", 4 },
        { "protocol5", 4 }, { "numpy2", 4 }, { "fortran4", 2 }, { "fortran5", 2 }, { "dinov2", 2 } };
    kd_err err = {0};
    kd_frame *want;
    assert_int_equal(kd_safetensors_load(GOLDEN "arrays.safetensors", &want, &err), 0);
    const double *sigma = kd_frame_get(want, "fid.sigma")->data;
    assert_true(sigma[1] != sigma[6]);                     // or an order could be mistaken for the other
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char path[100];
        kd_edm2 *e;
        snprintf(path, sizeof path, GOLDEN "%s.pkl", files[k].name);
        if (read_path(&e, path, &err)) fail_msg("%s", err.msg);
        assert_int_equal(e->n, 50);
        assert_int_equal(e->arrays->n, files[k].arrays);
        for (int i = 0; i < e->arrays->n; i++) {
            const kd_tensor *g = &e->arrays->t[i], *w = kd_frame_get(want, g->name);
            assert_non_null(w);
            assert_int_equal(g->dtype, KD_F64);
            assert_true(kd_shape_same(&g->shape, &w->shape));
            assert_memory_equal(g->data, w->data, kd_tensor_bytes(w));
        }
        kd_edm2_free(e);
    }
    kd_frame_free(want);
}

static void cut_anywhere(void **state)
{
    (void)state;
    static const char *const names[] = { "protocol2", "protocol4", "protocol5" };
    for (int k = 0; k < 3; k++) {
        size_t n;
        uint8_t *bytes = file(names[k], &n);
        for (size_t cut = 0; cut < n; cut++) {
            kd_err err = {0};
            kd_edm2 *e;
            assert_int_equal(read_bytes(&e, bytes, cut, &err), KD_EFORMAT);
            assert_non_null(strstr(err.msg, "pickle: "));
            assert_null(e);
        }
        free(bytes);
    }
}

// Nothing but a sentence, or arrays, can come of any byte.
static void any_byte_changed(void **state)
{
    (void)state;
    static const char *const names[] = { "protocol2", "numpy2", "protocol5" };
    static const uint8_t masks[] = { 0x01, 0x80, 0xff };
    int refused = 0, taken = 0;
    for (int k = 0; k < 3; k++) {
        size_t n;
        uint8_t *bytes = file(names[k], &n);
        for (size_t i = 0; i < 3 * n; i++) {
            kd_err err = {0};
            kd_edm2 *e;
            bytes[i / 3] ^= masks[i % 3];
            if (read_bytes(&e, bytes, n, &err)) {
                assert_int_equal(err.code, KD_EFORMAT);
                assert_true(err.msg[0] && !e);
                refused++;
            } else taken++;
            kd_edm2_free(e);
            bytes[i / 3] ^= masks[i % 3];
        }
        free(bytes);
    }
    assert_true(refused > 1000 && taken > 1000);           // names and lengths; elements
}

// Opcodes are data: what a pickle may not do is refused with its place.
static void what_is_refused(void **state)
{
    (void)state;
    static const struct { const char *bytes; size_t n; const char *want; } bad[] = {
#define BAD(text, want) { text, sizeof text - 1, want }
        BAD("\x80\x04}.x", "1 bytes after the end of the pickle"),
        BAD("\x80\x06}.", "protocol 6 is not known at byte 0"),
        BAD("\x80\x04N.", "top level: expected a dict of statistics, got None"),
        BAD("\x80\x02}U\3fidi__main__\nX\n.", "opcode 'i' is not allowed at byte 8"),
        BAD("\x80\x04}(K\1}u.", "top level: expected a key, got the number 1"),
        BAD("\x80\x04}(\x8c\3a.b}u.", "top level: expected a key, got \"a.b\""),
        BAD("\x80\x04}(\x8c\3fid\x8c\1xQu.", "fid: expected a dict of arrays, got something outside"),
        BAD("\x80\x04}(\x8c\3fid\x8e\xff\xff\xff\xff\xff\xff\xff\xffu.", "ends after 2 of the 18446744073709551615 bytes"),
        BAD("\x80\x04}(\x8c\3fidC\3abcu.", "fid: expected a dict of arrays, got bytes"),
        BAD("\x80\x02}(U\3fidcnumpy\nload\nu.", "pickle: global numpy.load at byte 9 is not allowed"),
        BAD("\x80\x02}(U\3fidcnumpy\ndtype\nu.", "fid: expected a dict of arrays, got a name"),
        BAD("\x80\x02}(U\3fid}U\2mucnumpy\ndtype\nU\2f8\x85Rsu.", "fid.mu: expected an array of numpy, got a call"),
        BAD("\x80\x02}(U\3fid}U\2mucnumpy\ndtype\n)R)b)bsu.", "a second state"),
        BAD("\x80\x02}(U\3fid}U\2muc_codecs\nencode\n)R)bsu.", "attributes for something else than a dict"),
        BAD("\x80\x02}(U\3fid}U\2mucnumpy.core.multiarray\n_reconstruct\n)R)bsu.", "fid.mu: expected an array of numpy, got a call"),
        BAD("\x80\x02}U\3fid.", "ends with 2 values instead of one at byte 8"),
        BAD("\x80\x02}q\0U\3fidh\0s.", "fid.fid: expected an array of numpy, got a dict") };      // a dict inside itself
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        kd_err err = {0};
        kd_edm2 *e;
        assert_int_equal(read_bytes(&e, bad[k].bytes, bad[k].n, &err), KD_EFORMAT);
        if (!strstr(err.msg, bad[k].want)) fail_msg("case %zu: %s", k, err.msg);
    }
    kd_err err = {0};
    kd_edm2 *e;
    assert_int_equal(read_bytes(&e, "\x80\x04}.", 4, &err), 0);
    assert_int_equal(e->arrays->n, 0);
    kd_edm2_free(e);
}

static void knows_a_pickle(void **state)
{
    (void)state;
    static const char *const names[] = { "protocol2", "protocol3", "protocol4", "protocol5", "numpy2", "system" };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        size_t n;
        uint8_t *bytes = file(names[k], &n);
        assert_true(kd_edm2_knows(bytes, n < 64 ? n : 64));
        free(bytes);
    }
    static const char header[] = "\x80\x04\x95\x01\0\0\0\0{\"a\":", zip[] = "PK\3\4\x14\0\0\0\0\0\0\0";
    assert_false(kd_edm2_knows(header, 13));
    assert_false(kd_edm2_knows(zip, 12));
}

static int load(const char *name)
{
    kd_err err = {0};
    kd_edm2 *e;
    char path[100];
    snprintf(path, sizeof path, GOLDEN "%s.pkl", name);
    const int code = read_path(&e, path, &err);
    if (!code) kd_edm2_free(e);
    return code;
}

static void no_memory_at_any_point(void **state)
{
    (void)state;
    assert_true(fault_each_allocation("edm2", "protocol2") > 10);
    assert_true(fault_each_allocation("edm2", "protocol5") > 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_protocol), cmocka_unit_test(cut_anywhere), cmocka_unit_test(any_byte_changed),
        cmocka_unit_test(what_is_refused), cmocka_unit_test(knows_a_pickle), cmocka_unit_test(no_memory_at_any_point) };
    if (argc > 1) return load(argv[1]);
    return cmocka_run_group_tests_name("edm2", tests, NULL, NULL);
}
