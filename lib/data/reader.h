// What a kind of source file is: one row of the table in source.c. To add a kind (tar, zip, npz ...): write its read_KIND.c,
// declare its row here, list it there. Private to lib/data.
#ifndef KD_READER_H
#define KD_READER_H
#include "data/bytes.h"
#include "data/source.h"

/// What is known of a file before it is opened by a kind: enough to judge it by its content.
typedef struct kd_head {
    const char *path, *name;           // name: the last component of path
    const uint8_t *bytes; size_t n;    // the first bytes, unpacked; at most KD_BYTES_PEEK
    int64_t size;                      // of all bytes, or -1 if not known (packed, pipe)
} kd_head;

/// A file being read.
typedef struct kd_reader {
    const char *path, *name;
    kd_bytes *in;
    kd_labels labels;                  // KD_LABELS_AUTO: labels are wanted
    char *remark;                      // the kind may leave a remark for KD_ITEM_READ, malloc'ed
    void *own;                         // the kind's
} kd_reader;

typedef struct kd_reader_kind {
    const char *name;
    int channels;                      // --channels auto: 1 or 3
    bool many;                         // may hold more than one picture
    const char *const *classes;        // names of its labels, or NULL
    bool (*knows)(const kd_head *head);
    /// Reads the file's own header. NULL if there is none. *of: stays NULL, or the file (malloc'ed) whose labels this one holds.
    int (*open)(kd_reader *r, char **of, kd_err *err);
    /// The next picture into item (bytes or picture, label); *got false at the end, which must be where the header said.
    int (*next)(kd_reader *r, kd_item *item, bool *got, kd_err *err);
    void (*close)(kd_reader *r);       // frees own; NULL if there is nothing
} kd_reader_kind;

extern const kd_reader_kind kd_read_picture, kd_read_idx, kd_read_idx_labels, kd_read_unetcu, kd_read_cifar10;
#endif
