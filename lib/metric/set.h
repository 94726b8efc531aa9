// A set of images as the metrics see it: moments of its features, and the features themselves where they are known. From
// statistics, features, a matrix; or collected image by image.
#ifndef KD_SET_H
#define KD_SET_H
#include "base/io.h"
#include "formats/stats.h"
#include "metric/moments.h"

typedef struct kd_set {
    char *name;                // for messages: a file's, or "stdin"
    int64_t n;                 // images; 0: the file does not say
    kd_gauss pool, spatial;    // mu NULL where there are none
    kd_matrix feature, logit;    // x NULL where there are none; in the order of the images' index
    const int64_t *index;      // [n] of the rows as they lie, or NULL
    kd_made made;
    struct kd_set_memory *memory;      // what the above lies in
} kd_set;
void kd_set_free(kd_set *s);

/// A frame of kind stats/1 or features/1 (see kd_frame_kind). Takes the frame, also when it fails.
/// errors  KD_EFORMAT; KD_EUSAGE for another kind, named, and for fewer than 2 images
int kd_set_of_frame(kd_set **s, kd_frame *frame, const char *name, kd_err *err);
/// "FILE:NAME": a matrix [n,d] of a floating type.
int kd_set_of_matrix(kd_set **s, const char *file_name, kd_err *err);
/// Moments of which all else is unknown. Copies them. spatial: NULL if there are none
int kd_set_of_moments(kd_set **s, const kd_gauss *pool, const kd_gauss *spatial, const char *name, kd_err *err);

/// stats/1; or, with features, features/1. history: a line of it, or NULL
int kd_set_write(kd_out *out, const kd_set *s, bool features, const char *history, kd_err *err);

/// Images' features as they come, in constant memory: vectors that are kept go to an unlinked file in $TMPDIR (or /tmp).
typedef struct kd_collect kd_collect;
typedef struct kd_vectors { const float *feature, *spatial, *logit; const int64_t *index; } kd_vectors;
/// d, e, classes   lengths of feature, spatial and logit vectors; 0 for the last two: none
/// keep            features are kept, not only their moments
int kd_collect_new(kd_collect **c, int64_t d, int64_t e, int64_t classes, bool keep, kd_err *err);
/// n images. v->index NULL: the images are numbered as they come.
int kd_collect_add(kd_collect *c, int64_t n, const kd_vectors *v, kd_err *err);
/// Ends it. made is copied. errors KD_EUSAGE "stdin: 1 image: ..."
int kd_collect_finish(kd_set **s, kd_collect *c, const char *name, const kd_made *made, kd_err *err);
void kd_collect_free(kd_collect *c);

#endif
