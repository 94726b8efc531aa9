// Noise levels for sampling: n levels, high to low, then a final 0. With r_i = i/(n-1), i = 0 .. n-1; n = 1 has r = 0.
// Peer: k_diffusion/sampling.py get_sigmas_*; agrees to 1e-7 relative.
#ifndef KD_SIGMAS_H
#define KD_SIGMAS_H
#include "model/steps.h"

// out     [n+1] f32, written; the caller's memory
// errors  KD_EUSAGE if n < 1, smin <= 0 (or not a normal number), smin > smax, another number out of range; out is untouched

/// (smax^(1/rho) + r (smin^(1/rho) - smax^(1/rho)))^rho. Karras et al. 2022, arXiv:2206.00364, eq. 5
int kd_sigmas_karras(float *out, int64_t n, double smin, double smax, double rho, kd_err *err);
/// exp(ln smax + r (ln smin - ln smax))
int kd_sigmas_exponential(float *out, int64_t n, double smin, double smax, kd_err *err);
/// exp((1-r)^rho (ln smax - ln smin) + ln smin)
int kd_sigmas_polyexponential(float *out, int64_t n, double smin, double smax, double rho, kd_err *err);
/// sqrt(exp(beta_d t^2/2 + beta_min t) - 1) at t = 1 + r (eps_s - 1). Song et al. 2021, arXiv:2011.13456
int kd_sigmas_vp(float *out, int64_t n, double beta_d, double beta_min, double eps_s, kd_err *err);
/// The levels of a discrete schedule at steps evenly spaced from the last one to the first; n = s->n gives all.
int kd_sigmas_steps(float *out, int64_t n, const kd_steps *s, kd_err *err);

#endif
