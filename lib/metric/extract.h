// Features of images: resizing to the network's size, the network in batches, its outputs into a set.
#ifndef KD_EXTRACT_H
#define KD_EXTRACT_H
#include "formats/images.h"
#include "metric/set.h"
#include "model/feature_net.h"
#include "op/backend.h"

/// clean: images are rounded to 8 bits, resized bicubic in float, clipped to 0..255 (clean-fid). torch: float images stay as they
/// are, are resized at [-1, 1] and clipped after (k-diffusion). On 8-bit images both are the same but for float rounding.
typedef enum { KD_RESIZE_CLEAN, KD_RESIZE_TORCH } kd_resize_mode;
typedef struct kd_extract_options {
    const char *features;          // "random", a file of weights, or NULL: searched in $KD_HOME
    kd_resize_mode resize;
    const char *device;
    int64_t batch;                 // images a run; changes memory only
    bool spatial, logits, keep;    // what beside moments of the features is wanted
} kd_extract_options;

typedef struct kd_extractor kd_extractor;
/// errors  KD_EUSAGE if weights are not found, with where they come from and where to put them; those of feature_net.h
int kd_extractor_open(kd_extractor **x, const kd_extract_options *o, kd_err *err);
void kd_extractor_close(kd_extractor *x);
/// How what it makes is made; texts are the extractor's.
kd_made kd_extractor_made(const kd_extractor *x, const char *images_resizer);

/// A run of images of one kind. Images of 1 channel are taken as grey.
typedef struct kd_pictures { kd_dtype dtype; int64_t n, h, w, c; const void *image; const int64_t *index; } kd_pictures;

/// Starts a set; then its images in runs; then the set. images_resizer: NULL, or how the images were prepared.
/// errors  KD_EUSAGE for other than 1 or 3 channels, runs of another size than the first
int kd_extract_begin(kd_extractor *x, kd_err *err);
int kd_extract_add(kd_extractor *x, const kd_pictures *p, kd_err *err);
int kd_extract_end(kd_set **s, kd_extractor *x, const char *name, const char *images_resizer, kd_err *err);
int64_t kd_extract_count(const kd_extractor *x);                   // images added since the beginning

/// The network's input for n pictures: to [n,size,size,3]. For the extractor and tests.
int kd_extract_prepare(float *to, const kd_pictures *p, const kd_feature_net *net, kd_resize_mode mode, kd_err *err);

#endif
