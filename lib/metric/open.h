// Opening a set of images from whatever holds it.
#ifndef KD_SET_OPEN_H
#define KD_SET_OPEN_H
#include "metric/set.h"

/// path    a file of kind stats/1 or features/1, "-" for stdin, or FILE:NAME, a matrix [n,d] in any safetensors file
/// errors  those of set.h and of the readers; a file of another kind is named
int kd_set_open(kd_set **s, const char *path, kd_err *err);

#endif
