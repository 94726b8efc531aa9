// The tensors of one call of a denoiser, in the peers' layout (images NCHW). Page: formats/denoised.md
#ifndef KD_DENOISED_H
#define KD_DENOISED_H
#include "tensor/tensor.h"

/// What a model wants of its inputs.
typedef struct kd_call_shape {
    int64_t h, w, c;
    int64_t mapping_cond_dim, unet_cond_dim, cross_cond_dim;
    int64_t out;                       // channels that the network itself gives: c, or 2c with a learned variance
} kd_call_shape;

/// The inputs of n images. Images are NHWC here, whatever the file had; what the file lacks is NULL.
typedef struct kd_call_inputs {
    int64_t n;
    float *sigma;                      // [n], all above 0
    float *t;                          // [n]: a call of the network itself; then sigma is NULL
    float *x, *x0, *noise, *v;         // [n,h,w,c]
    float *target;                     // [n,h,w,out], with t only
    int64_t *class_cond;               // [n]; with t it may be called y
    float *aug_cond, *mapping_cond;    // [n,9], [n,mapping_cond_dim]
    float *unet_cond;                  // [n,h,w,unet_cond_dim]
    int64_t cross_len;
    float *cross_cond, *cross_padding; // [n,cross_len,cross_cond_dim], [n,cross_len]
} kd_call_inputs;

/// Picks the inputs out of a frame; float tensors of any type, other names are ignored. `file` is for messages.
/// errors  KD_EUSAGE if sigma is missing or not above 0 (and there is no t), both are there (or both y and class_cond), or a shape or type
///         does not fit; KD_EFORMAT if a value is not finite; *in is then empty
int kd_call_inputs_read(kd_call_inputs *in, const kd_frame *f, const char *file, kd_call_shape shape, kd_err *err);
void kd_call_inputs_free(kd_call_inputs *in);

/// Appends images, given as [n,h,w,channels], as an F32 tensor [n,channels,h,w].
int kd_frame_add_nchw(kd_frame *f, const char *name, const float *images, int64_t n, int64_t channels, kd_call_shape shape, kd_err *err);

#endif
