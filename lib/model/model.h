// A model in memory: config, parameters, weights. From a file or fresh from a seed.
#ifndef KD_MODEL_H
#define KD_MODEL_H
#include "model/net.h"
#include "tensor/tensor.h"

typedef struct kd_model {
    kd_config *config;
    kd_params *params;
    float *w;                 // flat array by params' offsets, F32, kd_alloc'ed; padding is 0
    bool lent;                // w is somebody else's, and not freed
    kd_frame *meta;           // metadata of its file (history, kd_step, ...), never NULL
    char hash[17];            // names these weights in the metadata of what they make (formats/model.h)
    char *warning;            // what was odd but harmless (unknown config keys of a foreign file), or NULL: tools say it
} kd_model;

/// New weights from a seed.
int kd_model_new(kd_model **m, kd_config *config, uint64_t seed, kd_err *err);      // takes config

/// A model of weights in memory that stay the caller's and outlive it (NULL: zeros of its own). Without metadata or a hash.
int kd_model_around(kd_model **m, kd_config *config, float *w, kd_err *err);        // takes config, also on failure

/// A model or checkpoint file (EMA weights; `raw`: the trained ones), "-" for stdin. Any float dtype; missing, unknown
/// and misshapen parameters are KD_EUSAGE and listed. v2's rope and Fourier buffers come from the file.
int kd_model_load(kd_model **m, const char *path, bool raw, kd_err *err);
/// The same with a config from elsewhere, for a foreign file that has none or a wrong one. Takes config. A checkpoint is
/// refused: it has its own.
int kd_model_load_as(kd_model **m, const char *path, kd_config *config, kd_err *err);

/// The same from tensors in memory, which stay the caller's, as does `file`, a name for messages. Takes config, also on failure.
int kd_model_of(kd_model **m, kd_config *config, const kd_frame *f, const char *file, kd_err *err);

/// Appends a flat array as tensors grad.NAME, one for each parameter that is trained; they point into it.
int kd_params_add_gradients(kd_frame *f, const kd_params *ps, float *flat, kd_err *err);

/// Changes how the network becomes a denoiser: model.wrapper of its config (kd_config_wrap). What was taken for granted is added to
/// its warning. errors KD_EUSAGE where that does not fit the network
int kd_model_wrap(kd_model *m, const char *wrapper, kd_err *err);

/// A frame of kind model/1: all parameters and buffers in `dtype`, config and carried-over metadata (history, step, images
/// seen, seed, and what a foreign model file has; nothing else of a checkpoint). A new line of history is the caller's.
/// The frame stands alone. errors KD_EFAIL if a value does not fit the dtype (70000 in F16), with its parameter.
int kd_model_frame(kd_frame **f, const kd_model *m, kd_dtype dtype, kd_err *err);
/// The same in F32, but its tensors are the model's own memory: m must outlive it.
int kd_model_frame_lent(kd_frame **f, const kd_model *m, kd_err *err);
/// The same as k-diffusion's converter writes it, for kd_safetensors_write_plain: the config is all its metadata.
/// errors  KD_EUSAGE and the reason if k-diffusion has no such network, or would take it for another denoiser than it is
int kd_model_frame_kdiff(kd_frame **f, const kd_model *m, kd_dtype dtype, kd_err *err);
void kd_model_free(kd_model *m);

#endif
