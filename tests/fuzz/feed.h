// Bytes as a path, for readers that open files: a regular file in memory, or a pipe that ends after them.
#ifndef KD_FUZZ_FEED_H
#define KD_FUZZ_FEED_H
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct feed { int fd; char path[32]; } feed;

static feed feed_of(int fd)
{
    feed f = { .fd = fd };
    if (fd < 0) abort();
    snprintf(f.path, sizeof f.path, "/dev/fd/%d", fd);
    return f;
}

static inline feed feed_file(const uint8_t *bytes, size_t n)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET)) abort();
    return feed_of(fd);
}

/// At most what a pipe holds is given: the rest is cut, which a reader must survive too.
static inline feed feed_pipe(const uint8_t *bytes, size_t n)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) abort();
    size_t room = (size_t)fcntl(ends[1], F_GETPIPE_SZ);
    if (n > room) n = room;
    if (write(ends[1], bytes, n) != (ssize_t)n) abort();
    close(ends[1]);
    return feed_of(ends[0]);
}

static inline void feed_end(feed f) { close(f.fd); }

/// Calls `read` on the bytes as a file and through a pipe.
static inline void feed_both(const uint8_t *bytes, size_t n, void (*read)(const char *path))
{
    feed f = feed_file(bytes, n);
    read(f.path);
    feed_end(f);
    f = feed_pipe(bytes, n);
    read(f.path);
    feed_end(f);
}

#endif
