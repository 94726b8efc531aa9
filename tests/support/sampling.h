// Sampling runs in tests: options of golden runs, and denoisers that compute on the host.
#ifndef KD_TEST_SAMPLING_H
#define KD_TEST_SAMPLING_H
#include "base/json.h"
#include "diffusion/sampler.h"

/// From k-diffusion's keyword arguments; the strings are the JSON's.
kd_sampler_opts golden_sampler_opts(json_t *kwargs);

/// Writes the denoised images out [n,size] of x, both on the host.
typedef void (*host_denoiser)(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out);
/// Calls f for images on the backend, as a kd_denoise_call is asked to: downloads x and uploads out.
int denoise_on_host(kd_backend *be, host_denoiser f, void *arg, int64_t n, int64_t size, const int64_t *image, const float *sigma,
                    const float *x, float *out, kd_err *err);
#endif
