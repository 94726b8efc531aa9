// Private to images.c and images_write.c: what a frame of images is.
#ifndef KD_IMAGES_PRIVATE_H
#define KD_IMAGES_PRIVATE_H
#include "formats/images.h"

enum { KD_IMAGES_RUN = 64, KD_IMAGES_BYTES = 4 << 20, KD_IMAGES_VALUES = 4 };

/// The per-image tensors, in the order they are written in: label, index, seed, calls.
typedef struct kd_images_value { const char *name; kd_dtype dtype; } kd_images_value;
extern const kd_images_value kd_images_values[KD_IMAGES_VALUES];

/// Images of a run, and of a frame in a pipe: 64, or what fits in 4 MiB, at least one. bytes: of an image, > 0
int64_t kd_images_per_run(size_t bytes);

bool kd_images_own_key(const char *key);       // metadata that describes a frame of a stream, not what is in it
/// A new frame with the metadata of `from` (may be NULL) but those keys. The caller frees it, also after an error.
int kd_images_copy_meta(kd_frame **to, const kd_frame *from, kd_err *err);
#endif
