// PyTorch's files: every tensor and value of the peer's own checkpoints, both formats, what is refused and how, and any byte changed.
#include "formats/torch.h"
#include "base/json.h"
#include "base/memory.h"
#include "formats/pickle.h"
#include "formats/safetensors.h"
#include "formats/zip.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define GOLDEN "tests/golden/"

static kd_torch *load(const char *path)
{
    kd_err err = {0};
    kd_torch *t;
    if (kd_torch_load(&t, path, &err))
        fail_msg("%s", err.msg);
    return t;
}

// Bytes as a file; its message must hold `want`.
static void refuses(const void *bytes, size_t n, const char *want)
{
    char path[40];
    kd_err err = {0};
    kd_torch *t = NULL;
    const int fd = memfd_create("t", 0);
    assert_int_equal(write(fd, bytes, n), n);
    lseek(fd, 0, SEEK_SET);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    assert_int_equal(kd_torch_load(&t, path, &err), KD_EFORMAT);
    if (!strstr(err.msg, want))
        fail_msg("expected \"%s\" in: %s", want, err.msg);
    assert_null(t);
    close(fd);
}

// The peer's own files -------------------------------------------------------------------------------------------

static void same_tensors(const kd_frame *got, const kd_frame *want)
{
    assert_int_equal(got->n, want->n);
    for (int i = 0; i < want->n; i++) {
        const kd_tensor *w = &want->t[i], *g = kd_frame_get(got, w->name);
        if (!g)
            fail_msg("no tensor %s", w->name);
        assert_int_equal(g->dtype, w->dtype);
        assert_true(kd_shape_same(&g->shape, &w->shape));
        assert_memory_equal(g->data, w->data, kd_tensor_bytes(w));
    }
}

static int same_value(void *arg, const char *path, const json_t *value, kd_err *err)
{
    json_t *want = arg;
    (void)err;
    if (!json_equal(json_object_get(want, path), (json_t *)value))
        fail_msg("%s differs or is not there", path);
    return json_object_del(want, path);
}

static void same_values(const json_t *rest, const char *path)
{
    kd_err err = {0};
    void *text;
    size_t n;
    json_t *want;
    assert_int_equal(kd_read_file(path, 1 << 20, &text, &n, &err), 0);
    assert_int_equal(kd_json_parse(&want, path, KD_EFORMAT, text, n, &err), 0);
    assert_int_equal(kd_torch_each(rest, same_value, want, &err), 0);
    if (json_object_size(want))
        fail_msg("not there: %s", json_object_iter_key(json_object_iter(want)));
    json_decref(want);
    free(text);
}

static void every_tensor_and_value_of_a_training_checkpoint(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_frame *flat;
    kd_torch *t = load(GOLDEN "checkpoints/kdiff_train.pth");
    assert_false(t->legacy);
    assert_int_equal(kd_safetensors_load(GOLDEN "checkpoints/kdiff_train.flat.safetensors", &flat, &err), 0);
    same_tensors(t->tensors, flat);
    same_values(t->rest, GOLDEN "checkpoints/kdiff_train.scalars.json");
    kd_frame_free(flat);
    kd_torch_free(t);
}

static int find_gns(void *arg, const char *path, const json_t *value, kd_err *err)
{
    (void)err;
    if (!strcmp(path, "gns_stats.gradient_noise_scale") || !strcmp(path, "gns_stats.ema_sq_norm"))
        *(double *)arg += json_real_value(value);
    return 0;
}

static void gradient_noise_statistics(void **state)
{
    (void)state;
    kd_err err = {0};
    double sum = 0;
    kd_torch *t = load(GOLDEN "checkpoints/kdiff_train_gns.pth");
    assert_int_equal(kd_torch_each(t->rest, find_gns, &sum, &err), 0);
    assert_true(sum >= 0.00013713 && sum < 10.1);
    kd_torch_free(t);
}

