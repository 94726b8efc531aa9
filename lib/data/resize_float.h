// Bicubic resizing in floating point, for the networks that features come from.
#ifndef KD_RESIZE_FLOAT_H
#define KD_RESIZE_FLOAT_H
#include "base/err.h"
#include <stdint.h>

/// Keys' cubic (a = -1/2), stretched when making smaller, columns first: Pillow's Image.resize(BICUBIC) in its mode F, and PyTorch's
/// interpolate(mode="bicubic", antialias=True), which are the same but for rounding. Nothing is clipped.
typedef struct kd_resizer kd_resizer;
int kd_resizer_new(kd_resizer **r, int64_t from_h, int64_t from_w, int64_t to_h, int64_t to_w, int64_t c, kd_err *err);
/// from [from_h,from_w,c] -> to [to_h,to_w,c]. scratch: kd_resizer_scratch floats. May run in several threads at once.
void kd_resizer_run(const kd_resizer *r, float *to, const float *from, float *scratch);
int64_t kd_resizer_scratch(const kd_resizer *r);
void kd_resizer_free(kd_resizer *r);

#endif
