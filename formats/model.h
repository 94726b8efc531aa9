// Model files: parameters under k-diffusion's names and the config in the metadata. Page: formats/model.md
#ifndef KD_FORMAT_MODEL_H
#define KD_FORMAT_MODEL_H
#include "formats/safetensors.h"

/// Loads the weights of a model or of a checkpoint (its EMA weights, or the raw ones if `raw`), renamed to plain
/// parameter names, from a file or "-". The frame keeps `config` and the other metadata.
/// errors KD_EFORMAT if it is neither, or has no config ("x.safetensors: no config in its metadata: not a model").
int kd_model_file_load(kd_frame **frame, const char *path, bool raw, kd_err *err);

/// The same from an open input, whose rest it must be.
/// bare    a file without kind and config passes: other programs' weights
int kd_model_file_read(kd_frame **frame, kd_in *in, bool raw, bool bare, kd_err *err);

/// The hash that names a model's weights in the metadata of its samples: 16 hex digits, of names, types, shapes, data
/// (sorted by name), not of history or config.
void kd_model_hash(const kd_frame *frame, char hex[17]);
#endif
