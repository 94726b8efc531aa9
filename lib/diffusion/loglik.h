// Log-likelihood of images under the probability-flow ODE. Song et al. 2021, arXiv:2011.13456, section 4.3 and appendix D.2.
#ifndef KD_LOGLIK_H
#define KD_LOGLIK_H
#include "diffusion/denoiser.h"

typedef struct kd_loglik_opts {
    double sigma_min, sigma_max, rtol, atol;
    bool batch_norm;                   // the error norm of all images together, as the peer's
    int64_t max_calls;                 // of the denoiser and its gradient for an image and probe
    int64_t probes;
    void (*tick)(void *arg); void *arg;                    // NULL, or told each evaluation
} kd_loglik_opts;
kd_loglik_opts kd_loglik_defaults(void);       // 0.01, 80, 1e-4, 1e-4, each image its own, 100000, 1 probe

/// ln p of n images x [n,size], in nats, by each probe: ln N(x(sigma_max); 0, sigma_max^2) plus the integral of the
/// divergence along the ODE dx/ds = (x - D)/s from x at sigma_min, which a probe v estimates as v . J^T v (Hutchinson).
/// In the variable t = ln s, in which the slopes are x - D and v . v - v . J_D^T v: of one size at all levels.
/// class_cond  NULL, or [n]
/// v           [n,probes,size]: independent, of mean 0 and variance 1; +-1 has the least variance
/// nats        [n,probes], written
/// calls       NULL or [n]: evaluations of each image, each `probes` calls of the denoiser with its gradient
/// errors      KD_EUSAGE for levels or tolerances out of range; KD_EFAIL from the model, "denoiser gave NaN or infinity at sigma
///             0.01", or if max_calls do not suffice
/// peer        k_diffusion/sampling.py log_likelihood; agrees within the tolerance
int kd_loglik(kd_denoiser *d, const kd_loglik_opts *o, int64_t n, const float *x, const int64_t *class_cond, const float *v, double *nats,
              int64_t *calls, kd_err *err);

/// Probes of +-1 for image `index`: v [probes,size], a function of (seed, index, number of the probe).
void kd_loglik_probes(float *v, int64_t probes, int64_t size, uint64_t seed, uint64_t index);
/// U8 pixels as x [size] at [-1, 1], each anywhere in its level: (p + u - 1/2) / 255 * 2 - 1, u uniform in [0, 1).
/// Then E ln p(x) + size ln(2/255) is at most the log-probability of the pixels. Theis et al. 2016, arXiv:1511.01844.
void kd_dequantize(float *x, const float *levels, int64_t size, uint64_t seed, uint64_t index);
/// Bits for each of `size` pixel values of 255 levels a range of 2: (-nats / size - ln(2/255)) / ln 2
double kd_bits_per_dim(double nats, int64_t size);

#endif
