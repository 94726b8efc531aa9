// features/1: feature vectors of a set of images. Page: formats/features.md
#ifndef KD_FEATURES_H
#define KD_FEATURES_H
#include "formats/stats.h"

typedef struct kd_features {
    int64_t n, d, e;
    float *feature;                // [n,d]
    int64_t *index;                // [n] or NULL
    double *mu_s, *cov_s;          // [e], [e,e], or NULL
    kd_made made;
} kd_features;

/// Views a frame of kind features/1; everything points into the frame. file: for messages. errors KD_EFORMAT
int kd_features_read(kd_features *x, const kd_frame *f, const char *file, kd_err *err);
/// A frame that borrows the arrays of *x.
int kd_features_frame(kd_frame **f, const kd_features *x, kd_err *err);

#endif
