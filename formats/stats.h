// stats/1: mean and covariance of a set's features. Page: formats/stats.md
#ifndef KD_STATS_H
#define KD_STATS_H
#include "tensor/tensor.h"

/// How features were made, and before them the images; NULL where it is not known. Texts belong to whoever made the struct.
typedef struct kd_made {
    const char *extractor, *extractor_hash, *resizer;
    const char *images_resizer, *images_crop, *images_background, *images_quantize;
} kd_made;
enum { KD_MADE_FIELDS = 7 };
/// Field i, in the order above; the fields of images are those from KD_MADE_IMAGES on.
enum { KD_MADE_IMAGES = 3 };
const char **kd_made_field(kd_made *made, int i);
/// What a stream of images says in its metadata: `resizer`, `crop`, `background`, `quantize` (formats/images.md). Samples have no more
/// than the last. The texts are the frame's; the other fields are NULL.
kd_made kd_made_of_images(const kd_frame *meta);

/// Two sets were not made the same way: says all that differs, KD_EUSAGE. What is known of one side only passes.
int kd_made_alike(const kd_made *a, const char *a_name, const kd_made *b, const char *b_name, kd_err *err);

typedef struct kd_stats {
    int64_t n;                     // images; 0: not known
    int64_t d, e;                  // e: 0 without spatial features
    double *mu, *cov, *mu_s, *cov_s;
    kd_made made;
} kd_stats;

/// Views a frame of kind stats/1; everything points into the frame. file: for messages. errors KD_EFORMAT
int kd_stats_read(kd_stats *s, const kd_frame *f, const char *file, kd_err *err);
/// A frame that borrows the arrays of *s.
int kd_stats_frame(kd_frame **f, const kd_stats *s, kd_err *err);

// Parts that features/1 shares
void kd_made_read(kd_made *made, const kd_frame *f);                               // texts point into the frame
int kd_made_put(kd_frame *f, const kd_made *made, kd_err *err);                    // sets the metadata that are known
/// Tensor `name` of type F64 and the shape, or NULL if it is missing and may be.
int kd_stats_tensor(double **to, const kd_frame *f, const char *file, const char *name, kd_shape shape, bool optional, kd_err *err);
/// mu_s and cov_s of a frame: both or neither.
int kd_stats_spatial(int64_t *e, double **mu, double **cov, const kd_frame *f, const char *file, kd_err *err);

#endif
