// A network as a denoiser of (x, s): D(x; s) = c_skip x + c_out F(c_in x, c_noise), with the factors of the config's
// wrapper. Karras et al. 2022, arXiv:2206.00364, table 1; peers k_diffusion/layers.py Denoiser, DenoiserWithVariance,
// SimpleLossDenoiser, k_diffusion/external.py.
#ifndef KD_DENOISER_H
#define KD_DENOISER_H
#include "model/model.h"
#include "op/program.h"

/// c_skip = d^2/(s^2+d^2), c_out = s d/sqrt(s^2+d^2), c_in = 1/sqrt(s^2+d^2), c_noise = ln(s)/4; computed in double.
typedef struct kd_precond { float c_skip, c_out, c_in, c_noise; } kd_precond;
kd_precond kd_precond_of(double sigma, double sigma_data);
/// Those of the config's wrapper, with d = 1 but for karras:
///   v, vd  c_skip = 1/(s^2+1), c_out = -s/sqrt(s^2+1), c_in = 1/sqrt(s^2+1)
///   eps    c_skip = 1, c_out = -s, c_in = 1/sqrt(s^2+1)
/// c_noise: kd_net_time of s (karras), of 2/pi atan(s) (v), of the step of s (eps, vd). At step 0, whose logarithm the peer's own
/// networks cannot take, they are told 1/1000, and of no step below that.
kd_precond kd_precond_at(const kd_config *c, double sigma);
/// karras 1; soft-min-snr (s d)^2/(s^2+d^2)^2; snr d^2/(s^2+d^2)
double kd_loss_weight(kd_weight_type w, double sigma, double sigma_data);
/// f [h,w] of loss_scales: with them the loss is weight * mean(f e^2), e the orthonormal 2-D DCT-II of F - target over H and W.
///   f[y][x] = min(g_h(y), g_w(x)),  g_n(i) = min(-log2 r_i, scales),  r_i evenly from 0.5/n (i = 0) to 0.5 (i = n-1)
/// So the highest frequency has weight 1. peer  k_diffusion/layers.py freq_weight_nd
void kd_frequency_weights(float *f, int64_t h, int64_t w, int64_t scales);

/// Conditions of n images; NULL: absent.
typedef struct kd_cond {
    const int64_t *class_cond;         // [n]
    const float *aug_cond;             // [n,9]
    const float *mapping_cond;         // [n,mapping_cond_dim]
    const float *unet_cond;            // [n,h,w,unet_cond_dim]
    int64_t cross_len;                 // of the sequences below
    const float *cross_cond;           // [n,cross_len,cross_cond_dim]
    const float *cross_padding;        // [n,cross_len], 1 where there is nothing; absent: all is there
} kd_cond;

typedef struct kd_denoiser kd_denoiser;
/// Weights are uploaded once (the CPU reads the model's own); programs are planned for each number of images met and kept (a
/// few). The model and the backend stay the caller's.
int kd_denoiser_new(kd_denoiser **d, const kd_model *m, kd_backend *be, kd_err *err);
/// The same of weights that are on the backend already, [ps->total], as a trainer has them. All remains the caller's.
int kd_denoiser_around(kd_denoiser **d, const kd_config *c, kd_params *ps, float *w, kd_backend *be, kd_err *err);
/// The type of the network's activations in the calls that follow; F32 if not set. A backend without kernels for it fails then.
void kd_denoiser_compute(kd_denoiser *d, kd_dtype compute);
void kd_denoiser_free(kd_denoiser *d);
const kd_model *kd_denoiser_model(const kd_denoiser *d);          // NULL for kd_denoiser_around
const kd_config *kd_denoiser_config(const kd_denoiser *d);
kd_backend *kd_denoiser_backend(const kd_denoiser *d);
/// Plans the program of kd_denoise for n images, which kd_denoiser_bytes then counts; its memory is taken at the first call.
int kd_denoiser_plan(kd_denoiser *d, int64_t n, const kd_cond *cond, kd_err *err);
int64_t kd_denoiser_bytes(const kd_denoiser *d);       // its copy of the weights, and the programs planned so far
double kd_denoiser_flops(const kd_denoiser *d);        // of the latest call, all its images

/// Images are NHWC, f32. sigma [n] > 0. inner (F) and denoised may be NULL. A missing aug_cond means
/// zeros. The result of an image does not depend on n.
/// errors  KD_EUSAGE if a condition the model needs is absent, or a class is out of range; KD_EFAIL from the backend
int kd_denoise(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond,
               float *inner, float *denoised, kd_err *err);
