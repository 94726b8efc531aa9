// Private to import.c and import_checkpoint.c.
#ifndef KD_IMPORT_PRIVATE_H
#define KD_IMPORT_PRIVATE_H
#include "model/import.h"

struct kd_import {
    char *file;                // for messages
    kd_torch *torch;           // or NULL, and then:
    kd_frame *frame;
    bool raw;
};

/// The tensors whose names begin with `prefix`, under the rest of their names; data is borrowed.
int kd_import_part(kd_frame **part, const kd_frame *f, const char *prefix, kd_err *err);
bool kd_import_has(const kd_frame *f, const char *prefix);

/// The config of a PyTorch file, or `config` if it is not NULL (takes it). *c stays NULL if there is none.
int kd_import_config(kd_config **c, const kd_import *i, kd_config *config, char **warning, kd_err *err);
#endif
