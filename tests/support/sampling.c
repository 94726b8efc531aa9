#include "tests/support/sampling.h"
#include <stdlib.h>

kd_sampler_opts golden_sampler_opts(json_t *kwargs)
{
    kd_sampler_opts o = kd_sampler_defaults();
    struct { const char *name; double *to; } number[] = { { "eta", &o.eta }, { "s_churn", &o.s_churn }, { "s_tmin", &o.s_tmin },
                                                          { "s_tmax", &o.s_tmax }, { "s_noise", &o.s_noise }, { "r", &o.r },
                                                          { "rtol", &o.rtol }, { "atol", &o.atol }, { "h_init", &o.h_init },
                                                          { "pcoeff", &o.pcoeff }, { "icoeff", &o.icoeff }, { "dcoeff", &o.dcoeff },
                                                          { "accept_safety", &o.accept_safety } };
    for (size_t k = 0; k < sizeof number / sizeof *number; k++)
        if (json_object_get(kwargs, number[k].name)) *number[k].to = json_number_value(json_object_get(kwargs, number[k].name));
    if (json_object_get(kwargs, "order")) o.order = json_integer_value(json_object_get(kwargs, "order"));
    if (json_object_get(kwargs, "solver_type")) o.solver = json_string_value(json_object_get(kwargs, "solver_type"));
    return o;
}

int denoise_on_host(kd_backend *be, host_denoiser f, void *arg, int64_t n, int64_t size, const int64_t *image, const float *sigma,
                    const float *x, float *out, kd_err *err)
{
    const size_t bytes = (size_t)(n * size) * sizeof *x;
    float *in = malloc(2 * bytes), *result = in + n * size;
    if (!in) return kd_fail_memory(err, "a denoiser's images");
    if (!be->download(be, in, x, bytes, err)) {
        f(arg, n, image, sigma, in, result);
        be->upload(be, out, result, bytes, err);
    }
    free(in);
    return err->code;
}
