// Output. A regular file is written as .NAME.XXXXXX beside its place and renamed when whole; `kill -9` may leave such a
// file behind, and we never remove one that we did not make. Everything else is written straight.
#include "base/io.h"
#include "base/memory.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 16 };

struct kd_out {
    int fd;
    char *name;              // for messages: what the user gave, or "stdout"
    char *target;            // what to rename to, links followed; NULL if written straight
    char *temporary;         // exists on disk as long as this is set
    uint64_t offset;         // bytes given to us
    size_t have;
    bool failed;             // the buffer could not be written: more writes are useless
    char buffer[BUFFER];
};

// The test hook KD_FAIL_WRITE=n.
static bool must_fail(void)
{
    static long left = -1;
    if (left < 0) {
        const char *s = getenv("KD_FAIL_WRITE");
        left = s ? strtol(s, NULL, 10) : 0;
        if (left < 0)
            left = 0;
    }
    if (left > 0 && --left == 0) {
        errno = ENOSPC;
        return true;
    }
    return false;
}

static int fail_write(kd_out *out, kd_err *err)
{
    out->failed = true;
    if (errno == EPIPE)
        return kd_fail(err, KD_EPIPE, "closed");
    if (errno == EINTR)
        return kd_fail_interrupted(err);
    return kd_fail(err, KD_EFAIL, "%s: %s", out->name, strerror(errno));
}

// N of "/dev/fd/N" and its other names; -1 if the path is not one.
static int fd_of_path(const char *path)
{
    if (!strcmp(path, "/dev/stdout"))
        return STDOUT_FILENO;
    if (!strcmp(path, "/dev/stderr"))
        return STDERR_FILENO;
    const char *digits = !strncmp(path, "/dev/fd/", 8) ? path + 8 : !strncmp(path, "/proc/self/fd/", 14) ? path + 14 : "";
    char *end;
    const long n = strtol(digits, &end, 10);
    return isdigit((unsigned char)*digits) && !*end && n <= INT_MAX ? (int)n : -1;
}

// Follows links of the last component into path, stopping at a /dev/fd name (its own link must not be followed: the
// file behind it would be renamed over).
static int follow(char path[PATH_MAX], kd_out *out, kd_err *err)
{
    for (int depth = 0; depth < 40 && fd_of_path(path) < 0; depth++) {
        char link[PATH_MAX], folder[PATH_MAX];
        const ssize_t n = readlink(path, link, sizeof link - 1);
        if (n < 0)
            return 0;
        link[n] = 0;
        strcpy(folder, path);
        const int need = *link == '/' ? snprintf(path, PATH_MAX, "%s", link)
                                      : snprintf(path, PATH_MAX, "%s/%s", dirname(folder), link);
        if (need >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return fail_write(out, err);
        }
    }
    return 0;
}

// A fresh name beside the target, made with the mode that a plain open would give.
static int open_temporary(kd_out *out, const struct stat *old, kd_err *err)
{
    char folder[PATH_MAX], name[PATH_MAX];
    strcpy(folder, out->target);
    strcpy(name, out->target);
    const char *dir = dirname(folder), *base = basename(name);
    kd_str s = {0};
    KD_TRY(kd_str_printf(&s, err, "%s/.%.*s.XXXXXX", dir, NAME_MAX - 8, base));
    out->temporary = s.p;
    for (int attempt = 0; attempt < 100 && out->fd < 0; attempt++) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
        unsigned char random[6];
        if (getrandom(random, sizeof random, 0) != sizeof random)
            break;
        for (int i = 0; i < 6; i++)
            s.p[s.n - 6 + (size_t)i] = letters[random[i] % 32];
        out->fd = open(s.p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (out->fd < 0 && errno != EEXIST)
            break;
    }
    if (out->fd < 0) {
        free(out->temporary);
        out->temporary = NULL;
        return kd_fail(err, errno == ENOENT || errno == ENOTDIR ? KD_EUSAGE : KD_EFAIL, "%s: %s", out->name, strerror(errno));
    }
    if (old)                                          // replacing a file keeps its mode
        (void)!fchmod(out->fd, old->st_mode & 07777);
    return 0;
}

