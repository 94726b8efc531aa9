// A data set in memory: all images of a stream as U8 (or in an unlinked mapped file past the limit), with labels.
#ifndef KD_DATASET_H
#define KD_DATASET_H
#include "formats/images.h"

typedef struct kd_dataset {
    int64_t n, h, w, c;
    uint8_t *image;                    // [n,h,w,c]
    int64_t *label;                    // [n], or NULL
    uint64_t hash;                     // xxh3 of shape, pixels and labels
    kd_frame *meta;                    // of the stream
    void *map; size_t map_bytes;       // private: where the pixels live
} kd_dataset;

/// Reads an images stream to its end mark. F32 streams are quantized (round).
/// limit   bytes of pixels kept in ordinary memory; more goes to an unlinked file in $TMPDIR that is mapped
/// errors  those of kd_images_open and kd_images_next (a pixel of nan); KD_EUSAGE for an empty data set ("stdin: no images")
int kd_dataset_read(kd_dataset *d, const char *path, int64_t limit, kd_err *err);
void kd_dataset_free(kd_dataset *d);

/// The image at position p of an endless shuffled pass: epoch p / n, image kd_permute(seed, epoch, n, p mod n).
int64_t kd_dataset_at(const kd_dataset *d, uint64_t seed, uint64_t p);
#endif
