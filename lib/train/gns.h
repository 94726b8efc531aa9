// Gradient noise scale: about the batch beyond which larger ones help little.
#ifndef KD_GNS_H
#define KD_GNS_H

/// Running averages of |G|^2, the squared norm of the true gradient, and tr(S), the variance of one image's, from 0 with decay beta.
typedef struct kd_gns { double beta, eps, square, variance, beta_product; } kd_gns;
kd_gns kd_gns_start(double beta, double eps);          // k-diffusion's: 0.9998, 1e-8

/// One step. small: mean squared norm of the gradients of batches of n_small images; big: squared norm of their mean, which is of
/// n_big images, n_big > n_small.
///   |G|^2 = (n_big big - n_small small) / (n_big - n_small)       tr(S) = (small - big) / (1 / n_small - 1 / n_big)
/// source  McCandlish et al. 2018, arXiv:1812.06162, appendix A.1
/// peer    k_diffusion/gns.py; agrees to 1e-12 (tests/golden/gns.json)
void kd_gns_update(kd_gns *g, double small, double big, double n_small, double n_big);

/// tr(S) / |G|^2 of the averages, each at least eps.
double kd_gns_value(const kd_gns *g);
/// The averages without the weight of their start at 0.
void kd_gns_averages(const kd_gns *g, double *square, double *variance);
#endif
