// What a PyTorch file can take of memory: no more than formats/pickle.md says, by any opcode, stored, legacy or deflated; and that real
// files are far from it.
#include "base/memory.h"
#include "formats/pickle.h"
#include "formats/torch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

#if defined __SANITIZE_ADDRESS__
enum { MORE = 8 };                     // red zones, and freed blocks that are kept
#else
enum { MORE = 1 };
#endif
enum { MOST = 3000000, SLACK = 512 << 10 };              // of the process itself: pages, malloc's own

typedef struct bytes { uint8_t *p; size_t n; } bytes;

static void add(bytes *b, const void *p, size_t n)
{
    assert_true(b->n + n <= MOST);
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void add_int(bytes *b, uint64_t x, size_t n) { add(b, &x, n); }

static bytes new_bytes(void)
{
    bytes b = { .p = malloc(MOST) };
    assert_non_null(b.p);
    return b;
}

// Files ----------------------------------------------------------------------------------------------------------

typedef struct member { const char *name; const uint8_t *data; size_t n, n_packed, at; uLong crc; } member;

static void add_fields(bytes *b, const member *m, bool packed)
{
    add_int(b, packed ? 8 : 0, 2);
    add_int(b, 0, 4);                                    // time, date
    add_int(b, m->crc, 4);
    add_int(b, m->n_packed, 4);
    add_int(b, m->n, 4);
    add_int(b, strlen(m->name), 2);
}

static void add_packed(bytes *b, member *m)
{
    z_stream s = {0};
    assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    s.next_in = (Bytef *)(uintptr_t)m->data;
    s.avail_in = (uInt)m->n;
    s.next_out = b->p + b->n;
    s.avail_out = (uInt)(MOST - b->n);
    assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
    m->n_packed = s.total_out;
    b->n += m->n_packed;
    deflateEnd(&s);
}

static void add_member(bytes *b, member *m, bool packed)
{
    m->at = b->n;
    m->crc = crc32_z(0, m->data, m->n);
    add(b, "PK\3\4\x14\0\0", 8);
    const size_t fields = b->n;
    add_fields(b, m, packed);
    add_int(b, 0, 2);
    add(b, m->name, strlen(m->name));
    if (packed)
        add_packed(b, m);
    else
        add(b, m->data, m->n_packed = m->n);
    const size_t end = b->n;
    b->n = fields;
    add_fields(b, m, packed);
    b->n = end;
}

static bytes zip_of(bytes pickle, bytes storage, bool packed)
{
    member m[2] = { { .name = "a/data.pkl", .data = pickle.p, .n = pickle.n }, { .name = "a/data/0", .data = storage.p, .n = storage.n } };
    bytes b = new_bytes();
    for (int i = 0; i < 2; i++)
        add_member(&b, &m[i], packed);
    const size_t directory = b.n;
    for (int i = 0; i < 2; i++) {
        add(&b, "PK\1\2\x14\0\x14\0\0", 10);
        add_fields(&b, &m[i], packed);
        add(&b, (char[12]){0}, 12);
        add_int(&b, m[i].at, 4);
        add(&b, m[i].name, strlen(m[i].name));
    }
    const size_t end = b.n;
    add(&b, "PK\5\6\0\0\0\0\2\0\2", 12);
    add_int(&b, end - directory, 4);
    add_int(&b, directory, 4);
    add_int(&b, 0, 2);
    return b;
}

static bytes legacy_of(bytes pickle)
{
    static const char head[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}.";
    static const char keys[] = "\x80\x02].";
    bytes b = new_bytes();
    add(&b, head, sizeof head - 1);
    add(&b, pickle.p, pickle.n);
    add(&b, keys, sizeof keys - 1);
    return b;
}

// Memory ---------------------------------------------------------------------------------------------------------

// Peak of resident memory in bytes since `reset`, and what is resident now.
static void reset(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    assert_non_null(f);
    fputs("5", f);
    assert_int_equal(fclose(f), 0);
}

static int64_t status(const char *key)
{
    char line[200];
    long long kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)))
            kb = strtoll(line + strlen(key), NULL, 10);
    fclose(f);
    assert_true(kb >= 0);
    return kb << 10;
}

