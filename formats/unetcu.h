// unet.cu's weight files (.bin), under guided-diffusion's names. Page: formats/unetcu.md
#ifndef KD_UNETCU_H
#define KD_UNETCU_H
#include "base/io.h"
#include "tensor/tensor.h"

enum { KD_UNETCU_LEVELS = 4 };

/// The network: guided-diffusion's UNet, level l (from 0, the finest) of (l + 1) * model_channels features, heads of 32, pooled
/// and repeated pixels for resampling.
typedef struct kd_unetcu_arch {
    int64_t in_channels, model_channels, out_channels, h, w, max_period;     // from the header
    int levels, blocks, attention_from;                  // the program's own constants: 4, 2, 2; attention on levels from there on
} kd_unetcu_arch;

/// Calls `see` for each parameter in the order of the file. A code other than 0 ends the walk and is returned.
/// see     name as in guided-diffusion's state dict, good during the call
int kd_unetcu_each(const kd_unetcu_arch *a, int (*see)(void *arg, const char *name, kd_shape shape, kd_err *err), void *arg, kd_err *err);

/// Are these the first bytes of such a file?
bool kd_unetcu_knows(const void *bytes, size_t n);

/// Reads one to its end. The optimizer's and the generator's states are passed over. `config` in the metadata is the network, as a config
/// of type guided_diffusion. What the header does not say follows from the number of parameters: the program's own network, or
/// another one of up to 4 levels and 4 blocks if just one has as many.
/// errors  KD_EFORMAT "w.bin: unet.cu: ..."
int kd_unetcu_read(kd_frame **f, kd_in *in, kd_err *err);
#endif
