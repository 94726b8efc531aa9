// Noise levels for sampling: n levels, high to low, then a final 0. With r_i = i/(n-1), i = 0 .. n-1; n = 1 has r = 0.
// Peer: k_diffusion/sampling.py get_sigmas_*; agrees to 1e-7 relative.
#ifndef KD_SIGMAS_H
#define KD_SIGMAS_H
#include "base/err.h"
#include "model/steps.h"
#include <stdbool.h>

/// Levels that single precision can be reckoned with: their images, and slopes between them, stay finite numbers.
#define KD_SIGMA_LEAST 1e-30
#define KD_SIGMA_MOST 1e30
/// errors  KD_EUSAGE "sigma_min: expected a noise level from 1e-30 to 1e+30, got 0"
int kd_sigma_check(const char *name, double sigma, kd_err *err);
/// Both, and smin below smax.
int kd_sigma_check_ends(double smin, double smax, kd_err *err);
/// What every schedule must be, computed or given: levels that fall, within those bounds; the last may be 0. what: for the message
/// errors  KD_EUSAGE "levels.st:s: level number 3 is 0.5 again: expected levels from 1e+30 to 1e-30 that fall, the last may be 0"
int kd_sigmas_check(const float *sigmas, int64_t levels, const char *what, kd_err *err);

// out     [n+1] f32, written; the caller's memory
// errors  KD_EUSAGE if n < 1, smin >= smax (for n = 1: smin > smax), a number is out of range, or these numbers give levels that do
//         not fall from smax to smin (kd_sigmas_check); what is in out is then no schedule

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
