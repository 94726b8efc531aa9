// Discrete noise schedules: the noise levels that a model with numbered steps was trained at, and the way between a level
// and its step. Peers: for betas guided-diffusion's gaussian_diffusion.py, for the rest k_diffusion/external.py DiscreteSchedule.
#ifndef KD_STEPS_H
#define KD_STEPS_H
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

/// linear         beta from 0.0001 to 0.02 evenly, times 1000/n
/// cosine         beta_i = min(1 - A((i+1)/n) / A(i/n), 0.999), A(u) = cos^2((u + 0.008) / 1.008 pi/2). arXiv:2102.09672
/// scaled-linear  sqrt(beta) evenly between the roots of beta_start and beta_end: CompVis' latent diffusion
typedef enum { KD_STEPS_LINEAR, KD_STEPS_COSINE, KD_STEPS_SCALED_LINEAR } kd_steps_type;

/// n steps. alpha is the product of 1 - beta up to a step; sigma = sqrt((1 - alpha)/alpha). As in the peer sigma is computed
/// in float32 from a rounded alpha: that moves the first levels by up to 3e-4.
typedef struct kd_steps {
    int64_t n;
    double *beta, *alpha;
    float *sigma, *log_sigma;          // rising
} kd_steps;

/// beta_start, beta_end: of scaled-linear only. 2 <= n <= 2^20. errors KD_EFAIL without memory
int kd_steps_new(kd_steps **s, kd_steps_type type, int64_t n, double beta_start, double beta_end, kd_err *err);
void kd_steps_free(kd_steps *s);

/// The step of a noise level. quantize: the nearest in ln sigma, the lower one of two. Else the point between the two around
/// it: low + clamp((ln sigma - l_low) / (l_high - l_low), 0, 1), l = log_sigma, low the last step with l_low <= ln sigma, at
/// most n-2 (0 if there is none), high = low + 1. A level of the table is its own step exactly.
double kd_steps_of(const kd_steps *s, double sigma, bool quantize);
/// The noise level of a step 0..n-1, interpolated linearly in ln sigma between floor(t) and ceil(t).
double kd_steps_sigma(const kd_steps *s, double t);

#endif
