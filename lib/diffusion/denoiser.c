// The programs of a denoiser and the inputs that all of them share. See denoiser_private.h; the calls are in denoise.c and
// network_call.c.
#include "diffusion/denoiser_private.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make(kd_denoiser **out, kd_denoiser from, kd_err *err)
{
    kd_denoiser *d = malloc(sizeof *d);
    if (!d) return kd_fail_memory(err, "the denoiser");
    *d = from;
    *out = d;
    return 0;
}

int kd_denoiser_new(kd_denoiser **out, const kd_model *m, kd_backend *be, kd_err *err)
{
    kd_denoiser *d = NULL;
    KD_TRY(make(&d, (kd_denoiser){ .c = m->config, .ps = m->params, .m = m, .be = be, .own_w = true }, err));
    if (kd_backend_lend(be, m->w, (size_t)m->params->total * sizeof(float), (void **)&d->w, err)) kd_denoiser_free(d);
    else *out = d;
    return err->code;
}

int kd_denoiser_around(kd_denoiser **out, const kd_config *c, kd_params *ps, float *w, kd_backend *be, kd_err *err)
{
    return make(out, (kd_denoiser){ .c = c, .ps = ps, .be = be, .w = w }, err);
}

static void call_free(kd_call *call)
{
    kd_program_free(call->p);
    if (call->lg.g) kd_graph_free(call->lg.g);       // not yet the program's
    kd_loss_graph_free(&call->lg);
    free(call->grad);
    *call = (kd_call){ 0 };
}

void kd_denoiser_compute(kd_denoiser *d, kd_dtype compute)
{
    if (compute == d->compute) return;
    for (int i = 0; i < KD_CALLS_KEPT; i++) call_free(&d->call[i]);
    d->compute = compute;
}

void kd_denoiser_free(kd_denoiser *d)
{
    if (!d) return;
    for (int i = 0; i < KD_CALLS_KEPT; i++) call_free(&d->call[i]);
    if (d->own_w) kd_backend_return(d->be, d->m->w, d->w);
    free(d->rows);
    free(d);
}

const kd_model *kd_denoiser_model(const kd_denoiser *d) { return d->m; }
const kd_config *kd_denoiser_config(const kd_denoiser *d) { return d->c; }
kd_backend *kd_denoiser_backend(const kd_denoiser *d) { return d->be; }
bool kd_denoiser_is_toy(const kd_denoiser *d) { return d->c->type == KD_MODEL_TOY_MIXTURE; }

int64_t kd_denoiser_bytes(const kd_denoiser *d)
{
    int64_t bytes = d->own_w && d->w != d->m->w ? d->ps->total * (int64_t)sizeof(float) : 0;
    for (int i = 0; i < KD_CALLS_KEPT; i++)
        if (d->call[i].p) bytes += kd_program_bytes(d->call[i].p) + kd_program_host_bytes(d->call[i].p);
    return bytes;
}

double kd_denoiser_flops(const kd_denoiser *d)
{
    const kd_call *latest = &d->call[0];
    for (int i = 1; i < KD_CALLS_KEPT; i++)
        if (d->call[i].used > latest->used) latest = &d->call[i];
    return latest->p ? kd_program_flops(latest->p) : 0;
}

// Planning ---------------------------------------------------------------------------------------------------------

int kd_call_begin(kd_call *call, const kd_denoiser *d, kd_err *err)
{
    kd_loss_graph *lg = &call->lg;
    kd_graph *g = lg->g = kd_graph_new();
    lg->net = (kd_net){ .g = g, .params = d->ps, .leaf = calloc((size_t)d->ps->n, sizeof(kd_val *)) };
    if (!g || !lg->net.leaf) return kd_fail_memory(err, "the denoiser's graph");
    kd_graph_compute(g, d->compute);
    lg->in = kd_net_conditions(g, d->c, call->n, call->cross_len);
    call->x = kd_feed(g, "x", KD_F32, KD_SHAPE(call->n, d->c->size[0], d->c->size[1], d->c->channels));
    return kd_graph_error(g, err);
}

