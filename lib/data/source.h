// Sources of pictures: folders, picture files, MNIST IDX, CIFAR-10, unet.cu, as one sequence of pictures with their origin and label.
// A kind of file is one row in the table of source.c (reader.h says what a row is).
#ifndef KD_SOURCE_H
#define KD_SOURCE_H
#include "data/picture.h"

typedef struct kd_source kd_source;

typedef enum {
    KD_LABELS_AUTO,            // what the file kind has: IDX and CIFAR labels
    KD_LABELS_DIR,             // the folder directly below SOURCE that the file lies in; files elsewhere are skipped
    KD_LABELS_NONE,
} kd_labels;

typedef enum {
    KD_ITEM_END,               // nothing more
    KD_ITEM_PICTURE,
    // After the pictures of a file, what became of the file:
    KD_ITEM_READ,              // its pictures came before this; `why`: NULL, or a remark ("no labels: ...")
    KD_ITEM_LABELS,            // it holds the labels of the file named in `why`
    KD_ITEM_PASSED,            // nothing is wrong but nothing is taken; `why` says why: hidden, no class folder, no labels' images
    KD_ITEM_BAD,               // `why` says what is wrong: not readable, damaged, of no known kind
} kd_item_kind;

/// One step of the sequence. The strings and bytes are the item's own (kd_item_free).
typedef struct kd_item {
    kd_item_kind kind;
    char *path, *why;
    // A picture:
    uint8_t *bytes; size_t n;          // a coded picture for kd_picture_decode, or NULL, and then
    kd_picture picture;                // the pixels
    int64_t label;                     // -1: none
    int channels;                      // what --channels auto means for this kind of file: 1 or 3
    const char *const *classes;        // names of the labels, NULL at the end; NULL: the kind has none. Static
} kd_item;
void kd_item_free(kd_item *item);      // leaves it zeroed

/// Opens sources, read in the order given; a folder's files in the order of walk.h. "-" is stdin.
/// errors those of kd_walk_open; KD_EUSAGE with KD_LABELS_DIR if no source has a folder in it
int kd_source_open(kd_source **s, int n, const char *const *sources, kd_labels labels, kd_err *err);
void kd_source_close(kd_source *s);

/// The next item. A file that holds many pictures is read through once before its first picture is given, so that a
/// damaged one gives none (a pipe cannot be read twice: there, damage met after the first picture is an error).
/// errors KD_EFAIL (memory, a failing disk), KD_EFORMAT from such a pipe; the item is zeroed then. A bad file is an item, not an error.
int kd_source_next(kd_source *s, kd_item *item, kd_err *err);

/// The classes of KD_LABELS_DIR, in the order of their labels; 0 names otherwise.
int kd_source_classes(const kd_source *s, const char *const **names);
#endif
