// Demo grids: what the EMA weights draw at a step of training.
#ifndef KD_DEMO_H
#define KD_DEMO_H
#include "train/trainer.h"

/// Draws n images and writes them as a PNG grid, ceil(sqrt(n)) a row, to path: dpmpp_2m_sde with the heun solver and eta 0,
/// 50 Karras steps, as the peer's demos. Noise is a function of the run's seed, the same at each step, so that grids show
/// what training changed; image i has class i modulo the number of classes. The trainer is untouched.
int kd_demo(kd_trainer *t, const char *path, int64_t n, kd_err *err);
#endif
