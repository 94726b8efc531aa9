// The loss of a denoiser and its gradients, and calls of the network itself.
#include "diffusion/denoiser_private.h"

static int build_loss(kd_call *call, const kd_denoiser *d, kd_err *err)
{
    return kd_loss_graph_new(&call->lg, d->c, d->ps, call->n, call->cross_len, false, false, d->compute, err);
}

static int build_gradient(kd_call *call, const kd_denoiser *d, kd_err *err)
{
    KD_TRY(build_loss(call, d, err));
    return kd_call_append_gradient(call, d, err);
}

static int build_network(kd_call *call, const kd_denoiser *d, kd_err *err)
{
    KD_TRY(kd_call_begin(call, d, err));
    call->lg.in.x = call->x;
    call->whole = kd_net_forward(&call->lg.net, d->c, &call->lg.in).whole;
    return kd_graph_error(call->lg.g, err);
}

static int build_network_gradient(kd_call *call, const kd_denoiser *d, kd_err *err)
{
    KD_TRY(build_network(call, d, err));
    kd_loss_graph *lg = &call->lg;
    call->target = kd_feed(lg->g, "target", KD_F32, call->whole->shape);
    lg->weight = kd_input(lg->g, "weight", KD_F32, KD_SHAPE(call->n));
    lg->loss = kd_mse(lg->g, call->whole, call->target, lg->weight, NULL);
    KD_TRY(kd_graph_error(lg->g, err));
    return kd_call_append_gradient(call, d, err);
}

const kd_call_kind kd_call_loss = { build_loss }, kd_call_gradient = { build_gradient };
const kd_call_kind kd_call_network = { build_network }, kd_call_network_gradient = { build_network_gradient };

int kd_denoiser_loss(kd_denoiser *d, int64_t n, const float *x0, const float *noise, const float *sigma,
                     const kd_cond *cond, float *loss, float *grad, kd_err *err)
{
    const kd_params *ps = d->ps;
    kd_call *call;
    if (kd_denoiser_is_toy(d)) return kd_fail(err, KD_EUSAGE, "a toy_mixture is not trained: it has no loss");
    KD_TRY(kd_call_of(&call, d, grad ? &kd_call_gradient : &kd_call_loss, n, cond, err));
    KD_TRY(kd_call_set_conditions(d, call, cond, err));
    KD_TRY(kd_loss_graph_set_sigma(&call->lg, call->p, d->c, sigma, n, err));
    KD_TRY(kd_program_set(call->p, call->lg.x0, x0, err));
    KD_TRY(kd_program_set(call->p, call->lg.noise, noise, err));
    KD_TRY(kd_program_run(call->p, err));
    KD_TRY(kd_program_get(call->p, call->lg.loss, loss, err));
    return grad ? kd_call_get_gradient(call, ps, grad, err) : 0;
}

int64_t kd_denoiser_channels(const kd_config *c) { return c->learn_sigma ? 2 * c->channels : c->channels; }

int kd_network_call(kd_denoiser *d, int64_t n, const float *x, const float *told, const kd_cond *cond, float *whole,
                    kd_raw_loss *loss, kd_err *err)
{
    kd_call *call;
    if (kd_denoiser_is_toy(d)) return kd_fail(err, KD_EUSAGE, "a toy_mixture has no network to call");
    KD_TRY(kd_call_of(&call, d, loss ? &kd_call_network_gradient : &kd_call_network, n, cond, err));
    KD_TRY(kd_call_set_conditions(d, call, cond, err));
    KD_TRY(kd_denoiser_rows(d, n, err));
    for (int64_t i = 0; i < n; i++) d->rows[i] = (float)kd_net_time(d->c, told[i]);
    KD_TRY(kd_program_set(call->p, call->lg.in.c_noise, d->rows, err));
    KD_TRY(kd_program_set(call->p, call->x, x, err));
    for (int64_t i = 0; i < n; i++) d->rows[i] = 1;
    if (loss) KD_TRY(kd_program_set(call->p, call->lg.weight, d->rows, err));
    if (loss) KD_TRY(kd_program_set(call->p, call->target, loss->target, err));
    KD_TRY(kd_program_run(call->p, err));
    if (whole) KD_TRY(kd_program_get(call->p, call->whole, whole, err));
    if (!loss) return 0;
    KD_TRY(kd_program_get(call->p, call->lg.loss, d->rows, err));
    loss->loss = 0;
    for (int64_t i = 0; i < n; i++) loss->loss += d->rows[i] / (double)n;
    if (loss->grad_x) KD_TRY(kd_program_get(call->p, call->grad_x, loss->grad_x, err));
    return loss->grad ? kd_call_get_gradient(call, d->ps, loss->grad, err) : 0;
}
