// The tensors of one call of a denoiser, in the peers' layout (images NCHW). Page: formats/denoised.md
#ifndef KD_DENOISED_H
#define KD_DENOISED_H
#include "tensor/tensor.h"

/// What a model wants of its inputs.
typedef struct kd_call_shape { int64_t h, w, c, mapping_cond_dim; } kd_call_shape;

/// The inputs of n images. Images are NHWC here, whatever the file had; what the file lacks is NULL.
typedef struct kd_call_inputs {
    int64_t n;
    float *sigma;                      // [n], all above 0
    float *x, *x0, *noise, *v;         // [n,h,w,c]
    int64_t *class_cond;               // [n]
    float *aug_cond, *mapping_cond;    // [n,9], [n,mapping_cond_dim]
} kd_call_inputs;

/// Picks the inputs out of a frame; float tensors of any type, other names are ignored. `file` is for messages.
/// errors  KD_EUSAGE if sigma is missing or not above 0, or a shape or type does not fit; *in is then empty
int kd_call_inputs_read(kd_call_inputs *in, const kd_frame *f, const char *file, kd_call_shape shape, kd_err *err);
void kd_call_inputs_free(kd_call_inputs *in);

/// Appends images, given as [n,h,w,c], as an F32 tensor [n,c,h,w].
int kd_frame_add_nchw(kd_frame *f, const char *name, const float *images, int64_t n, kd_call_shape shape, kd_err *err);

#endif
