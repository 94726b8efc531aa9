// From sources to a stream of images of one size: what kd-prep does, without its command line.
#ifndef KD_PREP_H
#define KD_PREP_H
#include "data/picture.h"
#include "data/source.h"
#include "formats/images.h"

typedef struct kd_prep_totals {
    int64_t files, kept, changed, skipped;               // files = kept + skipped; changed are among the kept
    int64_t images;
    bool limited;                                        // stopped at the limit: what comes after it was not looked at
} kd_prep_totals;

typedef struct kd_prep {
    int64_t h, w;                      // 0: as the pictures are, which must then all have one size
    kd_filter filter;
    const char *filter_name;           // for the metadata
    bool crop;                         // cover and crop the centre, else stretch
    uint8_t background[3];
    int channels;                      // 1, 3, or 0: 1 for IDX, 3 for others
    kd_labels labels;
    int64_t skip, limit;               // leave out the first `skip` good images, then take at most `limit` (-1: all)
    bool strict;                       // the first bad file is an error
    const char *report;                // JSONL file, or NULL
    const char *history;               // command line for kd_history, or NULL
    /// Called with one line for a person, without newline: a bad file, a remark. May be NULL.
    void (*say)(const char *line);
    /// Called now and then. May be NULL.
    void (*progress)(const kd_prep_totals *so_far);
} kd_prep;

/// Reads the sources and writes one record of U8 images, in the order of source.h, whatever the number of threads. Nothing is
/// written before the first image. Memory: a batch of coded files and of finished images.
/// Metadata: `resizer`, `crop` (unless sizes stay), `background`, and `class_names` (JSON list) where labels have names.
/// totals   valid also after an error. The report is complete for the files it names, also after an error.
/// errors   those of kd_source_open; KD_EUSAGE for sources without a picture, pictures of different sizes (no h, w) or
///          channels, labels on some only; KD_EFORMAT for a bad file with `strict`
int kd_prep_run(const kd_prep *p, int n, const char *const *sources, kd_out *out, kd_prep_totals *totals, kd_err *err);
#endif
