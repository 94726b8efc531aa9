// Files that one process at a time holds: a run's lock, and its log.
#ifndef KD_LOCK_H
#define KD_LOCK_H
#include "base/err.h"
#include <stdbool.h>

/// Opens path for reading and writing, and locks it (flock) until the descriptor is closed. A file that is not there is made,
/// empty. Where the file system has no locks it goes on without.
/// what     is said of the file if another process holds it: "another process is training this run"
/// *made    it was not there
/// errors   KD_EUSAGE if it is held, or cannot be opened; *fd is then -1
int kd_lock_open(int *fd, bool *made, const char *path, const char *what, kd_err *err);

/// Before the descriptor is closed: removes the file, if it is empty.
void kd_lock_remove(int fd, const char *path);
#endif
