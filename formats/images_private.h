// Private to images.c and images_write.c.
#ifndef KD_IMAGES_PRIVATE_H
#define KD_IMAGES_PRIVATE_H
#include "formats/images.h"

bool kd_images_own_key(const char *key);       // metadata that describes a frame of a stream, not what is in it
/// A new frame with the metadata of `from` (may be NULL) but those keys. The caller frees it, also after an error.
int kd_images_copy_meta(kd_frame **to, const kd_frame *from, kd_err *err);
#endif