// Reads it; says how much more memory it took at most.
static int64_t peak_of(bytes file, kd_err *err)
{
    char path[40];
    kd_torch *t;
    const int fd = memfd_create("t", 0);
    assert_int_equal(write(fd, file.p, file.n), file.n);
    lseek(fd, 0, SEEK_SET);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    reset();
    const int64_t before = status("VmRSS:");
    *err = (kd_err){0};
    const int code = kd_torch_load(&t, path, err);
    const int64_t after = status("VmHWM:");
    assert_true(!code || code == KD_EFORMAT);
    kd_torch_free(t);
    close(fd);
    return after - before;
}

static void check(const char *name, bytes file, size_t on_disk, bool packed)
{
    kd_err err;
    const int64_t most = MORE * ((int64_t)kd_pickle_backs(on_disk, packed) + (int64_t)file.n + SLACK), peak = peak_of(file, &err);
    if (peak > most)
        fail_msg("%s: took %lld bytes, allowed %lld: %s", name, (long long)peak, (long long)most, err.msg);
}

static void refuses(bytes file, const char *want)
{
    kd_err err;
    peak_of(file, &err);
    if (!strstr(err.msg, want))
        fail_msg("expected \"%s\" in: %s", want, err.msg);
}

// Bombs ----------------------------------------------------------------------------------------------------------

enum { PICKLE = 300000 };

static bytes repeat(const char *before, size_t n_before, const char *unit, size_t n_unit, const char *after)
{
    bytes b = new_bytes();
    add(&b, "\x80\x02", 2);
    add(&b, before, n_before);
    while (b.n < PICKLE)
        add(&b, unit, n_unit);
    add(&b, after, strlen(after));
    return b;
}

#define TEXT(x) x, sizeof x - 1
static const struct bomb { const char *name, *before; size_t n_before; const char *unit; size_t n_unit; const char *after; } bombs[] = {
    { "dicts", TEXT("("), TEXT("}"), "t." }, { "lists", TEXT("("), TEXT("]"), "t." }, { "tuples", TEXT("("), TEXT(")"), "t." },
    { "tuples of a mark", TEXT("("), TEXT("(t"), "t." }, { "tuples of one", TEXT("N"), TEXT("\x85"), "." },
    { "tuples of two", TEXT("("), TEXT("NN\x86"), "t." }, { "tuples of three", TEXT("("), TEXT("NNN\x87"), "t." },
    { "marks", TEXT(""), TEXT("("), "." }, { "None", TEXT("("), TEXT("N"), "t." }, { "True", TEXT("("), TEXT("\x88"), "t." },
    { "small integers", TEXT("("), TEXT("K\x07"), "t." }, { "empty longs", TEXT("("), TEXT("\x8a\x00"), "t." },
    { "floats", TEXT("("), TEXT("G\x40\x40\x40\x40\x40\x40\x40\x40"), "t." }, { "empty texts", TEXT("("), TEXT("U\x00"), "t." },
    { "short texts", TEXT("("), TEXT("\x8c\x03" "abc"), "t." }, { "bytes", TEXT("("), TEXT("C\x00"), "t." },
    { "a list of lists, one by one", TEXT("]"), TEXT("]a"), "." }, { "a list of None, all at once", TEXT("]("), TEXT("N"), "e." },
    { "lists of one", TEXT("("), TEXT("]Na"), "t." }, { "dicts of one", TEXT("("), TEXT("}K\x01Ns"), "t." },
    { "dicts of one with a text", TEXT("("), TEXT("}U\x01" "aU\x00s"), "t." },
    { "memo entries", TEXT("N"), TEXT("\x94"), "." }, { "memo entries of texts", TEXT("("), TEXT("U\x00\x94"), "t." },
    { "one dict many times", TEXT("(}q\x00"), TEXT("h\x00"), "t." }, { "one list many times", TEXT("(]q\x00"), TEXT("h\x00"), "t." },
    { "one text many times", TEXT("(U\x40" "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefq\x00"), TEXT("h\x00"), "t." },
    { "persistent ids", TEXT("("), TEXT(")Q"), "t." },
    { "one storage many times", TEXT("((U\x07storagectorch\nFloatStorage\nU\x01" "0U\x03" "cpuK\x00tq\x00"), TEXT("h\x00Q"), "t." },
    { "calls", TEXT("(ctorch\nSize\nq\x00"), TEXT("h\x00)R"), "t." },
    { "OrderedDicts", TEXT("(ccollections\nOrderedDict\nq\x00"), TEXT("h\x00)R"), "t." },
    { "objects", TEXT("(c__torch__\nM\nq\x00"), TEXT("h\x00)\x81}b"), "t." },
    { "names", TEXT("("), TEXT("ctorch\nSize\n"), "t." }, { "names on the stack", TEXT("("), TEXT("U\x05torchU\x04Size\x93"), "t." } };

