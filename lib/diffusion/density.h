// Noise levels for training: each density of k-diffusion as a function of a uniform. Peer: k_diffusion/utils.py rand_*.
#ifndef KD_DENSITY_H
#define KD_DENSITY_H
#include "model/config.h"

/// sigma of a uniform u in [0, 1); computed in double. normal: a standard normal draw, used by split-lognormal only.
double kd_density_sigma(const kd_density *d, double u, double normal);

/// Stratified uniform: (group + i * groups + r) / (n * groups). golden README section 7.
double kd_stratified(double r, int64_t i, int64_t n, int64_t group, int64_t groups);

#endif
