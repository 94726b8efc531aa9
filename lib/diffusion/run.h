// What the samplers' files share: a run in progress and its vector helpers. Private to lib/diffusion.
// Vectors are [n,size] f32 in the backend's memory, and nothing waits for what is computed with them (op/vec.h): samplers
// pass their addresses on, and read through kd_backend.map. Factors are double, and each element is computed in double and
// rounded once.
#ifndef KD_DIFFUSION_RUN_H
#define KD_DIFFUSION_RUN_H
#include "diffusion/sampler.h"
#include "op/vec.h"

enum { KD_RUN_BUFFERS = 12 };

typedef struct kd_sampler_run {
    const kd_sampling *s;
    const kd_sampler_opts *o;          // s->o, with eta
    const float *sigmas; int64_t steps, n, size;
    float *x;                          // [n,size]: start and result
    const kd_noise *noise;
    kd_backend *be; kd_vec *vec;
    kd_err *err;                       // where vector helpers report: the next call of the denoiser returns it
    int64_t step;                      // the present one
    const int64_t *taken;              // [n], where images have steps of their own: how many each has taken; else NULL
    int64_t *shown;                    // [n], steps that were passed to `watch`
    int64_t *calls;                    // [n], of each image so far
    int64_t *image; float *sigma;      // [n], of the present call
    float *buffer[KD_RUN_BUFFERS]; int buffers;
    // Checks of x before each call, and of D after it: on the backend, for each image, the first that failed. `asked` has the
    // level and step of each call that was not looked at yet.
    int64_t *failed, *failed_host;     // [n], on the backend and here: 2 call + 1 for x, 2 call + 2 for D; 0: none
    struct kd_asked { double sigma; int64_t step; } *asked; int64_t n_asked, room_asked;
} kd_sampler_run;

/// A zeroed vector that lives as long as the run.
int kd_run_buffer(kd_sampler_run *r, float **v, kd_err *err);
/// D = D(x; s). x is checked to be within bounds and D to be finite: at once, or on a backend that works while we go on some
/// calls later, at the end of the run at the latest.
int kd_run_denoise(kd_sampler_run *r, float *D, const float *x, double s, kd_err *err);
/// The same for the m images whose places are in r->image and levels in r->sigma. x, D: [m,size]
int kd_run_denoise_some(kd_sampler_run *r, int64_t m, float *D, const float *x, kd_err *err);
/// d = (x - D(x; s)) / s, the slope dx/ds of the probability-flow ODE.
int kd_run_slope(kd_sampler_run *r, float *d, const float *x, double s, kd_err *err);
/// x += factor * z with unit normals z, the run's `request`-th draw; no draw if factor is 0. z: a vector to draw into.
int kd_run_add_noise(kd_sampler_run *r, float *x, double factor, int64_t request, double from, double to, float *z, kd_err *err);
/// The bytes of a vector.
size_t kd_run_bytes(const kd_sampler_run *r);
/// to = from
int kd_run_copy(const kd_sampler_run *r, float *to, const float *from, kd_err *err);
/// out = a x + b y. out may be x or y.
void kd_run_mix(const kd_sampler_run *r, float *out, double a, const float *x, double b, const float *y);
/// Stochastic churn: raises x from level s to the higher level *raised by fresh noise. Karras et al. 2022, algorithm 2.
int kd_run_churn(kd_sampler_run *r, double s, double *raised, float *z, kd_err *err);
/// A step from a to b as a step to `down` by the ODE and up again to b by noise `up`: up^2 + down^2 = b^2.
/// Song et al. 2020, arXiv:2010.02502, eq. 16, in the variable sigma; eta 0 is the ODE, 1 the ancestral sampler.
typedef struct kd_ancestral { double down, up; } kd_ancestral;
kd_ancestral kd_ancestral_of(double a, double b, double eta);
/// The lowest level above 0: where dpm_fast, dpm_adaptive and Brownian paths end.
double kd_run_lowest(const float *sigmas, int64_t steps);

// The samplers, one a row of sampler.c's list
int kd_euler(kd_sampler_run *r, kd_err *err);
int kd_euler_ancestral(kd_sampler_run *r, kd_err *err);
int kd_heun(kd_sampler_run *r, kd_err *err);
int kd_dpm_2(kd_sampler_run *r, kd_err *err);
int kd_dpm_2_ancestral(kd_sampler_run *r, kd_err *err);
int kd_lms(kd_sampler_run *r, kd_err *err);
int kd_dpm_fast(kd_sampler_run *r, kd_err *err);
int kd_dpm_adaptive(kd_sampler_run *r, kd_err *err);
int kd_ddim(kd_sampler_run *r, kd_err *err);
int kd_ddpm(kd_sampler_run *r, kd_err *err);
int kd_dpmpp_2s_ancestral(kd_sampler_run *r, kd_err *err);
int kd_dpmpp_sde(kd_sampler_run *r, kd_err *err);
int kd_dpmpp_2m(kd_sampler_run *r, kd_err *err);
int kd_dpmpp_2m_sde(kd_sampler_run *r, kd_err *err);
int kd_dpmpp_3m_sde(kd_sampler_run *r, kd_err *err);

#endif