/// The same, and logvar [n] where the network has a variance (has_variance) and it is not NULL.
int kd_denoise_variance(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond,
                        float *inner, float *denoised, float *logvar, kd_err *err);
/// D of images in the backend's memory, to the backend's memory, elsewhere: nothing waits.
int kd_denoise_on(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond, float *denoised, kd_err *err);
/// denoised and the vector-Jacobian product: vjp = gradient of sum(denoised * v) with respect to x
int kd_denoise_vjp(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond, const float *v,
                   float *denoised, float *vjp, kd_err *err);
/// The config's loss of each image at x0 + sigma*noise; grad: NULL, or a flat array (params' offsets) for the gradient of
/// the mean loss. Dropout off. A learned variance has no part in it, as in the peer.
int kd_denoiser_loss(kd_denoiser *d, int64_t n, const float *x0, const float *noise, const float *sigma,
                     const kd_cond *cond, float *loss, float *grad, kd_err *err);

/// The network itself: whole = network(x, told), told [n] in place of what a wrapper would tell it (noise levels for
/// k-diffusion's networks, steps for guided_diffusion). whole [n,h,w,kd_denoiser_channels].
/// target: NULL, or of whole's shape: then loss is the mean of (whole - target)^2 over everything, and grad and grad_x, where
/// not NULL, receive its gradient with respect to the parameters (flat) and to x.
typedef struct kd_raw_loss { const float *target; double loss; float *grad, *grad_x; } kd_raw_loss;
int kd_network_call(kd_denoiser *d, int64_t n, const float *x, const float *told, const kd_cond *cond, float *whole,
                    kd_raw_loss *loss, kd_err *err);
int64_t kd_denoiser_channels(const kd_config *c);    // of the network's output: twice the image's with learn_sigma

// The graph of a loss, for these functions and for training ------------------------------------------------------------
//
// The target (x0 - c_skip x) / c_out at x = x0 + s noise is, with r = sqrt(s^2 + d^2), d = sigma_data, no difference of
// nearly equal numbers at any s: (s/d x0 - d noise) / r (karras), (noise - s x0) / r (v, vd; d = 1), noise (eps). The simple
// loss, the mean of ((x - D)/s - noise)^2, is d^2/r^2 times the mean of (F - target)^2: the same graph with the weight of snr.
// With has_variance: mean(((F - target)^2 / exp(logvar) + logvar) / 2), without weights or frequencies.
// With learn_sigma, in training: also the variational bound's term, which teaches the variances alone; steps/1000 times with
// rescale_learned_sigmas. Nichol & Dhariwal 2021, arXiv:2102.09672, sec. 3.1.

typedef struct kd_loss_graph {
    kd_graph *g;                                    // owned until kd_program_new takes it
    kd_net net;                                     // net.leaf: kd_bind each that is not NULL; freed by kd_loss_graph_free
    kd_val *x0, *noise;                             // [N,H,W,C]. Not in training: both are fed. In training: x0 is an input if
                                                    // pixels is NULL; noise is drawn by index and rng
    kd_val *pixels;                                 // in training without augmentation: input U8 [N,H,W,C]; else NULL
    kd_val *x_x0, *x_noise, *t_x0, *t_noise;        // inputs [N]: factors of x0 and noise in c_in x and in the target
    kd_val *weight;                                 // input [N]
    kd_val *bound;                                  // input [N,KD_BOUND_FACTORS], NULL without a learned variance; all these and
                                                    // in.c_noise are set by kd_loss_graph_set_sigma
    kd_net_in in;                                   // in.x: not an input; the conditions: inputs, NULL where the model has none
    kd_val *index, *rng;                            // inputs I64 [N], the images' numbers, and U64 [2], seed and step; NULL if !train
    kd_val *loss;                                   // [N]
} kd_loss_graph;
/// Builds the config's loss for n images. train: dropout on, `index` and `rng` are inputs, learned variances are taught.
/// cross_len: length of cross_cond's sequences. compute: of the network's activations (kd_graph_compute). On failure nothing
/// is left to free.
int kd_loss_graph_new(kd_loss_graph *lg, const kd_config *c, kd_params *ps, int64_t n, int64_t cross_len, bool train,
                      bool checkpointing, kd_dtype compute, kd_err *err);
/// Frees what is not the graph's: the graph goes with the program that took it.
void kd_loss_graph_free(kd_loss_graph *lg);
/// Uploads what depends on the noise levels sigma [n]. Levels below 1e-20 (a log-logistic draw of 0) count as 1e-20.
int kd_loss_graph_set_sigma(const kd_loss_graph *lg, kd_program *p, const kd_config *c, const float *sigma, int64_t n, kd_err *err);

#endif
