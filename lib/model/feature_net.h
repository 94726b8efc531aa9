// Networks that turn images into features for FID and its kin: never trained here, weights made ready when loaded.
// Inception (inception.c), CLIP's image encoders (clip.c), DINOv2 (dinov2.c).
#ifndef KD_FEATURE_NET_H
#define KD_FEATURE_NET_H
#include "model/net.h"

/// A vision transformer's sizes, from its weights' shapes. Heads are of 64 features, as in all that are known; a narrower
/// network has one.
typedef struct kd_vit {
    int64_t width, layers, heads, mlp, patch, grid;    // mlp: its hidden features; the image is grid x grid patches of patch x patch
    bool quick_gelu;           // CLIP: OpenAI's activation
} kd_vit;

typedef struct kd_feature_net {
    const struct kd_feature_kind *kind;
    char name[64];             // "inception", "clip-vit-b-32", "dinov2-vits14", ...; "random features (inception)"
    char hash[17];             // names the weights: 16 hexadecimal digits of XXH3 over names and values (and CLIP's activation)
    int64_t size;              // it takes images of size x size
    float mean[3], scale[3];   // of 0..255 pixels: x = (p - mean) / scale
    int64_t d, spatial, classes;       // lengths of its outputs for an image; 0: it has none
    kd_vit vit;                // zeros in Inception
    kd_params *params;
    float *w;                  // flat array by params' offsets
} kd_feature_net;
void kd_feature_net_free(kd_feature_net *f);

/// Reads weights: encoder/1 (formats/encoder.md), or one of the files it is made from, PyTorch's or safetensors. The network is known
/// by the names of its tensors, which may have a prefix ("visual.", "state_dict."), its sizes by their shapes:
///   inception  the state dict of pt_inception-2015-12-05-6726825d.pth
///   clip       OpenAI's or open_clip's names of a CLIP with a ViT; other towers are passed over
///   dinov2     the state dict of dinov2_vits14_pretrain.pth, ..., without registers
/// errors  KD_EUSAGE if it is no such network, a tensor is missing, of another shape, or unknown; if CLIP's activation is not known
int kd_feature_load(kd_feature_net **f, const char *path, kd_err *err);
/// Inception with weights by a rule, for work without any download: scores by it compare with one another, with nothing else.
int kd_inception_random(kd_feature_net **f, kd_err *err);

/// Are these the tensors of such a network?
bool kd_feature_knows(const kd_frame *tensors);
/// They as encoder/1: those that the network needs, unchanged. The frame stands alone.
/// file        for messages
/// activation  NULL; or "gelu", "quick_gelu", where CLIP's weights do not say
/// said        set to a sentence about what was left out, to be freed, or NULL
int kd_feature_frame(kd_frame **to, const kd_frame *tensors, const char *file, const char *activation, char **said, kd_err *err);

/// What the graph of n images gives. Not asked for: nothing is computed for it.
typedef struct kd_feature_out {
    kd_val *pool;              // [N,d], perhaps with axes of length 1 between
    kd_val *spatial;           // [N,17,17,7]: 7 channels of a 1x1 convolution, as guided-diffusion's evaluation takes them for sFID
    kd_val *logits;            // [N,classes], without the bias of the last layer (which is not loaded), as for the Inception Score
    kd_val *module[20]; const char *module_name[20]; int modules;      // results of Inception's blocks, for tests
} kd_feature_out;
/// x [N,size,size,3], normalised. m->params are f->params. Errors are the graph's.
void kd_feature_forward(kd_net *m, const kd_feature_net *f, kd_val *x, kd_feature_out *out);

/// The rule's weights of one tensor of Inception, n elements of the shape; kind by the name's end. For tests.
void kd_inception_rule(const char *name, kd_shape shape, float *to);

#endif
