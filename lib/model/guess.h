// A config for weights that come without one: what names and shapes tell, and defaults for the rest.
#ifndef KD_GUESS_H
#define KD_GUESS_H
#include "model/config.h"
#include "tensor/tensor.h"

/// Guesses the network of a state dict. What shapes cannot tell is k-diffusion's default or its example configs' value.
/// said    set to one sentence, to be freed: "x.pt: no config in it: from names and shapes image_transformer_v2, widths [16, 24], ...;
///         not told by them, and taken: input_size [128, 128], ...; --config says otherwise"
/// errors  KD_EUSAGE if the names are of no network known here, or no config of the one they are of fits: then that is said
int kd_guess_config(kd_config **c, const kd_frame *weights, const char *file, char **said, kd_err *err);
/// The same as JSON text, to be freed, before it is read as a config: only what a user would write.
int kd_guess_json(char **json, char **said, const kd_frame *weights, const char *file, kd_err *err);
#endif
