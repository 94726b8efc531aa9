// Samplers: from noise to images by calls of a denoiser. Each is a few lines beside its paper's algorithm. A list of rows
// (sampler.c) names them; more follow.
#ifndef KD_SAMPLER_H
#define KD_SAMPLER_H
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

/// Noise levels for sampling, high to low, then a final 0.
///   sigma_i = (smax^(1/rho) + i/(n-1) * (smin^(1/rho) - smax^(1/rho)))^rho     i = 0 .. n-1
/// out         [n+1] f32, written; the caller's memory
/// errors      KD_EUSAGE if n < 1, smin <= 0 (or not a normal number), smin > smax, rho <= 0; out is then untouched
/// source      Karras et al. 2022, arXiv:2206.00364, eq. 5;  n = 1 gives smax, 0
int kd_sigmas_karras(float *out, int64_t n, double smin, double smax, double rho, kd_err *err);

typedef struct kd_sampler_opts {
    double eta, s_churn, s_tmin, s_tmax, s_noise;
    int64_t order;                     // lms
    const char *solver;                // dpmpp_2m_sde: "midpoint" or "heun"
} kd_sampler_opts;
kd_sampler_opts kd_sampler_defaults(void);      // eta 1, s_churn 0, s_tmin 0, s_tmax inf, s_noise 1, order 4, midpoint

typedef struct kd_sampler { const char *name, *about; bool stochastic; int (*run)(); } kd_sampler;   // run: private signature
const kd_sampler *kd_sampler_find(const char *name);
const kd_sampler *kd_sampler_list(int *n);

/// One call for n images, all at noise level sigma. x, out: [n, size].
typedef int (*kd_denoise_call)(void *arg, int64_t n, float sigma, const float *x, float *out, kd_err *err);

/// What a run draws its noise for.
typedef struct kd_draw { uint64_t seed, index; } kd_draw;      // image `index` of a run with `seed`

/// Draws n images in place. x [n,size]: on entry the start (unit normals times sigmas[0]), on return the samples.
/// sigmas [steps+1], the last is 0. Ancestral noise of image k at step i: Philox (seed, KD_RNG_STEP, index, i); SDE samplers
/// ask a virtual Brownian tree (brownian.h). Each image's result depends on its draw only.
/// calls: NULL, or receives the number of denoiser calls an image took.
/// errors  KD_EFAIL "denoiser gave NaN at sigma 3.2 (step 7 of 20)"; those of the call
int kd_sample(const kd_sampler *s, const kd_sampler_opts *o, kd_denoise_call call, void *arg, const float *sigmas, int64_t steps,
              int64_t n, int64_t size, const kd_draw *draw, float *x, int64_t *calls, kd_err *err);

/// Starting noise of an image: unit normals times sigma. [size]
void kd_sample_start(float *x, int64_t size, kd_draw draw, float sigma);

#endif
