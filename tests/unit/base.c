// lib/base without the random numbers: errors, options, files, JSON, memory, the parallel loop.
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/opt.h"
#include "base/parallel.h"
#include "base/talk.h"
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define FAILS(want_code, want_msg, call) do { \
        kd_err err = {0}; \
        assert_int_equal(call, want_code); \
        assert_int_equal(err.code, want_code); \
        assert_string_equal(err.msg, want_msg); \
    } while (0)

static void first_error_wins(void **state)
{
    (void)state;
    kd_err first = {0};
    assert_int_equal(kd_fail(&first, KD_EFORMAT, "a\nb\x1b[31m%d \xc2\x9b" "m \xc3\xa9", 1), KD_EFORMAT);
    assert_int_equal(kd_fail(&first, KD_EUSAGE, "later"), KD_EFORMAT);
    assert_string_equal(first.msg, "a?b?[31m1 ??m \xc3\xa9");
    FAILS(KD_EPIPE, "", kd_fail(&err, KD_EPIPE, "quiet"));
    kd_err cut = {0};
    char longer[2 * sizeof cut.msg];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    kd_fail(&cut, KD_EFAIL, "%s", longer);
    assert_int_equal(strlen(cut.msg), sizeof cut.msg - 1);
}

// Options ------------------------------------------------------------------------------------------------------

static struct { int64_t n; uint64_t seed; double x; const char *s, *choice, *arg; bool flag; kd_args args; kd_common common; } o;

static int parse(kd_err *err, const char *line)
{
    static char copy[512], *argv[64];
    const kd_opt table[] = {
        KD_OPT_INT('n', "count", &o.n, 1, 1000, "how many"),
        KD_OPT_U64(0, "seed", &o.seed, "the seed"),
        KD_OPT_NUM('x', "scale", &o.x, 0, INFINITY, "a number"),
        KD_OPT_STR('s', "string", &o.s, "TEXT", "a string"),
        KD_OPT_CHOICE(0, "resize", &o.choice, "bicubic|lanczos|box", "a filter"),
        KD_OPT_FLAG('f', "flag", &o.flag, "a flag"),
        KD_OPT_ARG("FIRST", &o.arg, 1, "the first word"),
        KD_OPT_ARGS("REST", &o.args, 0, "more words"),
        KD_OPT_END };
    int argc = 0;
    memset(&o, 0, sizeof o);
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    const int code = kd_cli_parse("kd-test", "Test.", table, KD_WITH_OUT | KD_WITH_THREADS, argc, argv, &o.common, err);
    return code;
}

static void options_parse(void **state)
{
    (void)state;
    kd_err err = {0};
    assert_int_equal(parse(&err, "t -n 5 a --seed=18446744073709551615 b -x1.5e-3 -fs - c --resize box -q -- -n"), 0);
    assert_int_equal(o.n, 5);
    assert_true(o.seed == UINT64_MAX && o.x == 1.5e-3 && o.flag && o.common.quiet);
    assert_string_equal(o.s, "-");
    assert_string_equal(o.choice, "box");
    assert_string_equal(o.arg, "a");
    assert_int_equal(o.args.n, 3);
    assert_string_equal(o.args.v[0], "b");
    assert_string_equal(o.args.v[2], "-n");
    assert_string_equal(o.common.out, "-");
    assert_string_equal(o.common.history,
                        "kd-test -n 5 a --seed=18446744073709551615 b -x1.5e-3 -fs - c --resize box -q -- -n");
    kd_cli_free(&o.common);
    assert_int_equal(parse(&err, "t --no-history w --out f"), 0);
    assert_null(o.common.history);
    assert_string_equal(o.common.out, "f");
    assert_true(!kd_given(&o.common, &o.seed) && !kd_given(&o.common, &o.n) && !kd_given(&o.common, &o.flag));
    kd_cli_free(&o.common);
    assert_int_equal(parse(&err, "t w --seed 0 -fn 7"), 0);              // what it was before is given all the same
    assert_true(kd_given(&o.common, &o.seed) && kd_given(&o.common, &o.n) && kd_given(&o.common, &o.flag));
    assert_true(!kd_given(&o.common, &o.x) && !kd_given(&o.common, &o.s));
    kd_cli_free(&o.common);
    assert_false(kd_given(&o.common, &o.seed));
}