int kd_call_append_gradient(kd_call *call, const kd_denoiser *d, kd_err *err)
{
    const kd_params *ps = d->ps;
    kd_val **wrt = calloc((size_t)(2 * ps->n + 2), sizeof *wrt), **dw = wrt + ps->n + 1;
    float *mean = malloc((size_t)call->n * sizeof *mean);
    call->grad = calloc((size_t)ps->n, sizeof *call->grad);
    int code = !wrt || !mean || !call->grad ? kd_fail_memory(err, "the gradient's graph") : 0, n = 0;
    if (code) goto done;
    for (int64_t i = 0; i < call->n; i++) mean[i] = 1 / (float)call->n;
    for (int i = 0; i < ps->n; i++)
        if (!(ps->p[i].tags & KD_TAG_BUFFER) && call->lg.net.leaf[i]) wrt[n++] = call->lg.net.leaf[i];
    if (call->x) wrt[n++] = call->x;
    kd_graph_for(call->lg.g, d->be);
    kd_grad(call->lg.g, call->lg.loss, kd_const(call->lg.g, "mean", KD_SHAPE(call->n), mean), wrt, n, dw);
    code = kd_graph_error(call->lg.g, err);
    if (call->x) call->grad_x = dw[n - 1];
    n = 0;
    for (int i = 0; i < ps->n; i++)
        if (!(ps->p[i].tags & KD_TAG_BUFFER) && call->lg.net.leaf[i]) call->grad[i] = dw[n++];
done:
    free(wrt);
    free(mean);
    return code;
}

static int make_program(kd_call *call, const kd_denoiser *d, kd_err *err)
{
    const kd_params *ps = d->ps;
    kd_val *const maybe[] = { call->inner, call->denoised, call->logvar, call->vjp, call->whole, call->grad_x, call->lg.loss };
    enum { MAYBE = sizeof maybe / sizeof *maybe };
    kd_val **outs = malloc((size_t)(ps->n + MAYBE) * sizeof *outs);
    if (!outs) return kd_fail_memory(err, "the denoiser's program");
    int n = 0;
    for (int i = 0; i < MAYBE; i++)
        if (maybe[i]) outs[n++] = maybe[i];
    for (int i = 0; call->grad && i < ps->n; i++)
        if (call->grad[i]) outs[n++] = call->grad[i];
    for (int i = 0; i < ps->n; i++)
        if (call->lg.net.leaf[i]) kd_bind(call->lg.net.leaf[i], d->w + ps->p[i].offset);
    kd_graph *g = call->lg.g;
    call->lg.g = NULL;                 // the program's from here, or gone
    const int code = kd_program_new(&call->p, g, d->be, outs, n, err);
    free(outs);
    return code;
}

static int call_make(kd_call *call, const kd_denoiser *d, kd_err *err)
{
    KD_TRY(call->kind->build(call, d, err));
    return make_program(call, d, err);
}

int kd_call_of(kd_call **out, kd_denoiser *d, const kd_call_kind *kind, int64_t n, const kd_cond *cond, kd_err *err)
{
    const int64_t len = d->c->cross_cond_dim && cond ? cond->cross_len : 0;
    kd_call *oldest = d->call;
    for (kd_call *call = d->call; call < d->call + KD_CALLS_KEPT; call++) {
        if (call->used && call->kind == kind && call->n == n && call->cross_len == len) {
            call->used = ++d->clock;
            *out = call;
            return 0;
        }
        if (call->used < oldest->used) oldest = call;
    }
    if (d->c->cross_cond_dim && (!cond || !cond->cross_cond || len < 1))
        return kd_fail(err, KD_EUSAGE, "the model attends to a sequence of conditions: cross_cond is missing");
    call_free(oldest);
    oldest->kind = kind, oldest->n = n, oldest->cross_len = len, oldest->used = ++d->clock;
    const int code = call_make(oldest, d, err);
    if (code) call_free(oldest);
    else *out = oldest;
    return code;
}

