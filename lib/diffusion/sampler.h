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

enum { KD_LMS_MAX_ORDER = 8 };
typedef struct kd_sampler_opts {
    double eta, s_churn, s_tmin, s_tmax, s_noise;
    int64_t order;                     // lms: 1 to KD_LMS_MAX_ORDER
    const char *solver;                // dpmpp_2m_sde: "midpoint" or "heun"
} kd_sampler_opts;
kd_sampler_opts kd_sampler_defaults(void);      // eta 1, s_churn 0, s_tmin 0, s_tmax inf, s_noise 1, order 4, midpoint

/// What a sampler's noise is: none, independent draws, or increments of one Brownian path.
typedef enum { KD_NOISE_NONE, KD_NOISE_STEP, KD_NOISE_BROWNIAN } kd_noise_kind;
struct kd_sampler_run;
typedef struct kd_sampler {
    const char *name, *about;
    kd_noise_kind noise;
    int calls;                         // of the denoiser in a step; the last step, to 0, takes one
    int (*run)(struct kd_sampler_run *r, kd_err *err);
} kd_sampler;
const kd_sampler *kd_sampler_find(const char *name);      // NULL if there is none
const kd_sampler *kd_sampler_list(int *n);
int64_t kd_sampler_calls(const kd_sampler *s, int64_t steps);       // denoiser calls an image takes

/// One call for n images, all at noise level sigma. x, out: [n, size].
typedef int (*kd_denoise_call)(void *arg, int64_t n, float sigma, const float *x, float *out, kd_err *err);

/// Where noise comes from. draw fills z [n,size] with unit normals for step `step`, in which the noise level falls from
/// `from` to `to`. A sampler asks at most once a step, and not where its noise would be multiplied by 0.
typedef struct kd_noise {
    int (*draw)(void *arg, int64_t step, double from, double to, int64_t n, int64_t size, float *z, kd_err *err);
    void *arg;
} kd_noise;

/// Draws n images in place. x [n,size]: on entry the start (unit normals times sigmas[0]), on return the samples.
/// sigmas [steps+1], falling; the last is 0, the others are above 0.
/// calls: NULL, or receives the number of denoiser calls an image took.
/// errors  KD_EFAIL "denoiser gave NaN or infinity at sigma 3.2 (step 7 of 20)"; those of the call and of the noise;
///         KD_EUSAGE for an option out of range
int kd_sample_with(const kd_sampler *s, const kd_sampler_opts *o, kd_denoise_call call, void *arg, const float *sigmas,
                   int64_t steps, int64_t n, int64_t size, const kd_noise *noise, float *x, int64_t *calls, kd_err *err);

/// What a run draws its noise for.
typedef struct kd_draw { uint64_t seed, index; } kd_draw;      // image `index` of a run with `seed`

/// The same with noise from draw[n]. Noise of image k at step i: Philox (seed, KD_RNG_STEP, index, i); SDE samplers ask a
/// virtual Brownian tree (brownian.h) over the noise levels above 0. Each image's result depends on its draw only.
int kd_sample(const kd_sampler *s, const kd_sampler_opts *o, kd_denoise_call call, void *arg, const float *sigmas, int64_t steps,
              int64_t n, int64_t size, const kd_draw *draw, float *x, int64_t *calls, kd_err *err);

/// Starting noise of an image: unit normals times sigma. [size]
void kd_sample_start(float *x, int64_t size, kd_draw draw, float sigma);

#endif
