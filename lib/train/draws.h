// Images that the EMA weights of a run draw, for demo grids and evaluation.
#ifndef KD_DRAWS_H
#define KD_DRAWS_H
#include "train/trainer.h"

typedef struct kd_draws kd_draws;

/// dpmpp_2m_sde with the heun solver and eta 0, 50 Karras steps, as the peer's demos and evaluation. Noise of image i is a function
/// of (the run's seed, i), the same at each step, so that what changes is the training; its class is i modulo their number.
/// n       most images of a call
/// errors  KD_EFAIL. The trainer is untouched: its EMA weights are read where they are, or copied from the device.
int kd_draws_open(kd_draws **d, kd_trainer *t, int64_t n, kd_err *err);
void kd_draws_close(kd_draws *d);

/// Images first .. first+n-1 as *x [n,h,w,c], pixels at [-1, 1], valid until the next call. n as above at most.
/// errors  KD_EINT, KD_ETERM if a signal came meanwhile
int kd_draws_make(kd_draws *d, int64_t first, int64_t n, const float **x, kd_err *err);

/// What it takes, in bytes, beside the trainer: the denoiser, the sampler's vectors, copies of the weights if any. n as above.
int kd_draws_bytes(int64_t *bytes, kd_trainer *t, int64_t n, kd_err *err);
#endif
