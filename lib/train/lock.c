#include "train/lock.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// Does the path name the file that is open? Who held it before may have removed it since.
static bool is_at(int fd, const char *path)
{
    struct stat a, b;
    return !fstat(fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int kd_lock_open(int *to, bool *made, const char *path, const char *what, kd_err *err)
{
    bool held;
    int fd;
    *to = -1;
    do {
        *made = access(path, F_OK) && errno == ENOENT;
        if ((fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0) return kd_fail(err, KD_EUSAGE, "%s: %s", path, strerror(errno));
        held = flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
        if (!held && is_at(fd, path)) break;
        close(fd);
    } while (!held);
    if (held) return kd_fail(err, KD_EUSAGE, "%s: %s", path, what);
    *to = fd;
    return 0;
}

void kd_lock_remove(int fd, const char *path)
{
    struct stat st;
    if (!lstat(path, &st) && S_ISREG(st.st_mode) && st.st_size == 0 && is_at(fd, path)) unlink(path);
}
