// Memory: checked sizes, aligned blocks, growing strings.
#include "base/memory.h"
#include <limits.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ALIGN = KD_ALIGN, BIG = 1 << 20 };

// KD_FAIL_ALLOC=n: call number n fails. Read once; -1 means not read yet, 0 that nothing is to fail.
static bool must_fail(void)
{
    static atomic_long left = -1;
    long n = atomic_load(&left);
    if (n < 0) {
        const char *s = getenv("KD_FAIL_ALLOC");
        n = s ? strtol(s, NULL, 10) : 0;
        atomic_store(&left, n < 0 ? 0 : n);
    }
    return n > 0 && atomic_fetch_sub(&left, 1) == 1;
}

// Once a big block was freed, glibc takes others up to its size (32 MiB at most) from a heap that gives nothing back below what
// is in use. Big ones stay apart, so that what is freed is free.
static void keep_big_apart(void)
{
#ifdef M_MMAP_THRESHOLD
    static atomic_bool done;
    if (!atomic_exchange(&done, true))
        mallopt(M_MMAP_THRESHOLD, BIG);
#endif
}

// The word before a block points to what malloc gave. Small blocks end exactly where the caller's bytes end, so that
// checkers see an overrun; big ones come from calloc, whose fresh pages cost nothing until they are touched.
void *kd_alloc(size_t bytes)
{
    if (must_fail() || bytes > PTRDIFF_MAX - 2 * ALIGN)
        return NULL;
    void *raw = NULL;
    char *p;
    if (bytes < BIG) {
        if (posix_memalign(&raw, ALIGN, ALIGN + bytes))
            return NULL;
        p = (char *)raw + ALIGN;
        memset(p, 0, bytes);
    } else {
        keep_big_apart();
        raw = calloc(1, bytes + 2 * ALIGN);
        if (!raw)
            return NULL;
        p = (char *)raw + ALIGN;
        p += -(uintptr_t)p % ALIGN;
    }
    ((void **)p)[-1] = raw;
    return p;
}

void kd_free(void *p)
{
    if (p)
        free(((void **)p)[-1]);
}

void *kd_realloc(void *p, size_t bytes)
{
    return must_fail() ? NULL : realloc(p, bytes ? bytes : 1);
}

char *kd_strdup(const char *s)
{
    const size_t n = strlen(s) + 1;
    char *copy = kd_realloc(NULL, n);
    return copy ? memcpy(copy, s, n) : NULL;
}

bool kd_mul(int64_t a, int64_t b, int64_t *out)
{
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, out);
}

static int reserve(kd_str *s, size_t more, kd_err *err)
{
    if (more >= PTRDIFF_MAX - s->n)
        return kd_fail_memory(err, "text");
    const size_t need = s->n + more + 1;
    if (need <= s->room)
        return 0;
    const size_t room = need > 2 * s->room ? need : 2 * s->room;
    char *p = kd_realloc(s->p, room);
    if (!p)
        return kd_fail_memory(err, "text");
    s->p = p;
    s->room = room;
    return 0;
}

int kd_str_add(kd_str *s, const char *bytes, size_t n, kd_err *err)
{
    KD_TRY(reserve(s, n, err));
    if (n)
        memcpy(s->p + s->n, bytes, n);
    s->n += n;
    s->p[s->n] = 0;
    return 0;
}

int kd_str_printf(kd_str *s, kd_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return kd_fail(err, KD_EFAIL, "cannot format text");
    KD_TRY(reserve(s, (size_t)n, err));
    va_start(ap, fmt);
    vsnprintf(s->p + s->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    s->n += (size_t)n;
    return 0;
}

// The number in a cgroup's limit file; INT64_MAX if there is none ("max", or no such file).
static int64_t limit_in(const char *dir, const char *file)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", dir, file) >= (int)sizeof path)
        return INT64_MAX;
    FILE *f = fopen(path, "r");
    long long v = 0;
    const bool ok = f && fscanf(f, "%lld", &v) == 1 && v > 0;
    if (f)
        fclose(f);
    return ok ? v : INT64_MAX;
}

// The least limit of our cgroup and those above it (version 2); in a container the root is its own group.
static int64_t cgroup_limit(void)
{
    char line[PATH_MAX + 8], *dir = NULL;
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f && !dir && fgets(line, sizeof line, f))
        if (!strncmp(line, "0::/", 4)) {
            dir = line + 3;
            dir[strcspn(dir, "\n")] = 0;
        }
    if (f)
        fclose(f);
    int64_t least = limit_in("", "memory/memory.limit_in_bytes");      // version 1
    const int64_t root = limit_in("", "memory.max");
    if (root < least)
        least = root;
    while (dir && *dir) {
        const int64_t v = limit_in(dir, "memory.max");
        if (v < least)
            least = v;
        char *slash = strrchr(dir, '/');
        *(slash ? slash : dir) = 0;
    }
    return least;
}

int64_t kd_memory_total(void)
{
    const int64_t machine = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE), group = cgroup_limit();
    return group < machine ? group : machine;
}

int64_t kd_memory_peak(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) ? 0 : (int64_t)u.ru_maxrss * 1024;
}
