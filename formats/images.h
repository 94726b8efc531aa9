// Streams of images: records of frames with `image` [n,h,w,c] and per-image tensors. Page: formats/images.md
#ifndef KD_IMAGES_H
#define KD_IMAGES_H
#include "formats/safetensors.h"

/// What all images of a record share.
typedef struct kd_images_info {
    int64_t h, w, c;
    kd_dtype dtype;                    // KD_U8, or KD_F32 with pixels at [-1, 1]
    bool has_label, has_index, has_seed, has_calls;
    kd_frame *meta;                    // metadata only (class names, resizer, sampler, history ...); owned by the reader or writer
} kd_images_info;

/// A run of images with their per-image values (NULL where the record has none).
typedef struct kd_images {
    int64_t n;
    void *image;                       // [n,h,w,c]
    int64_t *label, *index; uint64_t *seed; int64_t *calls;
} kd_images;

// Reading ------------------------------------------------------------------------------------------------------

typedef struct kd_images_reader kd_images_reader;
/// Opens a stream ("-": stdin) and reads its first frame. A file or stream may hold several whole records (cat a b);
/// they must agree in size, channels and type, else KD_EUSAGE. Foreign safetensors with a U8 or F32 `image`-shaped
/// tensor named image is accepted. errors KD_EFORMAT: not images, frames out of order, end without kd_last
/// ("stdin: stream ends after image 128 without its end mark: the program before it failed").
/// An empty input (no byte) is KD_EFORMAT too.
int kd_images_open(kd_images_reader **r, const char *path, kd_err *err);
/// The same for a stream of which the first header was read already, to see what it is (NULL: there was none): takes both,
/// also when it fails.
int kd_images_continue(kd_images_reader **r, kd_in *in, kd_frame_in *first, kd_err *err);
const kd_images_info *kd_images_info_of(const kd_images_reader *r);
/// The next run of images, valid until the next call: at most 64 and 4 MiB, or one larger image; n = 0 at the end mark of
/// the last record. A frame of more than 4 MiB in a regular file stays there: memory is that of a run, and its checksum
/// is verified before its last run is given. Other frames are verified before their first, and in memory meanwhile.
/// errors  KD_EFORMAT also for an F32 pixel that is not finite, with the image's number in the stream
int kd_images_next(kd_images_reader *r, kd_images *run, kd_err *err);
/// Pixels that are not finite are no errors from now on: for who tells of them.
void kd_images_take_any(kd_images_reader *r);
/// Metadata of the record that the last run came from (those in kd_images_info_of are the first one's). The reader's, until the
/// next kd_images_next.
const kd_frame *kd_images_meta(const kd_images_reader *r);
void kd_images_close(kd_images_reader *r);

// Writing ------------------------------------------------------------------------------------------------------

typedef struct kd_images_writer kd_images_writer;
/// Starts one record on `out`. info->meta is copied; `history` is appended to its kd_history unless NULL.
/// A regular file becomes one frame (header space reserved, patched at the end: `image` first, small tensors after
/// it); a pipe gets frames of 64 images or what fits in 4 MiB (at least 1), kd_part 0, 1, ..., the last with kd_last.
/// A record of 0 images is valid and carries its end mark.
int kd_images_create(kd_images_writer **w, kd_out *out, const kd_images_info *info, const char *history, kd_err *err);
int kd_images_put(kd_images_writer *w, const kd_images *run, kd_err *err);
int kd_images_finish(kd_images_writer *w, kd_err *err);      // writes the last frame; kd_out_commit is the caller's
void kd_images_writer_free(kd_images_writer *w);

/// F32 [-1,1] to U8: round(clamp((x + 1) / 2 * 255)), halves up; trunc as k-diffusion's to_pil_image does.
void kd_images_quantize(uint8_t *to, const float *from, int64_t n, bool trunc);
/// U8 to F32: p / 255 * 2 - 1, in this order (the peers').
void kd_images_float(float *to, const uint8_t *from, int64_t n);

#endif
