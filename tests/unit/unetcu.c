// unet.cu's weights: the order of parameters against the peer's own modules, the values against the same network in PyTorch's format,
// what is refused, and any byte of the header changed.
#include "formats/unetcu.h"
#include "base/json.h"
#include "base/memory.h"
#include "formats/torch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define FILE_BIN "tests/golden/guided_tiny.seed.bin"
enum { HEADER = 1024 };

// The order ------------------------------------------------------------------------------------------------------

typedef struct expected { const json_t *list; size_t at; } expected;

static int same(void *arg, const char *name, kd_shape shape, kd_err *err)
{
    expected *e = arg;
    const json_t *p = json_array_get(e->list, e->at++), *sizes = json_array_get(p, 1);
    (void)err;
    if (!p || strcmp(json_string_value(json_array_get(p, 0)), name))
        fail_msg("parameter %zu is %s", e->at - 1, name);
    assert_int_equal(json_array_size(sizes), shape.n);
    for (int i = 0; i < shape.n; i++)
        assert_int_equal(json_integer_value(json_array_get(sizes, (size_t)i)), shape.d[i]);
    return 0;
}

static void order_of_the_modules(void **state)
{
    (void)state;
    void *text;
    size_t n;
    kd_err err = {0};
    json_t *golden;
    const char *key;
    json_t *list;
    assert_int_equal(kd_read_file("tests/golden/unetcu_parameters.json", 1 << 20, &text, &n, &err), 0);
    assert_int_equal(kd_json_parse(&golden, "golden", KD_EFORMAT, text, n, &err), 0);
    assert_int_equal(json_object_size(golden), 3);
    json_object_foreach(golden, key, list) {
        kd_unetcu_arch a = { .in_channels = 3, .out_channels = 3 };
        long long c;
        assert_int_equal(sscanf(key, "%lld %d %d %d", &c, &a.levels, &a.blocks, &a.attention_from), 4);
        a.model_channels = c;
        expected e = { .list = list };
        assert_int_equal(kd_unetcu_each(&a, same, &e, &err), 0);
        assert_int_equal(e.at, json_array_size(list));
    }
    json_decref(golden);
    free(text);
}

static int add(void *arg, const char *name, kd_shape shape, kd_err *err)
{
    (void)name, (void)err;
    *(int64_t *)arg += kd_shape_count(&shape);
    return 0;
}

// So the number of parameters tells the network.
static void no_two_networks_have_as_many_parameters(void **state)
{
    (void)state;
    kd_err err = {0};
    for (int64_t c = 32; c <= 256; c += 32) {
        int64_t seen[100];
        int n = 0;
        kd_unetcu_arch a = { .in_channels = 3, .out_channels = 3, .model_channels = c };
        for (a.levels = 1; a.levels <= 4; a.levels++)
            for (a.blocks = 1; a.blocks <= 4; a.blocks++)
                for (a.attention_from = 0; a.attention_from <= a.levels; a.attention_from++) {
                    seen[n] = 0;
                    kd_unetcu_each(&a, add, &seen[n], &err);
                    for (int i = 0; i < n; i++)
                        assert_true(seen[i] != seen[n]);
                    n++;
                }
    }
}

// Files ----------------------------------------------------------------------------------------------------------

static int read_bytes(kd_frame **f, const void *bytes, size_t n, kd_err *err)
{
    char path[40];
    kd_in *in;
    const int fd = memfd_create("t", 0);
    assert_int_equal(write(fd, bytes, n), n);
    lseek(fd, 0, SEEK_SET);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    assert_int_equal(kd_in_open(&in, path, err), 0);
    const int code = kd_unetcu_read(f, in, err);
    kd_in_close(in);
    close(fd);
    return code;
}

static uint8_t *golden(size_t *n)
{
    kd_err err = {0};
    void *bytes;
    assert_int_equal(kd_read_file(FILE_BIN, 1 << 20, &bytes, n, &err), 0);
    return bytes;
}

