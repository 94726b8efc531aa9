// Opening a set of images from whatever holds it.
#ifndef KD_SET_OPEN_H
#define KD_SET_OPEN_H
#include "metric/extract.h"

/// What turns images into features, opened when the first images are met: sets of features need no network and no device.
typedef struct kd_set_source {
    kd_extract_options options;        // options.be NULL: opened by the next two, and closed by kd_set_source_close
    int (*open)(kd_backend **be, const char *device, kd_err *err);     // kd_device_open
    const char *device;
    void (*progress)(int64_t images);  // or NULL
    const kd_set *against;             // NULL, or what the images will be compared with: refused at once if made differently
    bool mixed;                        // records of one stream may be made differently: the set then says "bicubic+lanczos"
    kd_extractor *extractor;           // NULL until then; kd_set_source_close
} kd_set_source;
void kd_set_source_close(kd_set_source *source);

/// path    "-" for stdin, or a file: images (images/1, or another program's safetensors with a tensor image), features/1, stats/1,
///         an archive of numpy's (formats/npz.md), a pickle of EDM2's (formats/edm2.md); or FILE:NAME, a matrix [n,d] in any
///         safetensors file, or a metric's statistics in a pickle
/// errors  those of set.h, extract.h and of the readers (a stream that is cut short is KD_EFORMAT); a file of another kind is named
int kd_set_open(kd_set **s, const char *path, kd_set_source *source, kd_err *err);

#endif