static void each_opcode_is_paid_for_by_bytes(void **state)
{
    (void)state;
    const bytes none = new_bytes();
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        const struct bomb *b = &bombs[i];
        bytes p = repeat(b->before, b->n_before, b->unit, b->n_unit, b->after);
        bytes stored = zip_of(p, none, false), packed = zip_of(p, none, true), legacy = legacy_of(p);
        check(b->name, stored, stored.n, false);
        check(b->name, legacy, legacy.n, false);
        assert_true(packed.n < 10000);
        check(b->name, packed, packed.n, true);
        free(p.p);
        free(stored.p);
        free(packed.p);
        free(legacy.p);
    }
    free(none.p);
}

// Values that share values: a list of ten of the list before, ten times.
static void shared_values_are_paid_for_each_time(void **state)
{
    (void)state;
    bytes p = new_bytes(), none = new_bytes();
    add(&p, "\x80\x02}q\0", 5);
    for (int i = 0; i < 10; i++)
        add(&p, "0](h\0h\0h\0h\0h\0h\0h\0h\0h\0h\0eq\0", 26);
    add(&p, ".", 1);
    bytes file = zip_of(p, none, false);
    check("shared values", file, file.n, false);
    refuses(file, "pickle: its values would take more memory than its");
    free(p.p);
    free(file.p);
    free(none.p);
}

// A megabyte of zeros that is a kilobyte on disk: as the pickle, and as a storage.
static void what_unpacks_is_paid_for(void **state)
{
    (void)state;
    static const char object[] = "\x80\x02}U\x01" "actorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\n"
        "FloatStorage\nU\x01" "0U\x03" "cpu"
        "J\x40\x42\x0f\x00tQK\x00J\x40\x42\x0f\x00\x85K\x01\x85\x89}tRs.";
    bytes p = new_bytes(), zeros = { .p = calloc(1, 4000000), .n = 2900000 }, none = new_bytes();
    bytes file = zip_of(zeros, none, true);
    check("a packed pickle", file, file.n, true);
    refuses(file, "data.pkl unpacks to 2900000 bytes, more than its");
    free(file.p);
    add(&p, object, sizeof object - 1);
    zeros.n = 4000000;
    file = zip_of(p, zeros, true);
    check("a packed storage", file, file.n, true);
    refuses(file, "storage 0: the packed ones would take more memory than the file's");
    free(file.p);
    free(p.p);
    free(zeros.p);
    free(none.p);
}

// Real files -----------------------------------------------------------------------------------------------------

// An optimizer's state as PyTorch writes it: for each parameter a dict of a count and two moments.
static bytes states(int n)
{
    static const char tensor[] = "h\x01((h\x02h\x03U\x01" "0U\x03" "cpuK\x06tQK\x00K\x02K\x03\x86K\x03K\x01\x86\x89}tR";
    bytes p = new_bytes();
    add(&p, TEXT("\x80\x02}ctorch._utils\n_rebuild_tensor_v2\nq\x01" "0U\x07storageq\x02" "0ctorch\nFloatStorage\nq\x03" "0"));
    add(&p, TEXT("U\x07" "exp_avgq\x04" "0U\x0a" "exp_avg_sqq\x05" "0U\x04stepq\x06" "0("));
    for (int i = 0; i < n; i++) {
        add(&p, "M", 1);
        add_int(&p, (uint64_t)i, 2);
        add(&p, TEXT("}(h\x06K\x03h\x04"));
        add(&p, TEXT(tensor));
        add(&p, TEXT("h\x05"));
        add(&p, TEXT(tensor));
        add(&p, "u", 1);
    }
    add(&p, "u.", 2);
    return p;
}

static void ten_thousand_states_are_read(void **state)
{
    (void)state;
    bytes p = states(10000), storage = { .p = calloc(6, 4), .n = 24 }, file = zip_of(p, storage, false);
    kd_err err;
    check("states", file, file.n, false);
    peak_of(file, &err);
    assert_string_equal(err.msg, "");
    free(file.p);
    free(p.p);
    free(storage.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_opcode_is_paid_for_by_bytes), cmocka_unit_test(shared_values_are_paid_for_each_time),
        cmocka_unit_test(what_unpacks_is_paid_for), cmocka_unit_test(ten_thousand_states_are_read) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
