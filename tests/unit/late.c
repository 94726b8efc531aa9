// The device for tests that works late and has its own memory (tests/device/late.c): it computes the CPU's bits and detects the
// mistakes that it is there to detect.
#include "base/memory.h"
#include "cpu/cpu.h"
#include "device/device.h"
#include "op/program.h"
#include "op/unet.h"
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static kd_err err;

static void must(int code)
{
    if (code) fail_msg("%s", err.msg);
}

// BUILD/late.so: this program is BUILD/test-unit/late.
static kd_backend *open_late(const char *which)
{
    char path[PATH_MAX];
    kd_backend *be = NULL;
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
    assert_true(n > 0);
    path[n] = 0;
    for (int up = 0; up < 2; up++) *strrchr(path, '/') = 0;
    strcat(strcat(path, "/late.so"), which);
    must(kd_device_open(&be, path, &err));
    return be;
}

static void *memory(kd_backend *be, size_t bytes)
{
    void *p;
    must(be->alloc(be, &p, bytes, &err));
    assert_int_equal((uintptr_t)p % KD_ALIGN, 0);
    return p;
}

static void holds(kd_backend *be, const void *p, const char *want)
{
    char got[64] = "";
    must(be->download(be, got, p, strlen(want) + 1, &err));
    assert_string_equal(got, want);
}

// What it does ---------------------------------------------------------------------------------------------------------------

static void in_order(void **state)
{
    char text[64] = "one";
    (void)state;
    kd_backend *be = open_late("");
    assert_true(be->async && !be->adopt);
    char *a = memory(be, 64), *b = memory(be, 100);
    assert_int_equal(be->in_use(be), 164);
    holds(be, b + 50, "");
    must(be->upload(be, a, text, 64, &err));
    strcpy(text, "two");
    must(be->copy(be, b, a, 64, &err));
    must(be->upload(be, a, text, 64, &err));
    strcpy(text, "three");
    must(be->fill(be, b + 1, 'x', 2, &err));
    holds(be, a, "two");
    holds(be, b, "oxx");
    must(be->copy(be, b, a, 64, &err));
    be->free(be, a);
    assert_int_equal(be->in_use(be), 100);
    holds(be, b, "two");
    be->free(be, b);
    kd_backend_close(be);
}

static void mapped(void **state)
{
    void *host;
    (void)state;
    kd_backend *be = open_late("");
    char *a = memory(be, 8);
    must(be->upload(be, a, "abcdefg", 8, &err));
    must(be->map(be, a + 2, 3, KD_MAP_READ, &host, &err));
    assert_memory_equal(host, "cde", 3);
    must(be->unmap(be, host, &err));
    must(be->map(be, a + 2, 3, KD_MAP_READ | KD_MAP_WRITE, &host, &err));
    ((char *)host)[1] = 'D';
    must(be->unmap(be, host, &err));
    holds(be, a, "abcDefg");
    must(be->map(be, a, 2, KD_MAP_WRITE, &host, &err));
    assert_memory_equal(host, "\xff\xff", 2);
    ((char *)host)[0] = 'A';
    must(be->unmap(be, host, &err));
    holds(be, a, "A\xff""cDefg");
    be->free(be, a);
    kd_backend_close(be);
}

enum { ROWS = 5, WIDTH = 24 };

/// y = 3 gelu(x w^T) + x for two x. The second x must not affect the first result.
static void compute(kd_backend *be, float y[2][ROWS * WIDTH])
{
    float x[ROWS * WIDTH], w[WIDTH * WIDTH];
    kd_program *p;
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i * 7 % 31 - 15) / 16;
    for (int i = 0; i < WIDTH * WIDTH; i++) w[i] = (float)(i * 5 % 29 - 14) / 64;
    float *weight = memory(be, sizeof w), *first = memory(be, sizeof x);
    must(be->upload(be, weight, w, sizeof w, &err));
    memset(w, 0, sizeof w);
    kd_graph *g = kd_graph_new();
    kd_val *in = kd_input(g, "x", KD_F32, KD_SHAPE(ROWS, WIDTH)), *param = kd_param(g, "w", KD_SHAPE(WIDTH, WIDTH));
    kd_val *out = kd_add(g, kd_scale(g, kd_activate(g, kd_linear(g, in, param, NULL, NULL), KD_ACT_GELU), 3), in);
    kd_bind(param, weight);
    must(kd_program_new(&p, g, be, &out, 1, &err));
    must(kd_program_set(p, in, x, &err));
    must(kd_program_run(p, &err));
    must(kd_program_take(p, out, first, &err));
    memset(x, 0, sizeof x);
    x[0] = 1;
    must(kd_program_set(p, in, x, &err));
    must(kd_program_run(p, &err));
    must(kd_program_get(p, out, y[1], &err));
    must(be->download(be, y[0], first, sizeof x, &err));
    kd_program_free(p);
    be->free(be, first), be->free(be, weight);
    kd_backend_close(be);
}

static int64_t stat_of(const char *path, const char *name)
{
    char word[32];
    long long n, found = -1;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fscanf(f, "%31s %lld", word, &n) == 2)
        if (!strcmp(word, name)) found = n;
    fclose(f);
    return found;
}

static void same_bits(void **state)
{
    float want[2][ROWS * WIDTH], got[2][ROWS * WIDTH];
    char stats[] = "/tmp/kd-late.XXXXXX";
    kd_backend *cpu;
    (void)state;
    const int file = mkstemp(stats);
    assert_true(file >= 0);
    close(file);
    must(kd_cpu_open(&cpu, &err));
    compute(cpu, want);
    setenv("KD_LATE_STATS", stats, 1);
    compute(open_late(""), got);
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(stat_of(stats, "joined"), 3);
    assert_int_equal(stat_of(stats, "computed"), 2);
    assert_int_equal(stat_of(stats, "compile"), 1);
    assert_int_equal(stat_of(stats, "launch"), 2);
    assert_int_equal(stat_of(stats, "run"), 0);
    assert_int_equal(stat_of(stats, "upload"), 3);       // the weights, and one for each run
    compute(open_late(":plain"), got);
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(stat_of(stats, "joined"), 0);
    assert_int_equal(stat_of(stats, "run"), 8);
    unsetenv("KD_LATE_STATS");
    unlink(stats);
}

