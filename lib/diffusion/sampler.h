// Samplers: from noise to images by calls of a denoiser. Each is a few lines beside its paper's algorithm. A list of rows
// (sampler.c) names them.
#ifndef KD_SAMPLER_H
#define KD_SAMPLER_H
#include "op/vec.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KD_LMS_MAX_ORDER = 8 };
/// What can be set for samplers; each uses some of it (kd_sampler_uses).
typedef struct kd_sampler_opts {
    double eta;                        // NAN: 1, or 0 for dpm_fast and dpm_adaptive, as in k-diffusion
    double s_churn, s_tmin, s_tmax, s_noise;
    int64_t order;                     // lms: 1 to KD_LMS_MAX_ORDER; dpm_adaptive: 2 or 3; 0: 4 and 3
    const char *solver;                // dpmpp_2m_sde: "midpoint" or "heun"
    double r;                          // dpmpp_sde: where in a step its second call lies, 0.001 to 1
    // dpm_adaptive: tolerances, first step in -ln sigma, controller, and from which factor on a step is accepted
    double rtol, atol, h_init, pcoeff, icoeff, dcoeff, accept_safety;
    bool batch_norm;                   // one error and step for all images of the batch, as the peer does
    int64_t max_calls;                 // of an image
} kd_sampler_opts;
/// eta NAN, s_churn 0, s_tmin 0, s_tmax inf, s_noise 1, order 0, midpoint, r 1/2, rtol 0.05, atol 0.0078, h_init 0.05,
/// P 0, I 1, D 0, 0.81, each image its own, 10000 calls
kd_sampler_opts kd_sampler_defaults(void);

/// What a sampler's noise is: none, independent draws, or increments of one Brownian path.
typedef enum { KD_NOISE_NONE, KD_NOISE_STEP, KD_NOISE_BROWNIAN } kd_noise_kind;
struct kd_sampler_run;
typedef struct kd_sampler {
    const char *name, *about;
    kd_noise_kind noise;
    int calls;                         // of the denoiser in a step; 0: it chooses its steps by itself (dpm_fast, dpm_adaptive)
    bool ode;                          // without churn it solves the ODE, in both directions: images can be inverted
    int vectors;                       // [n,size] that it works with besides x; 0: as many as its order (lms)
    const char *options;               // those that it uses, "eta s_noise"
    int (*run)(struct kd_sampler_run *r, kd_err *err);
} kd_sampler;
const kd_sampler *kd_sampler_find(const char *name);      // NULL if there is none
const kd_sampler *kd_sampler_list(int *n);
/// Whether it ends at the lowest level above 0 instead of at 0: dpm_fast, dpm_adaptive.
bool kd_sampler_ends_above_zero(const kd_sampler *s);
/// Bytes of the backend's memory for the vectors of a run for n images, x included.
int64_t kd_sampler_bytes(const kd_sampler *s, const kd_sampler_opts *o, int64_t n, int64_t size);
/// Denoiser calls that an image takes; 0 if only the run shows it (dpm_adaptive).
int64_t kd_sampler_calls(const kd_sampler *s, int64_t steps);

/// Whether it uses an option, "s_noise" or "s-noise".
bool kd_sampler_uses(const kd_sampler *s, const char *option);
/// Its eta, also where none is given.
double kd_sampler_eta(const kd_sampler *s, const kd_sampler_opts *o);
/// Whether a run with these options adds noise on its way.
bool kd_sampler_draws(const kd_sampler *s, const kd_sampler_opts *o);
/// The options that it uses, as "eta=1 s_noise=1" (at most 255 bytes); returns buf.
char *kd_sampler_options(const kd_sampler *s, const kd_sampler_opts *o, char *buf, size_t room);

/// One call for n images. image [n]: their places 0, 1, ... in the run, rising (not all of them: with dpm_adaptive some are
/// ready before others); sigma [n]: their noise levels. x, out: [n, size], in the backend's memory.
typedef int (*kd_denoise_call)(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err);
/// Told the first denoised image [size] of each step that an image takes, in the host's memory, steps in order; image: its
/// place in the run.
typedef int (*kd_step_call)(void *arg, int64_t image, int64_t step, const float *denoised, kd_err *err);

/// What a run does.
typedef struct kd_sampling {
    kd_backend *be;
    const kd_sampler *sampler;
    const kd_sampler_opts *o;
    const float *sigmas;               // [steps+1], falling, all but the last above 0; the last is 0, or where to stop
    int64_t steps;                     // dpm_fast: its calls, from sigmas[0] to the lowest level above 0; dpm_adaptive: no matter
    kd_denoise_call call;
    kd_step_call watch;                // NULL, or called for each step
    void *arg;                         // of both
} kd_sampling;

/// Where noise comes from. draw fills z [n,size], in the backend's memory, with unit normals for images first .. first+n-1 of
/// the run; request counts a run's (an image's) draws from 0, also those that a sampler leaves out because their factor is 0.
/// The noise level falls from `from` to `to`.
typedef struct kd_noise {
    int (*draw)(void *arg, kd_vec *vec, int64_t request, double from, double to, int64_t first, int64_t n, int64_t size, float *z,
                kd_err *err);
    void *arg;
} kd_noise;

/// Draws n images in place. x [n,size], in the host's memory: on entry the start (unit normals times sigmas[0]), on return the
/// samples. A backend that can adopt x works in it; others work in a copy.
/// Samplers marked `ode` also go from low to high levels.
/// calls: NULL, or [n]: receives the number of denoiser calls each image took.
/// errors  KD_EFAIL "denoiser gave NaN or infinity at sigma 3.2 (step 7 of 20)", or that the images grew without bound before
///         it was asked; those of the call and of the noise; KD_EUSAGE for an option out of range
int kd_sample_with(const kd_sampling *s, int64_t n, int64_t size, const kd_noise *noise, float *x, int64_t *calls, kd_err *err);

/// What a run draws its noise for.
typedef struct kd_draw { uint64_t seed, index; } kd_draw;      // image `index` of a run with `seed`

/// The same with noise from draw[n]. Request k of an image: Philox (seed, KD_RNG_STEP, index, k); SDE samplers ask a
/// virtual Brownian tree (brownian.h) over the noise levels above 0. Each image's result depends on its draw only
/// (unless o->batch_norm).
int kd_sample(const kd_sampling *s, int64_t n, int64_t size, const kd_draw *draw, float *x, int64_t *calls, kd_err *err);

/// Starting noise of an image: unit normals times sigma. [size]
void kd_sample_start(float *x, int64_t size, kd_draw draw, float sigma);

#endif
