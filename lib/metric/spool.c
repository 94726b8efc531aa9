#include "metric/spool.h"
#include "base/memory.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct kd_spool { int fd; char folder[512]; size_t n; void *map; };

static int fail(const kd_spool *s, kd_err *err)
{
    return kd_fail(err, KD_EFAIL, "temporary file in %s: %s", s->folder, strerror(errno));
}

int kd_spool_new(kd_spool **out, kd_err *err)
{
    char path[600];
    const char *folder = getenv("TMPDIR");
    kd_spool *s = kd_alloc(sizeof *s);
    if (!s) return kd_fail_memory(err, "temporary file");
    snprintf(s->folder, sizeof s->folder, "%s", folder && *folder ? folder : "/tmp");
    snprintf(path, sizeof path, "%s/kd-XXXXXX", s->folder);
    s->fd = mkstemp(path);
    if (s->fd < 0) {
        fail(s, err);
        kd_free(s);
        return err->code;
    }
    unlink(path);
    *out = s;
    return 0;
}

int kd_spool_add(kd_spool *s, const void *bytes, size_t n, kd_err *err)
{
    for (size_t done = 0; done < n;) {
        const ssize_t k = write(s->fd, (const char *)bytes + done, n - done);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return fail(s, err);
        done += (size_t)k;
    }
    s->n += n;
    return 0;
}

int kd_spool_map(kd_spool *s, const void **bytes, kd_err *err)
{
    if (s->n && !s->map) {
        s->map = mmap(NULL, s->n, PROT_READ, MAP_SHARED, s->fd, 0);
        if (s->map == MAP_FAILED) {
            s->map = NULL;
            return fail(s, err);
        }
    }
    *bytes = s->map;
    return 0;
}

void kd_spool_free(kd_spool *s)
{
    if (!s) return;
    if (s->map) munmap(s->map, s->n);
    close(s->fd);
    kd_free(s);
}