static void both_formats_hold_the_same(void **state)
{
    (void)state;
    kd_torch *zip = load(GOLDEN "guided_tiny.zip.pt"), *legacy = load(GOLDEN "guided_tiny.legacy.pt");
    assert_true(legacy->legacy && !zip->legacy);
    assert_string_equal(zip->tensors->t[0].name, "time_embed.0.weight");
    same_tensors(legacy->tensors, zip->tensors);
    assert_int_equal(json_object_size(zip->rest), 0);
    kd_torch_free(zip);
    kd_torch_free(legacy);
}

static void is(const kd_torch *t, const char *name, kd_dtype type, const void *want, size_t n)
{
    const kd_tensor *x = kd_frame_get(t->tensors, name);
    if (!x || x->dtype != type || kd_tensor_bytes(x) != n || memcmp(x->data, want, n))
        fail_msg("%s differs", name);
}
#define IS(t, name, type, c, ...) is(t, name, type, (c[]){ __VA_ARGS__ }, sizeof (c[]){ __VA_ARGS__ })

static void the_negative_bit_turns_the_sign(void **state)
{
    (void)state;
    for (int legacy = 0; legacy < 2; legacy++) {
        kd_torch *t = load(legacy ? GOLDEN "torch/negative.legacy.pth" : GOLDEN "torch/negative.zip.pth");
        IS(t, "plain", KD_F32, float, 0, 1, -2);
        IS(t, "f32", KD_F32, float, -0.0f, -1, 2);
        IS(t, "f64", KD_F64, double, -1, -2, -3);
        IS(t, "f16", KD_F16, uint16_t, 0xbc00, 0x4000);
        IS(t, "bf16", KD_BF16, uint16_t, 0xbf80, 0x4000);
        IS(t, "i64", KD_I64, int64_t, -1, INT64_C(1) << 62, 0);
        IS(t, "u8", KD_U8, uint8_t, 255, 0, 1);
        IS(t, "strided", KD_F32, float, -0.0f, -3, -1, -4, -2, -5);
        IS(t, "imag", KD_F32, float, -0.5f, 1.5f, -0.0f, -2.5f);
        IS(t, "parameter", KD_F32, float, -1);
        kd_torch_free(t);
    }
}

static void a_view_of_five_of_seven(void **state)
{
    (void)state;
    static const float want[] = { 0, 1, 2, 3, 4 };
    kd_torch *t = load(GOLDEN "bad/good_small.pth");
    const kd_tensor *w = kd_frame_get(t->tensors, "w"), *b = kd_frame_get(t->tensors, "b");
    assert_int_equal(kd_tensor_count(w), 5);
    assert_memory_equal(w->data, want, sizeof want);
    assert_int_equal(b->dtype, KD_F16);
    assert_int_equal(((uint16_t *)b->data)[2], 0x3c00);
    kd_torch_free(t);
}

// The same object in each container and pickle protocol.
static void every_protocol_holds_the_same(void **state)
{
    (void)state;
    kd_torch *first = load(GOLDEN "torch/zip2.pth");
    assert_int_equal(first->tensors->n, 4);
    assert_int_equal(((const int64_t *)kd_frame_get(first->tensors, "count")->data)[0], 7);
    assert_true(((const float *)kd_frame_get(first->tensors, "p")->data)[0] == 3);
    for (int k = 0; k < 8; k++) {
        char path[60];
        snprintf(path, sizeof path, GOLDEN "torch/%s%d.pth", k % 2 ? "legacy" : "zip", 2 + k / 2);
        kd_torch *t = load(path);
        assert_int_equal(t->legacy, k % 2);
        same_tensors(t->tensors, first->tensors);
        assert_true(json_equal(t->rest, first->rest));
        kd_torch_free(t);
    }
    kd_torch_free(first);
}

