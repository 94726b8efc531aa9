// A virtual Brownian tree: W on [t0, t1] as a function of (seed, image index) and a counter, refined by midpoints, nothing
// stored. More steps refine the same path. Peer: torchsde's BrownianTree, as k_diffusion/sampling.py uses it. Source: Li et al.
// 2020, arXiv:2001.01328.
#ifndef KD_BROWNIAN_H
#define KD_BROWNIAN_H
#include <stdint.h>

/// Levels of the tree: below 2^-30 of [t0, t1] the path is a straight line. A request's variance is then 1 to 1e-3 for
/// |b - a| down to 2^-20 of the interval: a thousand Karras steps from 80 to 0.01.
enum { KD_BROWNIAN_LEVELS = 30 };

/// out[n] = elements first .. first+n-1 of (W(b) - W(a)) / sqrt(|b - a|), unit variance, in the variable sigma. a, b are
/// clamped into [t0, t1] (bounds are proof against rounding); a = b gives zeros. Same request, same values; (b, a) gives
/// minus (a, b).
/// scratch [n]
typedef struct kd_brownian { uint64_t seed, index; double t0, t1; } kd_brownian;
void kd_brownian_noise(const kd_brownian *w, double a, double b, float *out, uint64_t first, int64_t n, float *scratch);
#endif
