// Demo grids: what the EMA weights draw at a step of training.
#ifndef KD_DEMO_H
#define KD_DEMO_H
#include "train/trainer.h"

/// Draws n images (draws.h) and writes them as a PNG grid, ceil(sqrt(n)) a row, to path. The trainer is untouched.
/// errors  KD_EINT, KD_ETERM if a signal came meanwhile: nothing is written then; those of writing
int kd_demo(kd_trainer *t, const char *path, int64_t n, kd_err *err);
#endif
