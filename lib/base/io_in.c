// Input: a buffered reader of files and pipes that never seeks; a regular file may be looked at anywhere too.
#include "base/io.h"
#include "base/memory.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 16 };

struct kd_in {
    int fd;
    char *name;
    int64_t size;            // bytes from where we started to the end of a regular file, else -1
    off_t start;             // where that was
    uint64_t taken;          // bytes given to the caller
    size_t at, have;         // buffer[at .. have) is read but not taken
    bool end;
    int broken;              // errno of a failed read met while peeking; told at the next read
    char buffer[BUFFER];
};

static int open_fd(kd_in *in, const char *path, kd_err *err)
{
    in->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    struct stat st;
    if (in->fd < 0 || fstat(in->fd, &st))
        return kd_fail(err, KD_EUSAGE, "%s: %s", in->name, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return kd_fail(err, KD_EUSAGE, "%s: %s", in->name, strerror(EISDIR));
    in->size = -1;
    if (S_ISREG(st.st_mode)) {
        in->start = lseek(in->fd, 0, SEEK_CUR);
        in->size = in->start < 0 ? -1 : in->start < st.st_size ? st.st_size - in->start : 0;
    }
    return 0;
}

int kd_in_open(kd_in **out, const char *path, kd_err *err)
{
    *out = NULL;
    kd_in *in = kd_alloc(sizeof *in);
    if (!in)
        return kd_fail_memory(err, "an input");
    in->fd = -1;
    in->name = kd_strdup(strcmp(path, "-") ? path : "stdin");
    if (!in->name)
        kd_fail_memory(err, "a file name");
    if (err->code || open_fd(in, path, err)) {
        kd_in_close(in);
        return err->code;
    }
    *out = in;
    return 0;
}

void kd_in_close(kd_in *in)
{
    if (!in)
        return;
    if (in->fd >= 0)
        close(in->fd);
    free(in->name);
    kd_free(in);
}

// One read(2): n > 0, 0 at the end, -1 with errno (EINTR only if we were asked to stop).
static ssize_t read_some(kd_in *in, void *to, size_t n)
{
    if (in->end)
        return 0;
    for (;;) {
        const ssize_t got = read(in->fd, to, n < 1 << 30 ? n : 1 << 30);
        if (got == 0)
            in->end = true;
        if (got >= 0 || errno != EINTR || kd_interrupted())
            return got;
    }
}

static int fail_read(kd_in *in, int number, kd_err *err)
{
    if (number == EINTR)
        return kd_fail_interrupted(err);
    return kd_fail(err, KD_EFAIL, "%s: %s", in->name, strerror(number));
}

int kd_in_read(kd_in *in, void *to, size_t n, size_t *got, kd_err *err)
{
    char *p = to;
    size_t done = 0;
    *got = 0;
    while (done < n) {
        const size_t left = n - done, have = in->have - in->at;
        if (have) {
            const size_t take = left < have ? left : have;
            memcpy(p + done, in->buffer + in->at, take);
            in->at += take;
            done += take;
            continue;
        }
        if (in->broken)
            return fail_read(in, in->broken, err);
        const bool direct = left >= BUFFER;                    // large reads need no copy
        const ssize_t k = direct ? read_some(in, p + done, left) : read_some(in, in->buffer, BUFFER);
        if (k < 0)
            return fail_read(in, errno, err);
        if (k == 0)
            break;
        if (direct)
            done += (size_t)k;
        else
            in->at = 0, in->have = (size_t)k;
    }
    in->taken += done;
    *got = done;
    return 0;
}

int kd_in_read_at(kd_in *in, uint64_t offset, void *to, size_t n, size_t *got, kd_err *err)
{
    assert(in->size >= 0);
    *got = 0;
    while (*got < n) {
        const size_t left = n - *got;
        const ssize_t k = pread(in->fd, (char *)to + *got, left < 1 << 30 ? left : 1 << 30, in->start + (off_t)(offset + *got));
        if (k < 0 && (errno != EINTR || kd_interrupted()))
            return fail_read(in, errno, err);
        if (k == 0)
            break;
        *got += k > 0 ? (size_t)k : 0;
    }
    return 0;
}

size_t kd_in_peek(kd_in *in, const void **bytes, size_t n)
{
    if (in->have - in->at < n) {
        memmove(in->buffer, in->buffer + in->at, in->have - in->at);
        in->have -= in->at;
        in->at = 0;
    }
    while (in->have - in->at < n && !in->broken) {
        const ssize_t k = read_some(in, in->buffer + in->have, BUFFER - in->have);
        if (k < 0)
            in->broken = errno;
        if (k <= 0)
            break;
        in->have += (size_t)k;
    }
    *bytes = in->buffer + in->at;
    const size_t have = in->have - in->at;
    return have < n ? have : n;
}

int64_t kd_in_left(const kd_in *in)
{
    if (in->size < 0)
        return -1;
    return (uint64_t)in->size > in->taken ? in->size - (int64_t)in->taken : 0;
}

uint64_t kd_in_offset(const kd_in *in) { return in->taken; }
const char *kd_in_name(const kd_in *in) { return in->name; }

// Reads to the end, growing: a file's stated size is a hint only (pipes and /proc have none).
static int read_all(kd_in *in, size_t limit, kd_str *s, kd_err *err)
{
    size_t chunk = kd_in_left(in) > 0 ? (size_t)kd_in_left(in) + 1 : BUFFER;
    if (kd_in_left(in) > 0 && (uint64_t)kd_in_left(in) > limit)
        return kd_fail(err, KD_EFORMAT, "%s: more than %zu bytes", in->name, limit);
    for (;;) {
        if (s->room - s->n < chunk + 1) {
            char *p = kd_realloc(s->p, s->n + chunk + 1);
            if (!p)
                return kd_fail_memory(err, in->name);
            s->p = p;
            s->room = s->n + chunk + 1;
        }
        size_t got;
        KD_TRY(kd_in_read(in, s->p + s->n, chunk, &got, err));
        s->n += got;
        if (s->n > limit)
            return kd_fail(err, KD_EFORMAT, "%s: more than %zu bytes", in->name, limit);
        if (got < chunk)
            break;
        chunk = s->n;
    }
    s->p[s->n] = 0;
    return 0;
}

int kd_in_read_rest(kd_in *in, size_t limit, void **bytes, size_t *n, kd_err *err)
{
    kd_str s = {0};
    *bytes = NULL;
    *n = 0;
    if (read_all(in, limit, &s, err)) {
        free(s.p);
        return err->code;
    }
    *bytes = s.p;
    *n = s.n;
    return 0;
}

int kd_read_file(const char *path, size_t limit, void **bytes, size_t *n, kd_err *err)
{
    kd_in *in = NULL;
    *bytes = NULL;
    *n = 0;
    KD_TRY(kd_in_open(&in, path, err));
    kd_in_read_rest(in, limit, bytes, n, err);
    kd_in_close(in);
    return err->code;
}