// A length of 10,000,000 and more can begin as a pickle of protocol 4 does; a short frame has zeros where a length has.
static void what_is_no_pickle(void **state)
{
    (void)state;
    assert_false(kd_torch_knows("\x80\x04\x95\x00\x00\x00\x00\x00{\"a\":", 13));
    assert_false(kd_torch_knows("\x80\x02\x00\x00\x00\x00\x00\x00{\"a\":", 13));
    assert_true(kd_torch_knows("\x80\x04\x95\x0d\x00\x00\x00\x00\x00\x00\x00\x8a\x0a", 13));
    assert_true(kd_torch_knows("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50", 13));
}

// Damaged and hostile --------------------------------------------------------------------------------------------

static void what_each_bad_file_is(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        { "malicious_zip", "pickle: global posix.system at byte 63 is not allowed" },
        { "malicious_legacy", "pickle: global posix.system at byte 154 is not allowed" },
        { "malicious_plain", "pickle: global os.system at byte 0 is not allowed" },
        { "malicious_eval", "pickle: global __builtin__.eval at byte 0 is not allowed" },
        { "malicious_build", "pickle: global posix.system at byte 39 is not allowed" },
        { "truncated_zip", "zip: no directory at its end: cut short or damaged" },
        { "truncated_tail", "zip: cut short: the end record has 12 of 22 bytes" },
        { "short_storage", "storage 0 has 8 bytes, 28 are declared" },
        { "size_exceeds_storage", "tensor w: [200] from element 0 on is more than its storage of 7 has" },
        { "size_huge", "tensor w: [9223372036854775807] from element 0 on is more than its storage of 7 has" },
        { "missing_storage", "storage 1 is missing in the archive" },
        { "truncated_pickle", "pickle: ends after" },
        { "../torch/conjugate", "global torch.ComplexFloatStorage at byte" },
        { "../torch/parameter_state", "global torch._utils._rebuild_parameter_with_state at byte" },
        { "../torch/uint16", "global torch._utils._rebuild_tensor_v3 at byte" },
        { "empty", "empty" },
        { "garbage", "neither a zip archive nor a pickle: not PyTorch's" } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char path[80];
        void *bytes;
        size_t n;
        kd_err err = {0};
        snprintf(path, sizeof path, GOLDEN "bad/%s.pth", bad[i][0]);
        assert_int_equal(kd_read_file(path, 1 << 20, &bytes, &n, &err), 0);
        refuses(bytes, n, bad[i][1]);
        free(bytes);
    }
    assert_int_equal(access("pwned", F_OK), -1);
}

// A legacy file around an object's pickle; storage "0" has `count` floats 0, 1, 2, ...
static size_t legacy(char *to, const char *object, size_t n_object, uint64_t count)
{
    static const char head[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}.";
    static const char one[] = "\x80\x02]U\x01" "0a.", no[] = "\x80\x02].";
    size_t n = sizeof head - 1;
    memcpy(to, head, n);
    memcpy(to + n, object, n_object);
    n += n_object;
    const size_t n_keys = count ? sizeof one - 1 : sizeof no - 1;
    memcpy(to + n, count ? one : no, n_keys);
    n += n_keys;
    for (uint64_t i = 0; count && i <= count; i++) {
        const float f = (float)i - 1;
        memcpy(to + n, i ? (const void *)&f : &count, i ? 4 : 8);
        n += i ? 4 : 8;
    }
    return n;
}

#define OBJECT(text) text, sizeof text - 1
#define STORAGE(count) "(U\x07storagectorch\nFloatStorage\nU\x01" "0U\x03" "cpuK" count "NtQ"
#define TENSOR(args) "\x80\x02}U\x01" "actorch._utils\n_rebuild_tensor_v2\n(" args "\x89}tRs."

static void refuses_object(const char *object, size_t n, uint64_t count, const char *want)
{
    char file[2000];
    refuses(file, legacy(file, object, n, count), want);
}

