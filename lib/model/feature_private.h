// Private to feature_net.c and the networks' files: how a network is known, how its parameters are made of a file's tensors.
#ifndef KD_FEATURE_PRIVATE_H
#define KD_FEATURE_PRIVATE_H
#include "base/io.h"
#include "model/feature_net.h"

/// Tensors as they are in a file; or (frame NULL) by Inception's rule.
typedef struct kd_raw {
    const char *file, *what;             // for messages; what: "DINOv2"
    const kd_frame *frame;
    char prefix[64];                     // before the names that kd_raw_get is given: "visual.", or ""
    const char *activation;              // "gelu", "quick_gelu", or NULL: not said
    kd_hash *hash;
    int *used, n_used;                   // numbers of the frame's tensors that were taken, in that order
} kd_raw;

/// One, converted; it counts for the hash. to: as many elements as the shape has
/// errors  KD_EUSAGE if it is missing or of another shape or type
int kd_raw_get(kd_raw *r, const char *name, kd_shape shape, float *to, kd_err *err);
/// Is it there? And how it is shaped; axis i, or 0 if there is no such tensor or axis.
bool kd_raw_has(const kd_raw *r, const char *name);
int64_t kd_raw_axis(const kd_raw *r, const char *name, int i);

typedef struct kd_feature_kind {
    const char *name, *what;             // in encoder/1; in messages
    const char *sign;                    // a tensor that no other network has
    /// Sizes, name and normalisation of f.
    int (*shape)(kd_feature_net *f, const kd_raw *raw, kd_err *err);
    void (*forward)(kd_net *m, const kd_feature_net *f, kd_val *x, kd_feature_out *out);
    /// f->w of raw tensors.
    int (*fill)(kd_feature_net *f, kd_raw *raw, kd_err *err);
    /// A tensor among them that is of no use; all others that `fill` did not take are errors.
    bool (*passes)(const char *name);
} kd_feature_kind;
extern const kd_feature_kind kd_feature_inception, kd_feature_clip, kd_feature_dinov2;

/// inception.c: x [N,299,299,3]
void kd_inception(kd_net *m, kd_val *x, kd_feature_out *out);

#endif
