// Networks that turn images into features for FID and its kin: never trained here, weights folded when loaded.
#ifndef KD_FEATURE_NET_H
#define KD_FEATURE_NET_H
#include "model/net.h"

typedef struct kd_feature_net {
    char name[64];             // "inception"; "random features (inception)"
    char hash[17];             // names the weights
    int64_t size;              // it takes images of size x size
    float mean[3], scale[3];   // of 0..255 pixels: x = (p - mean) / scale
    int64_t d, spatial, classes;       // lengths of its outputs for an image
    kd_params *params;
    float *w;                  // flat array by params' offsets
} kd_feature_net;
void kd_feature_net_free(kd_feature_net *f);

/// The network of FID: TensorFlow's InceptionV3 of December 2015 as pytorch-fid has it. path: a file with the state dict of
/// pt_inception-2015-12-05-6726825d.pth, PyTorch's or safetensors. Batch norms are folded into the convolutions before them.
/// errors  KD_EUSAGE if a tensor is missing, of another shape, or unknown (num_batches_tracked is passed over)
int kd_inception_load(kd_feature_net **f, const char *path, kd_err *err);
/// The same with weights by a rule, for work without any download: scores by it compare with one another, with nothing else.
int kd_inception_random(kd_feature_net **f, kd_err *err);

/// What the graph of n images gives. Not asked for: nothing is computed for it.
typedef struct kd_feature_out {
    kd_val *pool;              // [N,d]
    kd_val *spatial;           // [N,17,17,7]: 7 channels of a 1x1 convolution, as guided-diffusion's evaluation takes them for sFID
    kd_val *logits;            // [N,classes], without the bias of the last layer (which is not loaded), as for the Inception Score
    kd_val *module[20]; const char *module_name[20]; int modules;      // results of the blocks, for tests
} kd_feature_out;
/// x [N,size,size,3], normalised. m->params are f->params. Errors are the graph's.
void kd_inception(kd_net *m, kd_val *x, kd_feature_out *out);

/// The rule's weights of one tensor, n elements of the shape; kind by the name's end. For tests.
void kd_inception_rule(const char *name, kd_shape shape, float *to);

#endif