static void what_a_pickle_may_not_say(void **state)
{
    (void)state;
    refuses_object(OBJECT("\x80\x09N."), 0, "protocol 9 is not known");
    refuses_object(OBJECT("\x80\x02)\x82."), 0, "opcode 0x82 is not allowed");
    refuses_object(OBJECT("\x80\x02)\x81."), 0, "a value too few on the stack");
    refuses_object(OBJECT("\x80\x02" "c__torch__.a\nM\n)R."), 0, "a call of a class");
    refuses_object(OBJECT("\x80\x02" "c__torch__\nM\nN\x85\x81."), 0, "an object of something else than a class");
    refuses_object(OBJECT("\x80\x02" "ctorch\nSize\n)\x81."), 0, "an object of something else than a class");
    refuses_object(OBJECT("\x80\x02" "c__torch__os\nsystem\n)\x81."), 0, "global __torch__os.system at byte");
    refuses_object(OBJECT("\x80\x02" "c__torch__\nM\n)\x81)b."), 0, "attributes for something else than a dict");
    refuses_object(OBJECT("\x80\x02" "c__torch__\nM\n)\x81}b}b."), 0, "a second state");
    refuses_object(OBJECT("\x80\x02" "c__torch__\nM\n)\x81."), 0, "top level: an object without attributes");
    refuses_object(OBJECT("\x80\x02i."), 0, "opcode 'i' is not allowed");
    refuses_object(OBJECT("\x80\x02."), 0, "ends with 0 values instead of one");
    refuses_object(OBJECT("\x80\x02NN."), 0, "ends with 2 values instead of one");
    refuses_object(OBJECT("\x80\x02(N."), 0, "ends with 1 values instead of one");
    refuses_object(OBJECT("\x80\x02t."), 0, "no mark on the stack");
    refuses_object(OBJECT("\x80\x02N(\x85t."), 0, "a value too few on the stack");
    refuses_object(OBJECT("\x80\x02h\x07."), 0, "memo number 7 is not set");
    refuses_object(OBJECT("\x80\x02Nr\xff\xff\xff\xff."), 0, "memo number 4294967295 is too large");
    refuses_object(OBJECT("\x80\x02X\xff\xff\xff\xff" "a."), 0, "of the 4294967295 bytes that follow the opcode");
    refuses_object(OBJECT("\x80\x02}(NNNu."), 0, "a key without a value");
    refuses_object(OBJECT("\x80\x02NNa."), 0, "items for a list, and none is there");
    refuses_object(OBJECT("\x80\x02N)R."), 0, "a call of something else than a name with a tuple");
    refuses_object(OBJECT("\x80\x02" "ccollections\nOrderedDict\nN\x85R."), 0, "a dict made with arguments");
    refuses_object(OBJECT("\x80\x02]}b."), 0, "attributes for something else than a dict");
    refuses_object(OBJECT("\x80\x02U\x02osU\x06system\x93."), 0, "global os.system at byte");
    refuses_object(OBJECT("\x80\x02" "cos\nsyst"), 0, "ends in a global's name");
    refuses_object(OBJECT("\x80\x02" "ctorch\nSize\n."), 0, "top level: a name");
    refuses_object(OBJECT("\x80\x02}NNs."), 0, "a key that is neither text nor a number");
    refuses_object(OBJECT("\x80\x02}(U\x01" "aNU\x01" "aNu."), 0, "a: is there twice");
    refuses_object(OBJECT("\x80\x02}(K\x01NU\x01" "1Nu."), 0, "1: is there twice");
    refuses_object(OBJECT("\x80\x02}U\x01\xffNs."), 0, "a key that is neither text nor a number");
    refuses_object(OBJECT("\x80\x02U\x01\xff."), 0, "text that is not UTF-8");
    refuses_object(OBJECT("\x80\x02\x8a\x09" "123456789."), 0, "a large number");
    refuses_object(OBJECT("\x80\x02NQ."), 0, "a persistent id that is not a storage's");
}