int kd_denoiser_plan(kd_denoiser *d, int64_t n, const kd_cond *cond, kd_err *err)
{
    kd_call *call;
    return kd_call_of(&call, d, &kd_call_denoise, n, cond, err);
}

// Inputs -----------------------------------------------------------------------------------------------------------

int kd_denoiser_rows(kd_denoiser *d, int64_t room, kd_err *err)
{
    if (room <= d->rows_room) return 0;
    float *rows = kd_realloc(d->rows, (size_t)room * sizeof *rows);
    if (!rows) return kd_fail_memory(err, "the denoiser's inputs");
    d->rows = rows, d->rows_room = room;
    return 0;
}

static int set_class(const kd_denoiser *d, const kd_call *call, const int64_t *class_cond, kd_err *err)
{
    const kd_config *c = d->c;
    const int64_t classes = c->classes, last = c->no_class ? classes : classes - 1;
    if (!class_cond) return kd_fail(err, KD_EUSAGE, "the model has %lld classes: class_cond is missing", (long long)classes);
    for (int64_t i = 0; i < call->n; i++) {
        if (class_cond[i] >= 0 && class_cond[i] <= last) continue;
        char none[48] = "";
        if (c->no_class) snprintf(none, sizeof none, ", or %lld for none", (long long)classes);
        return kd_fail(err, KD_EUSAGE, "class_cond: image %lld: expected a class 0 to %lld%s, got %lld", (long long)i,
                       (long long)classes - 1, none, (long long)class_cond[i]);
    }
    return kd_program_set(call->p, call->lg.in.class_cond, class_cond, err);
}

// Sets a condition, to zeros if it is absent.
static int set_or_zero(kd_denoiser *d, const kd_call *call, kd_val *input, const float *values, kd_err *err)
{
    if (!input) return 0;
    if (!values) {
        KD_TRY(kd_denoiser_rows(d, kd_count(input), err));
        memset(d->rows, 0, (size_t)kd_count(input) * sizeof *d->rows);
    }
    return kd_program_set(call->p, input, values ? values : d->rows, err);
}

int kd_call_set_conditions(kd_denoiser *d, const kd_call *call, const kd_cond *cond, kd_err *err)
{
    const kd_config *c = d->c;
    const kd_net_in *in = &call->lg.in;
    const kd_cond none = { 0 };
    if (!cond) cond = &none;
    if (in->class_cond) KD_TRY(set_class(d, call, cond->class_cond, err));
    if (in->mapping_cond && !cond->mapping_cond)
        return kd_fail(err, KD_EUSAGE, "the model has a condition of %lld numbers: mapping_cond is missing",
                       (long long)c->mapping_cond_dim);
    if (in->unet_cond && !cond->unet_cond)
        return kd_fail(err, KD_EUSAGE, "the model has a condition of %lld channels: unet_cond is missing",
                       (long long)c->unet_cond_dim);
    if (in->mapping_cond) KD_TRY(kd_program_set(call->p, in->mapping_cond, cond->mapping_cond, err));
    if (in->unet_cond) KD_TRY(kd_program_set(call->p, in->unet_cond, cond->unet_cond, err));
    if (in->cross_cond) KD_TRY(kd_program_set(call->p, in->cross_cond, cond->cross_cond, err));
    KD_TRY(set_or_zero(d, call, in->cross_padding, cond->cross_padding, err));
    return set_or_zero(d, call, in->aug_cond, cond->aug_cond, err);
}

int kd_call_get_gradient(const kd_call *call, const kd_params *ps, float *grad, kd_err *err)
{
    memset(grad, 0, (size_t)ps->total * sizeof *grad);
    for (int i = 0; i < ps->n; i++)
        if (call->grad[i]) KD_TRY(kd_program_get(call->p, call->grad[i], grad + ps->p[i].offset, err));
    return 0;
}
