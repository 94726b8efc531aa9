// What the samplers' files share: a run in progress and its vector helpers. Private to lib/diffusion.
// Vectors are [n,size] f32; factors are double, and each element is computed in double and rounded once.
#ifndef KD_DIFFUSION_RUN_H
#define KD_DIFFUSION_RUN_H
#include "diffusion/sampler.h"

enum { KD_RUN_BUFFERS = KD_LMS_MAX_ORDER + 2 };

typedef struct kd_sampler_run {
    const kd_sampler_opts *o;
    const float *sigmas; int64_t steps, n, size;
    float *x;                          // [n,size], the caller's: start and result
    kd_denoise_call call; void *arg;
    const kd_noise *noise;
    int64_t step, calls;               // the present step; denoiser calls so far
    float *buffer[KD_RUN_BUFFERS]; int buffers;
} kd_sampler_run;

/// A zeroed vector that lives as long as the run.
int kd_run_buffer(kd_sampler_run *r, float **v, kd_err *err);
/// D = D(x; s), checked to be finite.
int kd_run_denoise(kd_sampler_run *r, float *D, const float *x, double s, kd_err *err);
/// d = (x - D(x; s)) / s, the slope dx/ds of the probability-flow ODE.
int kd_run_slope(kd_sampler_run *r, float *d, const float *x, double s, kd_err *err);
/// x += factor * z with unit normals z of the present step; no draw if factor is 0. z: a vector to draw into.
int kd_run_add_noise(kd_sampler_run *r, float *x, double factor, double from, double to, float *z, kd_err *err);
/// out = a x + b y. out may be x or y.
void kd_run_mix(const kd_sampler_run *r, float *out, double a, const float *x, double b, const float *y);

// The samplers, one a row of sampler.c's list
int kd_euler(kd_sampler_run *r, kd_err *err);
int kd_euler_ancestral(kd_sampler_run *r, kd_err *err);
int kd_heun(kd_sampler_run *r, kd_err *err);
int kd_lms(kd_sampler_run *r, kd_err *err);
int kd_dpmpp_2m(kd_sampler_run *r, kd_err *err);
int kd_dpmpp_2m_sde(kd_sampler_run *r, kd_err *err);

#endif