static int open_path(kd_out *out, const char *given, kd_err *err)
{
    char path[PATH_MAX];
    if (!*given || strlen(given) >= sizeof path)
        return kd_fail(err, KD_EUSAGE, "%s: not a file name", given);
    strcpy(path, given);
    KD_TRY(follow(path, out, err));
    const int n = strcmp(given, "-") ? fd_of_path(path) : STDOUT_FILENO;
    struct stat st;
    if (n >= 0) {
        out->fd = fcntl(n, F_DUPFD_CLOEXEC, 3);
    } else {
        const bool exists = !stat(path, &st);
        if (exists ? S_ISREG(st.st_mode) : errno == ENOENT) {
            if (exists && access(path, W_OK))
                return fail_write(out, err);
            out->target = kd_strdup(path);
            return out->target ? open_temporary(out, exists ? &st : NULL, err) : kd_fail_memory(err, "a file name");
        }
        if (exists && S_ISDIR(st.st_mode))
            return kd_fail(err, KD_EUSAGE, "%s: %s", out->name, strerror(EISDIR));
        out->fd = open(path, O_WRONLY | O_CLOEXEC);
    }
    return out->fd < 0 ? fail_write(out, err) : 0;
}

int kd_out_open(kd_out **to, const char *path, bool binary, kd_err *err)
{
    *to = NULL;
    kd_out *out = kd_alloc(sizeof *out);
    if (!out)
        return kd_fail_memory(err, "an output");
    out->fd = -1;
    out->name = kd_strdup(strcmp(path, "-") ? path : "stdout");
    if (!out->name)
        kd_fail_memory(err, "a file name");
    else if (!open_path(out, path, err) && binary && isatty(out->fd))
        kd_fail(err, KD_EUSAGE, "%s is a terminal, and the output is not text: redirect it or give -o FILE", out->name);
    if (err->code) {
        kd_out_close(out);
        return err->code;
    }
    *to = out;
    return 0;
}

static int write_all(kd_out *out, const char *p, size_t n, kd_err *err)
{
    while (n) {
        const ssize_t k = must_fail() ? -1 : write(out->fd, p, n < 1 << 30 ? n : 1 << 30);
        if (k < 0 && errno == EINTR && (out->target || !kd_interrupted()))
            continue;
        if (k < 0)
            return fail_write(out, err);
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

int kd_out_flush(kd_out *out, kd_err *err)
{
    if (out->failed)
        return kd_fail(err, KD_EFAIL, "%s: an earlier write failed", out->name);
    const size_t n = out->have;
    out->have = 0;
    return write_all(out, out->buffer, n, err);
}

int kd_out_write(kd_out *out, const void *bytes, size_t n, kd_err *err)
{
    if (n > BUFFER - out->have)
        KD_TRY(kd_out_flush(out, err));
    if (n > BUFFER / 2) {
        KD_TRY(kd_out_flush(out, err));
        KD_TRY(write_all(out, bytes, n, err));
    } else if (n) {
        memcpy(out->buffer + out->have, bytes, n);
        out->have += n;
    }
    out->offset += n;
    return 0;
}

int kd_out_patch(kd_out *out, uint64_t offset, const void *bytes, size_t n, kd_err *err)
{
    KD_TRY(kd_out_flush(out, err));
    const char *p = bytes;
    while (n) {
        const ssize_t k = must_fail() ? -1 : pwrite(out->fd, p, n, (off_t)offset);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return fail_write(out, err);
        p += k;
        n -= (size_t)k;
        offset += (uint64_t)k;
    }
    return 0;
}

bool kd_out_is_file(const kd_out *out) { return out->target != NULL; }
uint64_t kd_out_offset(const kd_out *out) { return out->offset; }
const char *kd_out_name(const kd_out *out) { return out->name; }

// A renamed file survives a crash only if its folder is on disk too. Some file systems cannot sync a folder: no error.
static void sync_folder(const char *file)
{
    char path[PATH_MAX];
    strcpy(path, file);
    const int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

int kd_out_commit(kd_out *out, kd_err *err)
{
    KD_TRY(kd_out_flush(out, err));
    if (out->target && (must_fail() || fsync(out->fd)))
        return fail_write(out, err);
    const int fd = out->fd;
    out->fd = -1;
    if (close(fd) && errno != EINTR)                  // network file systems tell of a full disk here
        return fail_write(out, err);
    if (!out->target)
        return 0;
    if (must_fail() || rename(out->temporary, out->target))
        return fail_write(out, err);
    free(out->temporary);
    out->temporary = NULL;
    sync_folder(out->target);
    return 0;
}

void kd_out_close(kd_out *out)
{
    if (!out)
        return;
    if (out->fd >= 0)
        close(out->fd);
    if (out->temporary)
        unlink(out->temporary);
    free(out->temporary);
    free(out->target);
    free(out->name);
    kd_free(out);
}
