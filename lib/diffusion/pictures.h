// Images that sampling starts from: streams of them, taken in runs of any length, and tensors of another program's file.
#ifndef KD_PICTURES_H
#define KD_PICTURES_H
#include "formats/images.h"

typedef struct kd_pictures kd_pictures;
enum { KD_PICTURES_GREY = 1, KD_PICTURES_REPEAT = 2 };
/// Opens a stream of images of h x w x c ("-": stdin). GREY: one of a single channel serves all c. REPEAT: the only image of
/// a stream is given again and again.
/// errors  KD_EUSAGE "masks.st: images are 8x8x3, the model's 28x28x1"; those of kd_images_open
int kd_pictures_open(kd_pictures **p, const char *path, int64_t h, int64_t w, int64_t c, unsigned how, kd_err *err);
const kd_images_info *kd_pictures_info(const kd_pictures *p);
/// The next n as F32 into to [n,h,w,c] and label [n] (NULL: no matter).
/// *got is less than n only where the stream ends.
int kd_pictures_take(kd_pictures *p, int64_t n, float *to, int64_t *label, int64_t *got, kd_err *err);
void kd_pictures_close(kd_pictures *p);

/// Images out of a tensor, "FILE:NAME": [..., n,h,w,c] of a file of kind images/1, [..., n,c,h,w] of any other, in F32 and
/// NHWC. lead: 0, or 1 for one more size in front, *n_lead. The caller kd_free's *images.
/// errors  KD_EUSAGE for another shape or type, KD_EFORMAT for a value that is not finite
int kd_tensor_images(const char *file_name, int64_t h, int64_t w, int64_t c, int lead, float **images, int64_t *n_lead, int64_t *n,
                     kd_err *err);
#endif