static void same_as_pytorch(const kd_frame *f)
{
    kd_err err = {0};
    kd_torch *t;
    assert_int_equal(kd_torch_load(&t, "tests/golden/guided_tiny.zip.pt", &err), 0);
    assert_int_equal(f->n, t->tensors->n);
    for (int i = 0; i < f->n; i++) {
        const kd_tensor *a = &f->t[i], *b = &t->tensors->t[i];
        assert_string_equal(a->name, b->name);
        assert_true(kd_shape_same(&a->shape, &b->shape));
        assert_memory_equal(a->data, b->data, kd_tensor_bytes(b));
    }
    kd_torch_free(t);
}

static void values_and_config(void **state)
{
    (void)state;
    size_t n;
    uint8_t *b = golden(&n);
    kd_err err = {0};
    kd_frame *f;
    assert_int_equal(read_bytes(&f, b, n, &err), 0);
    same_as_pytorch(f);
    assert_non_null(strstr(kd_frame_meta(f, "config"), "\"num_res_blocks\": 1, \"channel_mult\": [1], \"attention_resolutions\": [1]"));
    kd_frame_free(f);
    free(b);
}

// As the program itself saves: with moments, and 48 bytes for each of 2 x 3 x 8 x 8 numbers.
static void states_are_passed_over(void **state)
{
    (void)state;
    size_t n;
    uint8_t *b = golden(&n);
    const size_t parameters = n - HEADER, all = HEADER + 3 * parameters + 2 * 3 * 8 * 8 * 48;
    kd_err err = {0};
    kd_frame *f;
    b = realloc(b, all);
    assert_non_null(b);
    memset(b + n, 1, all - n);
    b[4 * 8] = b[4 * 9] = 1;
    assert_int_equal(read_bytes(&f, b, all, &err), 0);
    same_as_pytorch(f);
    kd_frame_free(f);
    assert_int_equal(read_bytes(&f, b, all - 4, &err), KD_EFORMAT);
    free(b);
}

static void refuses(const uint8_t *bytes, size_t n, const char *want)
{
    kd_err err = {0};
    kd_frame *f;
    assert_int_equal(read_bytes(&f, bytes, n, &err), KD_EFORMAT);
    assert_null(f);
    if (!strstr(err.msg, want))
        fail_msg("expected \"%s\" in: %s", want, err.msg);
}

static void what_is_refused(void **state)
{
    (void)state;
    size_t n;
    uint8_t *b = golden(&n);
    refuses(b, 1000, "ends after 1000 of the header's 1024 bytes");
    refuses(b, n - 2, "704778 bytes of numbers are not a whole number of them");
    refuses(b, n - 4, "176194 parameters: no network of up to 4 levels and 4 blocks with 32 channels has as many; its own has 5136323");
    b[4 * 8] = 1;
    refuses(b, n - 4, "are not parameters and twice as many moments");
    b[4 * 9] = 1, b[4 * 1 + 2] = 1;
    refuses(b, n, "batch: expected 1 to 65536, got 65538");
    b[4 * 1 + 2] = 0, b[4 * 1 + 1] = 100;
    refuses(b, n, "too short for the generator's states");
    b[4 * 3] = 0;
    refuses(b, n, "model channels: expected 1 to 65536, got 0");
    b[0] = 0;
    refuses(b, n, "not unet.cu's weights");
    free(b);
}

static void any_byte_of_the_header(void **state)
{
    (void)state;
    size_t n;
    uint8_t *b = golden(&n);
    for (size_t i = 0; i < 44; i++) {
        static const uint8_t with[] = { 0x01, 0x7f, 0x80, 0xff };
        for (size_t k = 0; k < sizeof with; k++) {
            kd_err err = {0};
            kd_frame *f;
            b[i] ^= with[k];
            if (read_bytes(&f, b, n, &err) && (err.code != KD_EFORMAT || !err.msg[0]))
                fail_msg("byte %zu: %d %s", i, err.code, err.msg);
            kd_frame_free(f);
            b[i] ^= with[k];
        }
    }
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(order_of_the_modules), cmocka_unit_test(no_two_networks_have_as_many_parameters),
                                        cmocka_unit_test(values_and_config), cmocka_unit_test(states_are_passed_over),
                                        cmocka_unit_test(what_is_refused), cmocka_unit_test(any_byte_of_the_header) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