static void errors_on_demand(void **state)
{
    void *p, *q;
    kd_err e = {0};
    (void)state;
    setenv("KD_LATE_FAIL", "2", 1);
    kd_backend *be = open_late("");
    unsetenv("KD_LATE_FAIL");
    p = memory(be, 1 << 20);
    assert_int_equal(be->alloc(be, &q, 1 << 19, &e), KD_EFAIL);
    assert_string_equal(e.msg, "out of memory: 0.5 MiB wanted beside 1.0 MiB in use");
    q = memory(be, 1 << 19);
    be->free(be, p), be->free(be, q);
    kd_backend_close(be);

    float y[4] = {0};
    kd_program *program;
    setenv("KD_LATE_BREAK", "1", 1);
    be = open_late(":plain");
    unsetenv("KD_LATE_BREAK");
    kd_graph *g = kd_graph_new();
    kd_val *in = kd_input(g, "x", KD_F32, KD_SHAPE(4)), *out = kd_scale(g, in, 2);
    must(kd_program_new(&program, g, be, &out, 1, &err));
    must(kd_program_set(program, in, y, &err));
    must(kd_program_run(program, &err));
    e = (kd_err){0};
    assert_int_equal(kd_program_get(program, out, y, &e), KD_EFAIL);
    assert_string_equal(e.msg, "the device broke in unit 1, as KD_LATE_BREAK wants");
    kd_program_free(program);
    kd_backend_close(be);
}

// What it detects ------------------------------------------------------------------------------------------------------------

static void dies(const char *sentence, void (*mistake)(kd_backend *be, char *p))
{
    char said[4096] = "";
    int pipes[2], status;
    assert_int_equal(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
        signal(SIGSEGV, SIG_DFL), signal(SIGABRT, SIG_DFL);              // cmocka's
        dup2(pipes[1], STDERR_FILENO);
        kd_backend *be = open_late("");
        mistake(be, memory(be, 64));
        be->sync(be, &err);
        _exit(0);
    }
    close(pipes[1]);
    for (ssize_t n, at = 0; (n = read(pipes[0], said + at, sizeof said - 1 - (size_t)at)) > 0;) at += n;
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (!strstr(said, sentence)) fail_msg("expected \"%s\", got \"%s\"", sentence, said);
}

static void reads(kd_backend *be, char *p) { (void)be, memset(p, 0, 1); }
static void goes_too_far(kd_backend *be, char *p) { be->fill(be, p + 32, 0, 33, &err); }
static void uses_own_memory(kd_backend *be, char *p)
{
    char own[8] = "";
    be->copy(be, p, own, 8, &err);
}
static void uses_freed(kd_backend *be, char *p)
{
    be->free(be, p);
    be->upload(be, p, "x", 1, &err);
}
static void frees_twice(kd_backend *be, char *p)
{
    be->free(be, p);
    be->free(be, p);
}
static void overlaps(kd_backend *be, char *p) { be->copy(be, p, p + 8, 16, &err); }
static void uses_mapped(kd_backend *be, char *p)
{
    void *host;
    be->map(be, p, 32, KD_MAP_READ, &host, &err);
    be->fill(be, p + 32, 0, 32, &err);
    be->fill(be, p + 31, 0, 1, &err);
}
static void writes_to_read(kd_backend *be, char *p)
{
    void *host;
    be->map(be, p, 32, KD_MAP_READ, &host, &err);
    memset(host, 1, 1);
    be->unmap(be, host, &err);
}
static void forgets(kd_backend *be, char *p) { (void)p, kd_backend_close(be); }
static void binds_own_memory(kd_backend *be, char *p)
{
    static float own[4];
    kd_graph *g = kd_graph_new();
    kd_val *in = kd_param(g, "x", KD_SHAPE(4)), *out = kd_scale(g, in, 2);
    kd_program *program;
    (void)p;
    kd_bind(in, own);
    must(kd_program_new(&program, g, be, &out, 1, &err));
    kd_program_run(program, &err);
}
static void frees_weights(kd_backend *be, char *p)
{
    kd_graph *g = kd_graph_new();
    kd_val *in = kd_param(g, "x", KD_SHAPE(4)), *out = kd_scale(g, in, 2);
    kd_program *program;
    kd_bind(in, p);
    must(kd_program_new(&program, g, be, &out, 1, &err));
    must(kd_program_run(program, &err));
    be->free(be, p);
    kd_program_run(program, &err);
}

static void mistakes(void **state)
{
    (void)state;
    dies("the host reads or writes an address of the device", reads);
    dies("fill: 33 bytes at ", goes_too_far);
    dies("not this device's memory", uses_own_memory);
    dies("freed, or more than was allocated", uses_freed);
    dies("not allocated, or freed before", frees_twice);
    dies("which overlap", overlaps);
    dies("fill: 1 bytes at ", uses_mapped);
    dies("mapped for reading has been written to", writes_to_read);
    dies("closed with 64 bytes allocated", forgets);
    dies("scale: 16 bytes at ", binds_own_memory);
    dies("freed, or more than was allocated", frees_weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order), cmocka_unit_test(mapped), cmocka_unit_test(same_bits), cmocka_unit_test(errors_on_demand),
        cmocka_unit_test(mistakes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
