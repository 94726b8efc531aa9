// The files below the sources a person names, in a fixed order: path components compared bytewise, folders entered where
// they stand among the files. Only the names of the folders being walked are in memory.
#ifndef KD_WALK_H
#define KD_WALK_H
#include "base/err.h"
#include <stdbool.h>

typedef struct kd_walk kd_walk;

/// A file, or something that is not read. Owned by the walk, valid until the next call.
typedef struct kd_found {
    const char *path;          // as a person would type it: SOURCE, a slash, the path below it
    const char *folder;        // the component below SOURCE that it lies in ("cats"); NULL directly below, or SOURCE itself
    const char *why;           // NULL: a regular file (or "-", or what a person named). Else why it is not read
    bool harmless;             // why: nothing is wrong (hidden), against: could not be entered or opened
} kd_found;

/// Nothing is read but checked: every source exists, every folder has a file.
/// errors KD_EUSAGE "imgs: No such file or directory", "imgs: no files in it"
int kd_walk_open(kd_walk **w, int n, const char *const *sources, kd_err *err);
/// The next file; *found is NULL at the end. Links are followed; a link to a folder that contains it is not entered. Names that
/// begin with a dot are not read and such folders not entered, as a shell's * does it; each is found once, with the reason.
int kd_walk_next(kd_walk *w, const kd_found **found, kd_err *err);
void kd_walk_close(kd_walk *w);

/// The names of the folders directly below the sources that are not hidden, sorted bytewise, each once. Freed by
/// kd_walk_free_names. They are the classes of --labels dir.
int kd_walk_folders(char ***names, int *n_names, int n, const char *const *sources, kd_err *err);
void kd_walk_free_names(char **names, int n);
#endif
