// toy_mixture, the model that is known exactly: data of a mixture of Gaussians has a denoiser in closed form. It takes
// kd_denoiser's place of a network, so that samplers and likelihoods can be compared with what they should give.
#ifndef KD_TOY_H
#define KD_TOY_H
#include "model/model.h"

/// D(x; s) = E[x0 | x0 + s noise = x] for x0 from a mixture with weights w_k, means m_k, deviations q_k: with
/// v_k = q_k^2 + s^2 and r_k proportional to w_k v_k^(-N/2) exp(-|x - m_k|^2/(2 v_k)), sum r_k = 1:
///   D = sum r_k (m_k s^2 + x q_k^2) / v_k
/// over images of N numbers, or each number by itself (N = 1) where the model's `mean` is [k].
/// x, denoised [n,h,w,c]; sigma [n]; v, vjp NULL or the same: vjp is the gradient of sum(denoised * v)
/// errors  KD_EFAIL for lack of memory
int kd_toy_denoise(const kd_model *m, int64_t n, const float *x, const float *sigma, const float *v, float *denoised, float *vjp,
                   kd_err *err);

#endif
