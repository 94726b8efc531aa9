// One step of the optimizer, as a test takes it: a program of its own for a gradient that is already there.
#ifndef KD_TEST_OPTIMIZER_H
#define KD_TEST_OPTIMIZER_H
#include "train/optimizer.h"

/// Builds the program of kd_opt_append, runs it once and frees it.
/// grad   [ps->trained], on the backend
/// limit  of the gradient's norm; 0: none
/// step, lr, decay  as for kd_opt_rates
/// clip   [2], receives the factor that the gradient was multiplied by, and its norm
int optimizer_step(kd_backend *be, const kd_params *ps, const kd_config *c, const kd_opt_state *s, float *grad, double limit,
                   int64_t step, const double lr[4], double decay, double clip[2], kd_err *err);
#endif
