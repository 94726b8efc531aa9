// A denoiser as samplers call it: classes of the run's images, guidance, thresholding, inpainting.
#ifndef KD_GUIDE_H
#define KD_GUIDE_H
#include "diffusion/denoiser.h"
#include "diffusion/sampler.h"

typedef enum { KD_THRESHOLD_NONE, KD_THRESHOLD_STATIC, KD_THRESHOLD_DYNAMIC } kd_threshold;

/// How a denoised image is made of calls of models, in this order:
///   guidance      D = D_other + scale (D - D_other) at noise levels low..high, where D_other is without class (Ho and Salimans
///                 2022, arXiv:2207.12598; the interval: Kynkaanniemi et al. 2024, arXiv:2404.07724), or of a weaker model (Karras
///                 et al. 2024, arXiv:2406.02507). Scale 1 and levels outside are D to the bit, scale 0 is D_other to the bit.
///   thresholding  static: clamped to [-1, 1]; dynamic: clamped to +-q and divided by q, the larger of 1 and the percentile
///                 of the image's |D| (Saharia et al. 2022, arXiv:2205.11487)
///   inpainting    where mask is 0, D is the known image; so it is kept whatever the sampler, and on the way there it is at
///                 the noise level of the rest
typedef struct kd_guidance {
    double scale, low, high;
    kd_threshold threshold; double percentile;             // 0 to 100
} kd_guidance;

typedef struct kd_guide {
    kd_guidance g;
    kd_denoiser *d, *weak;             // weak: NULL, or the other model
    int64_t size;                      // of an image
    // of the run's images, in their places, in the host's memory
    const int64_t *label;              // NULL if the model has no classes
    float *known, *mask;               // NULL, or [n,size]
    void (*tick)(void *arg); void *arg;                    // NULL, or called after each call
    // private; begin with zeros
    kd_vec vec;
    float *other;                      // [room,size] on the backend
    float *known_there, *mask_there;   // where the backend reads known and mask
    float *sorted; int64_t *class_cond, room;              // [size], [room]
} kd_guide;

/// Before each run: known and mask, if there are any, are those of its n images.
int kd_guide_begin(kd_guide *g, int64_t n, kd_err *err);
/// A kd_denoise_call; arg is a kd_guide. errors KD_EINT, KD_ETERM when the program is interrupted
int kd_guide_call(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err);
void kd_guide_free(kd_guide *g);       // what the calls allocated

#endif
