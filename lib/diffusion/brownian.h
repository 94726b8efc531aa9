// A virtual Brownian tree: W on [t0, t1] as a function of (seed, image index) and a counter, refined by midpoints, nothing
// stored. More steps refine the same path. Contract: golden README section 5. Source: Li et al. 2020, arXiv:2001.01328.
#ifndef KD_BROWNIAN_H
#define KD_BROWNIAN_H
#include <stdint.h>

/// out[size] = (W(b) - W(a)) / sqrt(|b - a|), unit variance, in the variable sigma. a, b are clamped into [t0, t1]
/// (bounds are proof against rounding). Same request, same tensor; (b, a) gives minus (a, b).
typedef struct kd_brownian { uint64_t seed, index; double t0, t1; } kd_brownian;
void kd_brownian_noise(const kd_brownian *w, double a, double b, float *out, int64_t size, float *scratch /* [4*size] */);
#endif