static int parse_freed(kd_err *err, const char *line)
{
    const int code = parse(err, line);
    kd_cli_free(&o.common);
    return code;
}

static void options_refuse(void **state)
{
    (void)state;
    static const struct { const char *line, *message; } cases[] = {
        { "t --cuont 3", "unknown option --cuont (did you mean --count?)" },
        { "t --zzzz=3", "unknown option --zzzz (see --help)" },
        { "t -fz", "unknown option -z (see --help)" },
        { "t w --count", "--count needs a value" },
        { "t --count x w", "--count: expected an integer 1 to 1000, got 'x'" },
        { "t --count 0x10 w", "--count: expected an integer 1 to 1000, got '0x10'" },
        { "t -n1001 w", "-n: expected an integer 1 to 1000, got '1001'" },
        { "t --count= w", "--count: expected an integer 1 to 1000, got ''" },
        { "t -n 99999999999999999999 w", "-n: expected an integer 1 to 1000, got '99999999999999999999'" },
        { "t --seed -1 w", "--seed: expected an integer 0 to 18446744073709551615, got '-1'" },
        { "t --scale nan w", "--scale: expected a number of at least 0, got 'nan'" },
        { "t --scale -1 w", "--scale: expected a number of at least 0, got '-1'" },
        { "t --scale 1k w", "--scale: expected a number of at least 0, got '1k'" },
        { "t --scale 1e999 w", "--scale: expected a number of at least 0, got '1e999'" },
        { "t --resize boxx w", "--resize: expected bicubic|lanczos|box, got 'boxx' (did you mean box?)" },
        { "t --flag=1 w", "--flag takes no value, got '1'" },
        { "t", "missing FIRST (see --help)" },
        { "t --device cpu", "unknown option --device (see --help)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        FAILS(KD_EUSAGE, cases[i].message, parse_freed(&err, cases[i].line));
}

static void nearest_words(void **state)
{
    (void)state;
    static const char *const known[] = { "depths", "widths", "patch_size", "k" };
    assert_string_equal(kd_nearest("dephts", known, 4), "depths");
    assert_string_equal(kd_nearest("patchsize", known, 4), "patch_size");
    assert_null(kd_nearest("unrelated", known, 4));
    assert_null(kd_nearest("", known, 4));
    assert_null(kd_nearest("q", known, 4));
}

// Files --------------------------------------------------------------------------------------------------------

static char dir[] = "/tmp/kd-test-XXXXXX";
static const char *in_dir(const char *name)
{
    static char path[4][300];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static int make_dir(void **state) { (void)state; return mkdtemp(dir) ? 0 : -1; }
static int remove_dir(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void put(const char *path, const char *text, bool commit)
{
    kd_err err = {0};
    kd_out *out;
    assert_int_equal(kd_out_open(&out, path, true, &err), 0);
    assert_int_equal(kd_out_write(out, text, strlen(text), &err), 0);
    if (commit)
        assert_int_equal(kd_out_commit(out, &err), 0);
    kd_out_close(out);
}

static void expect(const char *path, const char *want)
{
    kd_err err = {0};
    void *bytes;
    size_t n;
    assert_int_equal(kd_read_file(path, 1 << 20, &bytes, &n, &err), 0);
    assert_int_equal(n, strlen(want));
    assert_string_equal(bytes, want);
    free(bytes);
}

static int files_in_dir(void)
{
    char command[100];
    int n = -1;
    snprintf(command, sizeof command, "ls -A %s | wc -l", dir);
    FILE *f = popen(command, "r");
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

static void a_file_appears_whole_or_not(void **state)
{
    (void)state;
    put(in_dir("a"), "one", false);
    assert_int_equal(files_in_dir(), 0);
    put(in_dir("a"), "one", true);
    expect(in_dir("a"), "one");
    put(in_dir("a"), "two", false);
    expect(in_dir("a"), "one");
    chmod(in_dir("a"), 0600);
    assert_int_equal(symlink("a", in_dir("link")), 0);                // a link is followed, and stays
    put(in_dir("link"), "three", true);
    expect(in_dir("a"), "three");
    struct stat st;
    assert_int_equal(stat(in_dir("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(lstat(in_dir("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(symlink("new", in_dir("dangling")), 0);
    put(in_dir("dangling"), "four", true);
    expect(in_dir("new"), "four");
    assert_int_equal(files_in_dir(), 4);
}

static void straight_outputs(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_out *out;
    const int fd = open(in_dir("fd"), O_RDWR | O_CREAT | O_TRUNC, 0666);
    assert_int_equal(write(fd, "head ", 5), 5);
    char path[32];
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    assert_int_equal(kd_out_open(&out, path, true, &err), 0);
    assert_false(kd_out_is_file(out));
    assert_int_equal(kd_out_write(out, "tail", 4, &err), 0);
    assert_int_equal(kd_out_commit(out, &err), 0);
    kd_out_close(out);
    close(fd);
    expect(in_dir("fd"), "head tail");
    put("/dev/null", "gone", true);
    struct stat st;
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
}

static void patch_and_large(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_out *out;
    char block[70000];
    memset(block, 'x', sizeof block);
    assert_int_equal(kd_out_open(&out, in_dir("large"), true, &err), 0);
    assert_true(kd_out_is_file(out));
    for (size_t i = 0; i < sizeof block; i += 7777)
        assert_int_equal(kd_out_write(out, block, i, &err), 0);
    const uint64_t end = kd_out_offset(out);
    assert_int_equal(kd_out_patch(out, 3, "HERE", 4, &err), 0);
    assert_int_equal(kd_out_write(out, "end", 3, &err), 0);
    assert_int_equal(kd_out_commit(out, &err), 0);
    kd_out_close(out);
    void *bytes;
    size_t n;
    assert_int_equal(kd_read_file(in_dir("large"), 1 << 20, &bytes, &n, &err), 0);
    assert_int_equal(n, end + 3);
    assert_memory_equal(bytes, "xxxHEREx", 8);
    assert_memory_equal((char *)bytes + end, "end", 3);
    free(bytes);
}

static void too_large_a_file(void **state)
{
    (void)state;
    void *bytes;
    size_t n;
    char want[400];
    snprintf(want, sizeof want, "%s: more than 5 bytes", in_dir("large"));
    FAILS(KD_EFORMAT, want, kd_read_file(in_dir("large"), 5, &bytes, &n, &err));
}

static void missing_files(void **state)
{
    (void)state;
    kd_in *in;
    kd_out *out;
    FAILS(KD_EUSAGE, "/nowhere/x: No such file or directory", kd_in_open(&in, "/nowhere/x", &err));
    FAILS(KD_EUSAGE, "/tmp: Is a directory", kd_in_open(&in, "/tmp", &err));
    FAILS(KD_EUSAGE, "/nowhere/x: No such file or directory", kd_out_open(&out, "/nowhere/x", true, &err));
    FAILS(KD_EUSAGE, "/tmp: Is a directory", kd_out_open(&out, "/tmp", true, &err));
}

static void peek_and_read(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_in *in;
    const void *bytes;
    char got[8];
    size_t n;
    put(in_dir("p"), "0123456789", true);
    assert_int_equal(kd_in_open(&in, in_dir("p"), &err), 0);
    assert_int_equal(kd_in_left(in), 10);
    assert_int_equal(kd_in_peek(in, &bytes, 4), 4);
    assert_memory_equal(bytes, "0123", 4);
    assert_int_equal(kd_in_read(in, got, 6, &n, &err), 0);
    assert_int_equal(n, 6);
    assert_memory_equal(got, "012345", 6);
    assert_int_equal(kd_in_left(in), 4);
    assert_int_equal(kd_in_peek(in, &bytes, 4096), 4);
    assert_int_equal(kd_in_read(in, got, 6, &n, &err), 0);
    assert_int_equal(n, 4);
    assert_int_equal(kd_in_offset(in), 10);
    assert_int_equal(kd_in_peek(in, &bytes, 1), 0);
    kd_in_close(in);
}

static void closed_pipe_is_quiet(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_out *out;
    int fd[2];
    char path[32];
    assert_int_equal(pipe(fd), 0);
    signal(SIGPIPE, SIG_IGN);
    snprintf(path, sizeof path, "/dev/fd/%d", fd[1]);
    assert_int_equal(kd_out_open(&out, path, true, &err), 0);
    close(fd[0]);
    assert_int_equal(kd_out_write(out, "x", 1, &err), 0);
    assert_int_equal(kd_out_flush(out, &err), KD_EPIPE);
    assert_string_equal(err.msg, "");
    kd_out_close(out);
    close(fd[1]);
}

// A read that waits on a pipe ends when SIGTERM comes.
static void signal_ends_a_wait(void **state)
{
    (void)state;
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    const pid_t child = fork();
    if (child == 0) {
        kd_err err = {0};
        kd_in *in;
        char path[32], byte;
        size_t n;
        kd_catch_signals();
        snprintf(path, sizeof path, "/dev/fd/%d", fd[0]);
        alarm(20);
        if (kd_in_open(&in, path, &err) || write(fd[1], "r", 1) != 1 || kd_in_read(in, &byte, 1, &n, &err))
            _exit(1);
        const pid_t parent = getppid();
        if (fork() == 0) {
            usleep(50000);
            kill(getppid(), SIGTERM);
            _exit(0);
        }
        (void)parent;
        _exit(kd_in_read(in, &byte, 1, &n, &err) == KD_ETERM && !strcmp(err.msg, "interrupted") ? 7 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    close(fd[0]);
    close(fd[1]);
}

static void hash_is_xxh3(void **state)
{
    (void)state;
    kd_hash *h = kd_hash_new();
    kd_hash_add(h, "ab", 2);
    kd_hash_add(h, "", 0);
    kd_hash_add(h, "c", 1);
    assert_true(kd_hash_get(h) == kd_hash_of("abc", 3));
    assert_true(kd_hash_of("", 0) == 0x2d06800538d394c2ull);          // xxHash's published value for no input
    kd_hash_free(h);
}

// JSON, memory, threads ----------------------------------------------------------------------------------------

static int json_case(const char *text, kd_err *err)
{
    static const char *const known[] = { "model", "depths" }, *const inner[] = { "depths", "rate", "name" };
    json_t *root;
    int64_t depths[3];
    double rate;
    const char *name;
    KD_TRY(kd_json_parse(&root, "cfg.json", KD_EUSAGE, text, strlen(text), err));
    const kd_json top = kd_json_top(root, "cfg.json", KD_EUSAGE), model = kd_json_at(&top, "model"),
                  d = kd_json_at(&model, "depths"), r = kd_json_at(&model, "rate"), s = kd_json_at(&model, "name");
    (void)(kd_json_known(&top, known, 2, err) || kd_json_known(&model, inner, 3, err) ||
           kd_json_ints(&d, 3, 1, 100, depths, err) || kd_json_num(&r, 0, 1, &rate, err) || kd_json_str(&s, &name, err));
    json_decref(root);
    return err->code;
}

static void json_errors_name_the_place(void **state)
{
    (void)state;
    kd_err ok = {0};
    assert_int_equal(json_case("{\"model\": {\"depths\": [2, 3.0, 4], \"rate\": 0.5, \"name\": \"x\"}}", &ok), 0);
    static const struct { const char *text, *message; } cases[] = {
        { "{\"model\": {\"depths\": [2, 3]}}", "cfg.json: model.depths: expected 3 integers, got 2" },
        { "{\"model\": {\"depths\": [2, 3.5, 1]}}", "cfg.json: model.depths[1]: expected an integer 1 to 100, got 3.5" },
        { "{\"model\": {\"depths\": 7}}", "cfg.json: model.depths: expected a list, got 7" },
        { "{\"model\": {}}", "cfg.json: model.depths: expected a list, got nothing" },
        { "{\"model\": {\"dephts\": 7}}", "cfg.json: model.dephts: unknown key (did you mean depths?)" },
        { "{\"moddel\": 1}", "cfg.json: moddel: unknown key (did you mean model?)" },
        { "{\"model\": {\"depths\": [2, 3, 4], \"rate\": 2}}", "cfg.json: model.rate: expected a number 0 to 1, got 2" },
        { "{\"model\": {\"depths\": [2, 3, 4], \"rate\": 1, \"name\": null}}", "cfg.json: model.name: expected a string, got null" },
        { "[]", "cfg.json: expected an object, got a list of 0" },
        { "{\"a\": 1,\n \"a\": 2}", "cfg.json: not valid JSON: line 2, column 4: duplicate object key near '\"a\"'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        FAILS(KD_EUSAGE, cases[i].message, json_case(cases[i].text, &err));
}

static void memory_blocks(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 63, 64, 1000, (1 << 20) - 1, 1 << 20, (5 << 20) + 3 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = kd_alloc(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(p[k], 0);
        memset(p, 255, sizes[i]);
        kd_free(p);
    }
    assert_null(kd_alloc(SIZE_MAX));
    int64_t v;
    assert_true(kd_mul(1 << 30, 1 << 30, &v) && v == 1ll << 60);
    assert_false(kd_mul(1ll << 40, 1ll << 40, &v));
    assert_false(kd_mul(-1, 1, &v));
    assert_true(kd_memory_total() > 1 << 20 && kd_memory_peak() > 1 << 20);
    kd_err err = {0};
    kd_str s = {0};
    for (int i = 0; i < 1000; i++)
        assert_int_equal(kd_str_printf(&s, &err, "%d,", i % 10), 0);
    assert_int_equal(s.n, 2000);
    assert_memory_equal(s.p, "0,1,2,", 6);
    free(s.p);
}

static void count_tile(void *arg, int64_t tile, int thread)
{
    assert_true(thread >= 0 && thread < kd_threads());
    ((int *)arg)[tile]++;
}

static void nested(void *arg, int64_t tile, int thread)
{
    (void)thread;
    kd_parallel(10, count_tile, (int *)arg + 10 * tile);
}

static void parallel_loop(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        int seen[100] = {0};
        kd_threads_set(threads);
        kd_parallel(10, nested, seen);
        for (int i = 0; i < 100; i++)
            assert_int_equal(seen[i], 1);
    }
    kd_parallel(0, count_tile, NULL);
    double x[1000];
    for (int i = 0; i < 1000; i++)
        x[i] = i;
    assert_true(kd_tree_sum(x, 1000) == 499500 && kd_tree_sum(x, 0) == 0);
    x[0] = 1e16, x[1] = 1, x[2] = -1e16, x[3] = 1;                     // (a + b) + (c + d), and no other order
    assert_true(kd_tree_sum(x, 4) == (1e16 + 1) + (-1e16 + 1));
}

static void durations(void **state)
{
    (void)state;
    char buf[16];
    assert_string_equal(kd_duration(buf, 12.4), "12s");
    assert_string_equal(kd_duration(buf, 200), "3m20s");
    assert_string_equal(kd_duration(buf, 3720), "1h02m");
    assert_string_equal(kd_duration(buf, 1e300), "99999h59m");
    assert_string_equal(kd_duration(buf, -NAN), "0s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_error_wins), cmocka_unit_test(options_parse), cmocka_unit_test(options_refuse),
        cmocka_unit_test(nearest_words), cmocka_unit_test(a_file_appears_whole_or_not), cmocka_unit_test(straight_outputs),
        cmocka_unit_test(patch_and_large), cmocka_unit_test(too_large_a_file), cmocka_unit_test(missing_files),
        cmocka_unit_test(peek_and_read),
        cmocka_unit_test(closed_pipe_is_quiet), cmocka_unit_test(signal_ends_a_wait), cmocka_unit_test(hash_is_xxh3),
        cmocka_unit_test(json_errors_name_the_place), cmocka_unit_test(memory_blocks), cmocka_unit_test(parallel_loop),
        cmocka_unit_test(durations),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