static void values_without_end(void **state)
{
    (void)state;
    char bomb[200] = "\x80\x02]q\x00", file[2000];
    size_t n = 5;
    refuses_object(OBJECT("\x80\x02]q\x00h\x00" "a."), 0, "nested more than 64 deep");
    for (int i = 0; i < 12; i++)                         // a list of ten of the list before: 10^12 values
        for (int k = 0; k < 14; k++)
            bomb[n++] = (char[]){ '0', ']', '(', 'h', 0, 'h', 0, 'h', 0, 'h', 0, 'e', 'q', 0 }[k];
    bomb[n++] = '.';
    refuses(file, legacy(file, bomb, n, 0), "its values would take more memory than its 174 bytes on disk back (1059712)");
}

#define TENSOR_WITH(hooks_and_more) "\x80\x02}U\x01" "actorch._utils\n_rebuild_tensor_v2\n(" STORAGE("\x02") "K\x00K\x02\x85K\x01\x85\x89" \
    hooks_and_more "tRs."
static void state_that_is_not_known(void **state)
{
    (void)state;
    static const char only[] = "expected no metadata but \"neg\" of a number, got ";
    char want[100];
    snprintf(want, sizeof want, "%s\"conj\"", only);
    refuses_object(OBJECT(TENSOR_WITH("}}U\x04" "conj\x88s")), 2, want);
    refuses_object(OBJECT(TENSOR_WITH("}}U\x03" "negK\x01s")), 2, only);
    refuses_object(OBJECT(TENSOR_WITH("}]")), 2, "expected metadata, got a list");
    refuses_object(OBJECT(TENSOR_WITH("}K\x01Ns")), 2, "expected no hooks, got a dict");
    refuses_object(OBJECT(TENSOR_WITH("U\x01h")), 2, "expected no hooks, got \"h\"");
    refuses_object(OBJECT("\x80\x02" "ctorch._utils\n_rebuild_parameter\n(N\x88}K\x01NstR."), 0, "_rebuild_parameter with 3 arguments");
}

static void tensors_that_do_not_fit(void **state)
{
    (void)state;
    static const char more[] = "is more than its storage of 6 has";
    refuses_object(OBJECT(TENSOR(STORAGE("\x06") "K\x04K\x03\x85K\x01\x85")), 6, more);
    refuses_object(OBJECT(TENSOR(STORAGE("\x06") "K\x00K\x02K\x03\x86K\x04K\x01\x86")), 6, more);
    refuses_object(OBJECT(TENSOR(STORAGE("\x06") "K\x00K\x07\x85K\x00\x85")), 6, more);
    refuses_object(OBJECT(TENSOR(STORAGE("\x06") "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\x02\x85K\x01\x85")), 6, more);
    refuses_object(OBJECT(TENSOR(STORAGE("\x06") "K\x00K\x02\x85\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85")), 6, more);
    refuses_object(OBJECT(TENSOR(STORAGE("\x06") "K\x00J\xff\xff\xff\xff\x85K\x01\x85")), 6, "tensor a: expected sizes, got the number -1");
    refuses_object(OBJECT(TENSOR(STORAGE("\x06") "K\x00K\x02\x85)")), 6, "sizes and strides differ in number");
    refuses_object(OBJECT(TENSOR(STORAGE("\x06") "N)K\x01\x85")), 6, "expected a place in the storage, got None");
    refuses_object(OBJECT(TENSOR("NK\x00K\x01\x85K\x01\x85")), 0, "expected a storage, got None");
    refuses_object(OBJECT(TENSOR(STORAGE("\x06") "K\x00K\x02\x85K\x01\x85")), 5, "storage 0 has 5 elements, 6 are declared");
}

