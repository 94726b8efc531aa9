// D(x; s) and its vector-Jacobian product.
#include "diffusion/denoiser_private.h"
#include "diffusion/toy.h"
#include <assert.h>

// The graphs -------------------------------------------------------------------------------------------------------

static int build_denoised(kd_call *call, const kd_denoiser *d, kd_err *err)
{
    KD_TRY(kd_call_begin(call, d, err));
    kd_loss_graph *lg = &call->lg;
    kd_graph *g = lg->g;
    call->c_in = kd_input(g, "c_in", KD_F32, KD_SHAPE(call->n));
    call->c_out = kd_input(g, "c_out", KD_F32, KD_SHAPE(call->n));
    call->c_skip = kd_input(g, "c_skip", KD_F32, KD_SHAPE(call->n));
    lg->in.x = kd_row_mix(g, call->x, call->c_in, NULL, NULL);
    const kd_net_out out = kd_net_forward(&lg->net, d->c, &lg->in);
    call->inner = out.f, call->logvar = out.logvar;
    call->denoised = kd_row_mix(g, call->inner, call->c_out, call->x, call->c_skip);
    return kd_graph_error(g, err);
}

static int build_vjp(kd_call *call, const kd_denoiser *d, kd_err *err)
{
    KD_TRY(build_denoised(call, d, err));
    call->v = kd_feed(call->lg.g, "v", KD_F32, call->x->shape);
    kd_graph_for(call->lg.g, d->be);
    kd_grad(call->lg.g, call->denoised, call->v, &call->x, 1, &call->vjp);
    return kd_graph_error(call->lg.g, err);
}

const kd_call_kind kd_call_denoise = { build_denoised }, kd_call_vjp = { build_vjp };

// Calls ------------------------------------------------------------------------------------------------------------

static int set_factors(kd_denoiser *d, const kd_call *call, const float *sigma, kd_err *err)
{
    const int64_t n = call->n;
    KD_TRY(kd_denoiser_rows(d, 4 * n, err));
    float *r = d->rows;
    for (int64_t i = 0; i < n; i++) {
        assert(sigma[i] > 0);
        const kd_precond c = kd_precond_at(d->c, sigma[i]);
        r[i] = c.c_in, r[n + i] = c.c_out, r[2 * n + i] = c.c_skip, r[3 * n + i] = c.c_noise;
    }
    KD_TRY(kd_program_set(call->p, call->c_in, r, err));
    KD_TRY(kd_program_set(call->p, call->c_out, r + n, err));
    KD_TRY(kd_program_set(call->p, call->c_skip, r + 2 * n, err));
    return kd_program_set(call->p, call->lg.in.c_noise, r + 3 * n, err);
}

// A toy_mixture's F is what a network would have to give.
static int toy_call(const kd_denoiser *d, int64_t n, const float *x, const float *sigma, float *inner, float *denoised, kd_err *err)
{
    const kd_config *c = d->c;
    const int64_t size = c->size[0] * c->size[1] * c->channels;
    float *D = denoised ? denoised : inner;
    KD_TRY(kd_toy_denoise(d->m, n, x, sigma, NULL, D, NULL, err));
    for (int64_t i = 0; inner && i < n * size; i++) {
        const kd_precond p = kd_precond_of(sigma[i / size], c->sigma_data);
        inner[i] = (D[i] - p.c_skip * x[i]) / p.c_out;
    }
    return 0;
}

// Where x is: in the host's memory, or in the backend's.
typedef struct place { const float *host, *on_backend; } place;

static int run_denoised(kd_denoiser *d, const kd_call *call, place x, const float *sigma, const kd_cond *cond, kd_err *err)
{
    KD_TRY(kd_call_set_conditions(d, call, cond, err));
    KD_TRY(set_factors(d, call, sigma, err));
    if (x.host) KD_TRY(kd_program_set(call->p, call->x, x.host, err));
    else KD_TRY(kd_program_feed(call->p, call->x, x.on_backend, err));
    return kd_program_run(call->p, err);
}

int kd_denoise(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond,
               float *inner, float *denoised, kd_err *err)
{
    return kd_denoise_variance(d, n, x, sigma, cond, inner, denoised, NULL, err);
}

int kd_denoise_variance(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond,
                        float *inner, float *denoised, float *logvar, kd_err *err)
{
    kd_call *call;
    if (kd_denoiser_is_toy(d)) return toy_call(d, n, x, sigma, inner, denoised, err);
    KD_TRY(kd_call_of(&call, d, &kd_call_denoise, n, cond, err));
    KD_TRY(run_denoised(d, call, (place){ .host = x }, sigma, cond, err));
    if (inner) KD_TRY(kd_program_get(call->p, call->inner, inner, err));
    if (denoised) KD_TRY(kd_program_get(call->p, call->denoised, denoised, err));
    if (logvar && call->logvar) KD_TRY(kd_program_get(call->p, call->logvar, logvar, err));
    return 0;
}

// The toy is solved by the host.
static int toy_on(const kd_denoiser *d, int64_t n, const float *x, const float *sigma, float *denoised, kd_err *err)
{
    kd_backend *be = d->be;
    const size_t bytes = (size_t)(n * d->c->size[0] * d->c->size[1] * d->c->channels) * sizeof *x;
    void *from, *to;
    KD_TRY(be->map(be, (void *)(uintptr_t)x, bytes, KD_MAP_READ, &from, err));
    if (!be->map(be, denoised, bytes, KD_MAP_WRITE, &to, err)) {
        toy_call(d, n, from, sigma, NULL, to, err);
        be->unmap(be, to, err);
    }
    be->unmap(be, from, err);
    return err->code;
}

int kd_denoise_on(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond, float *denoised, kd_err *err)
{
    kd_call *call;
    if (kd_denoiser_is_toy(d)) return toy_on(d, n, x, sigma, denoised, err);
    KD_TRY(kd_call_of(&call, d, &kd_call_denoise, n, cond, err));
    KD_TRY(run_denoised(d, call, (place){ .on_backend = x }, sigma, cond, err));
    return kd_program_take(call->p, call->denoised, denoised, err);
}

int kd_denoise_vjp(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond, const float *v,
                   float *denoised, float *vjp, kd_err *err)
{
    kd_call *call;
    if (kd_denoiser_is_toy(d)) return kd_toy_denoise(d->m, n, x, sigma, v, denoised, vjp, err);
    KD_TRY(kd_call_of(&call, d, &kd_call_vjp, n, cond, err));
    KD_TRY(kd_program_set(call->p, call->v, v, err));
    KD_TRY(run_denoised(d, call, (place){ .host = x }, sigma, cond, err));
    if (denoised) KD_TRY(kd_program_get(call->p, call->denoised, denoised, err));
    return kd_program_get(call->p, call->vjp, vjp, err);
}
