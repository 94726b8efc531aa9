// Images to the input of a feature network: brought to its size, its scale.
#ifndef KD_PREPARE_H
#define KD_PREPARE_H
#include "model/feature_net.h"

/// How images get to the network's size, all by the same cubic. clean: rounded to 8 bits, resized in float, clipped to 0..255
/// (clean-fid; dgm-eval --clean_resize). torch: float images stay as they are, are resized at [-1, 1] and clipped after (k-diffusion).
/// On 8-bit images these two are the same but for float rounding. pil: rounded to 8 bits, and again after each pass, as Pillow resizes
/// 8-bit pictures (clean-fid's CLIP, dgm-eval's and EDM2's DINOv2). Images that are not square are stretched.
/// usual: what the network's field does: clean for Inception, pil for the others.
typedef enum { KD_RESIZE_USUAL, KD_RESIZE_CLEAN, KD_RESIZE_TORCH, KD_RESIZE_PIL } kd_resize_mode;
/// A mode but usual, by name ("clean"), and back. An unknown name is usual.
const char *kd_resize_name(kd_resize_mode mode);
kd_resize_mode kd_resize_of(const char *name);
kd_resize_mode kd_resize_usual(const kd_feature_net *net);

/// A run of images of one kind. Images of 1 channel are taken as grey.
typedef struct kd_pictures { kd_dtype dtype; int64_t n, h, w, c; const void *image; const int64_t *index; } kd_pictures;

/// The network's input for n pictures, U8 or F32 at [-1, 1]: to [n,size,size,3]. mode: not usual
/// errors  KD_EUSAGE for other than 1 or 3 channels
int kd_extract_prepare(float *to, const kd_pictures *p, const kd_feature_net *net, kd_resize_mode mode, kd_err *err);

#endif
