// The data set that a config names, where this machine can read it: what `kd-prep LOCATION | kd-train -` would train on.
#ifndef KD_CONFIG_DATA_H
#define KD_CONFIG_DATA_H
#include "data/dataset.h"
#include "model/config.h"

/// Reads dataset.type at dataset.location (imagefolder, imagefolder-class, mnist, cifar10 in its binary form), resized with
/// bicubic and cropped to the config's size, as k-diffusion's train.py does. Labels are taken if the model has classes.
/// limit   as for kd_dataset_read
/// say     receives lines about files left out
/// errors  KD_EUSAGE: nothing there, or a type that only Python can read; then it says which kd-prep command to use
int kd_config_data(kd_dataset *d, const kd_config *c, int64_t limit, void (*say)(const char *line), kd_err *err);
#endif
