// Features of images: resizing to the network's size, the network in batches, its outputs into a set.
#ifndef KD_EXTRACT_H
#define KD_EXTRACT_H
#include "formats/images.h"
#include "metric/prepare.h"
#include "metric/set.h"
#include "op/backend.h"

typedef struct kd_extract_options {
    const char *features;          // "random", a known network's name or a file of weights (find.h); NULL: Inception of $KD_HOME
    kd_resize_mode resize;
    kd_backend *be;                // where the network runs; stays the caller's, who closes it after the extractor
    int64_t batch;                 // images a run; changes memory only
    bool spatial, logits, keep;    // what beside moments of the features is wanted; left out where the network has none
} kd_extract_options;

typedef struct kd_extractor kd_extractor;
/// errors  those of find.h
int kd_extractor_open(kd_extractor **x, const kd_extract_options *o, kd_err *err);
void kd_extractor_close(kd_extractor *x);
/// How what it makes of such images is made (NULL: nothing is known of them); its texts are the extractor's and theirs.
kd_made kd_extractor_made(const kd_extractor *x, const kd_made *images);

/// Starts a set; then its images in runs; then the set. images: NULL, or how they were prepared.
/// errors  KD_EUSAGE for other than 1 or 3 channels, runs of another size than the first
int kd_extract_begin(kd_extractor *x, kd_err *err);
int kd_extract_add(kd_extractor *x, const kd_pictures *p, kd_err *err);
int kd_extract_end(kd_set **s, kd_extractor *x, const char *name, const kd_made *images, kd_err *err);
int64_t kd_extract_count(const kd_extractor *x);                   // images added since the beginning

#endif
