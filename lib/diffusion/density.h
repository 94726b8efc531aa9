// Noise levels for training: each density of k-diffusion as a function of a uniform. Peer: k_diffusion/utils.py rand_*.
#ifndef KD_DENSITY_H
#define KD_DENSITY_H
#include "model/config.h"

/// sigma of a uniform u in [0, 1); computed in double. d = sigma_data, and scale_1 is the field scale.
///   lognormal            exp(loc + scale z), z the standard normal quantile of u (1 - 2e-7) + 1e-7
///   loglogistic          exp(loc + scale ln(p/(1-p))), p = c(min) + u (c(max) - c(min)), c(x) = 1/(1 + exp(-(ln x - loc)/scale))
///   loguniform           exp(ln min + u (ln max - ln min))
///   v-diffusion, cosine  d tan(a + u (b - a)), a = atan(min/d), b = atan(max/d)
///   split-lognormal      exp(loc - scale_1 |normal|) if u < scale_1/(scale_1 + scale_2), else exp(loc + scale_2 |normal|)
///   cosine-interpolated  exp((1-u) ln S(noise_d_low) + u ln S(noise_d_high)); u = 0 gives the largest level.
///                        S(n) = d/r tan(A + u (B - A)), r = n/image_d, A = atan(r max/d), B = atan(r min/d)
///   steps                level number floor(u n) of the n of a discrete schedule
/// normal: a standard normal draw, used by split-lognormal only.
/// Defaults of what a config does not give: loglogistic: loc ln d, scale 1/2, from 0 to infinity. loguniform: from the config's
/// sigma_min to its sigma_max. v-diffusion: from 1e-3 to 1e3. cosine-interpolated: from min(sigma_min, 1e-3) to
/// max(sigma_max, 1e3), image_d and noise_d_high the image's longer side, noise_d_low 32.
double kd_density_sigma(const kd_density *d, double u, double normal);

/// The i-th of a batch's n uniforms, stratified: (group + i * groups + r) / (n * groups), r uniform in [0, 1). The n * groups
/// equal parts of [0, 1) get one number each; micro-batch `group` of the `groups` of a step has every groups-th of them.
/// split-lognormal is not stratified. Peer: k_diffusion/utils.py stratified_uniform.
double kd_stratified(double r, int64_t i, int64_t n, int64_t group, int64_t groups);

#endif