static void strides_become_C_order(void **state)
{
    (void)state;
    char file[2000], path[40];
    static const char object[] = TENSOR(STORAGE("\x06") "K\x00K\x03K\x02\x86K\x01K\x03\x86");
    static const float want[] = { 0, 3, 1, 4, 2, 5 };
    const size_t n = legacy(file, object, sizeof object - 1, 6);
    const int fd = memfd_create("t", 0);
    assert_int_equal(write(fd, file, n), n);
    lseek(fd, 0, SEEK_SET);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    kd_torch *t = load(path);
    assert_int_equal(t->tensors->n, 1);
    assert_int_equal(t->tensors->t[0].shape.d[0], 3);
    assert_memory_equal(t->tensors->t[0].data, want, sizeof want);
    kd_torch_free(t);
    close(fd);
    refuses(file, n - 1, "ends after 23 of the 24 bytes of storage 0");
    file[n] = 0;
    refuses(file, n + 1, "1 bytes after the last storage belong to nothing");
}

// Any byte -------------------------------------------------------------------------------------------------------

static void try_bytes(const void *bytes, size_t n)
{
    char path[40];
    kd_err err = {0};
    kd_torch *t = NULL;
    const int fd = memfd_create("t", 0);
    assert_int_equal(write(fd, bytes, n), n);
    lseek(fd, 0, SEEK_SET);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    if (kd_torch_load(&t, path, &err) && (err.code != KD_EFORMAT || !err.msg[0]))
        fail_msg("%d: %s", err.code, err.msg);
    uint64_t sum = 0;
    for (int i = 0; t && i < t->tensors->n; i++)
        sum += kd_hash_of(t->tensors->t[i].data, kd_tensor_bytes(&t->tensors->t[i]));       // all of it can be read
    assert_true(sum != 1);
    kd_torch_free(t);
    close(fd);
}

// Each byte changed in four ways, and the file cut before it.
static void mutate(const char *path)
{
    kd_err err = {0};
    void *block;
    size_t n;
    assert_int_equal(kd_read_file(path, 1 << 16, &block, &n, &err), 0);
    uint8_t *b = block;
    for (size_t i = 0; i < n; i++) {
        static const uint8_t with[] = { 0x01, 0x80, 0xff };
        const uint8_t was = b[i];
        for (size_t k = 0; k < sizeof with; k++) {
            b[i] = was ^ with[k];
            try_bytes(b, n);
        }
        b[i] = 0xff;
        try_bytes(b, n);
        b[i] = was;
        try_bytes(b, i);
    }
    free(block);
}

static void any_byte_of_a_zip(void **state)
{
    (void)state;
    mutate(GOLDEN "bad/good_small.pth");
    mutate(GOLDEN "bad/short_storage.pth");
}

static void any_byte_of_a_legacy_file(void **state)
{
    (void)state;
    char file[2000];
    static const char object[] = TENSOR(STORAGE("\x06") "K\x00K\x03K\x02\x86K\x01K\x03\x86");
    const size_t n = legacy(file, object, sizeof object - 1, 6);
    for (size_t i = 0; i < n; i++) {
        const char was = file[i];
        for (int c = 0; c < 256; c++) {
            file[i] = (char)c;
            try_bytes(file, n);
        }
        file[i] = was;
        try_bytes(file, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_and_value_of_a_training_checkpoint), cmocka_unit_test(gradient_noise_statistics),
        cmocka_unit_test(both_formats_hold_the_same), cmocka_unit_test(every_protocol_holds_the_same),
        cmocka_unit_test(what_is_no_pickle), cmocka_unit_test(the_negative_bit_turns_the_sign),
        cmocka_unit_test(state_that_is_not_known), cmocka_unit_test(a_view_of_five_of_seven), cmocka_unit_test(what_each_bad_file_is),
        cmocka_unit_test(what_a_pickle_may_not_say), cmocka_unit_test(values_without_end), cmocka_unit_test(tensors_that_do_not_fit),
        cmocka_unit_test(strides_become_C_order), cmocka_unit_test(any_byte_of_a_zip), cmocka_unit_test(any_byte_of_a_legacy_file) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
