// Other programs' weights: k-diffusion's training checkpoints, state dicts in PyTorch's or safetensors files,
// unet.cu's weights, our own files too.
#ifndef KD_IMPORT_H
#define KD_IMPORT_H
#include "formats/torch.h"
#include "model/model.h"

typedef struct kd_import kd_import;

/// Reads `path` ("-": stdin), any of: PyTorch (formats/torch.md), safetensors of another program, unet.cu's weights
/// (formats/unetcu.md), model/1, checkpoint/1.
/// raw     of a checkpoint the trained weights, not their average
int kd_import_open(kd_import **i, const char *path, bool raw, kd_err *err);
void kd_import_close(kd_import *i);

/// Is it a training checkpoint of k-diffusion: can kd_import_checkpoint take it?
bool kd_import_trains(const kd_import *i);

/// Does it say its config? Without one kd_import_model guesses the network; how it was trained cannot be guessed.
bool kd_import_has_config(const kd_import *i);

/// Its model. config: another one than the file's (takes it, also on failure), or NULL. A file without a config has it guessed from
/// its tensors (guess.h); (*m)->warning says what was guessed. A checkpoint/1 with a config is refused: it has its own.
/// errors  KD_EUSAGE if parameters are missing, left over or of another shape (they are listed), or nothing can be guessed
int kd_import_model(kd_model **m, const kd_import *i, kd_config *config, kd_err *err);

/// Is it a network for features (feature_net.h): does kd_import_features take it?
bool kd_import_encodes(const kd_import *i);
/// It as encoder/1 (formats/encoder.md). activation, said: those of kd_feature_frame
int kd_import_features(kd_frame **f, const kd_import *i, const char *activation, char **said, kd_err *err);

/// What k-diffusion's file does not say of its run.
typedef struct kd_import_run { uint64_t seed; int64_t batch; } kd_import_run;      // of later draws; images of a micro-batch

/// A training checkpoint as checkpoint/1 (formats/checkpoint.md): weights, average, moments (matched by the order of the parameter
/// groups), counts. It has no kd_data: training goes on with whatever data it is given. The frame stands alone.
/// config  as above, but a file without one is refused
/// said    set to a sentence about what was taken for granted, to be freed
int kd_import_checkpoint(kd_frame **f, const kd_import *i, kd_config *config, const kd_import_run *run, char **said, kd_err *err);
#endif
