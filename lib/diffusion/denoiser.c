// The denoiser on a backend: weights uploaded once, and for each kind of call and number of images a program, planned when
// first met; the latest few are kept.
#include "diffusion/denoiser.h"
#include "diffusion/toy.h"
#include "base/memory.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 4 };                     // programs: a batch, the last and smaller one, and another kind of either
typedef enum { DENOISE, VJP, LOSS, GRADIENT, CALL, CALL_GRADIENT } kind;       // the last two: of the network itself

// The programs of DENOISE and VJP: D = c_out F(c_in x) + c_skip x. LOSS and GRADIENT have a kd_loss_graph. CALL: the network,
// whose mean squared distance from a target and its gradients CALL_GRADIENT has too.
typedef struct plan {
    kind kind; int64_t n, cross_len;
    uint64_t used;                     // when last; 0: the place is free
    kd_program *p;
    kd_loss_graph lg;                  // its conditions and leaves serve all kinds
    kd_val *x, *c_in, *c_out, *c_skip; // inputs
    kd_val *inner, *logvar, *denoised, *v, *vjp;
    kd_val *whole, *target, *grad_x;
    kd_val **grad;                     // [params->n], NULL for buffers
} plan;

struct kd_denoiser {
    const kd_model *m;
    kd_backend *be;
    float *w;                          // on the backend
    plan plan[KEPT];
    uint64_t clock;
    float *rows;                       // host: row factors and zeros for an absent condition
    int64_t rows_room;
};

int kd_denoiser_new(kd_denoiser **out, const kd_model *m, kd_backend *be, kd_err *err)
{
    kd_denoiser *d = calloc(1, sizeof *d);
    if (!d) return kd_fail_memory(err, "the denoiser");
    d->m = m, d->be = be;
    if (kd_backend_lend(be, m->w, (size_t)m->params->total * sizeof(float), (void **)&d->w, err)) kd_denoiser_free(d);
    else *out = d;
    return err->code;
}

static void plan_free(plan *pl)
{
    kd_program_free(pl->p);
    if (pl->lg.g) kd_graph_free(pl->lg.g);           // not yet the program's
    kd_loss_graph_free(&pl->lg);
    free(pl->grad);
    *pl = (plan){ 0 };
}

void kd_denoiser_free(kd_denoiser *d)
{
    if (!d) return;
    for (int i = 0; i < KEPT; i++) plan_free(&d->plan[i]);
    kd_backend_return(d->be, d->w);
    free(d->rows);
    free(d);
}

const kd_model *kd_denoiser_model(const kd_denoiser *d) { return d->m; }

int64_t kd_denoiser_bytes(const kd_denoiser *d)
{
    int64_t bytes = d->be->host ? 0 : d->m->params->total * (int64_t)sizeof(float);
    for (int i = 0; i < KEPT; i++)
        if (d->plan[i].p) bytes += kd_program_bytes(d->plan[i].p);
    return bytes;
}

double kd_denoiser_flops(const kd_denoiser *d)
{
    const plan *latest = &d->plan[0];
    for (int i = 1; i < KEPT; i++)
        if (d->plan[i].used > latest->used) latest = &d->plan[i];
    return latest->p ? kd_program_flops(latest->p) : 0;
}

// Planning ---------------------------------------------------------------------------------------------------------

static int begin_graph(plan *pl, const kd_denoiser *d, kd_err *err)
{
    const kd_config *c = d->m->config;
    kd_loss_graph *lg = &pl->lg;
    kd_graph *g = lg->g = kd_graph_new();
    lg->net = (kd_net){ .g = g, .params = d->m->params, .leaf = calloc((size_t)d->m->params->n, sizeof(kd_val *)) };
    if (!g || !lg->net.leaf) return kd_fail_memory(err, "the denoiser's graph");
    lg->in = kd_net_conditions(g, c, pl->n, pl->cross_len);
    pl->x = kd_input(g, "x", KD_F32, KD_SHAPE(pl->n, c->size[0], c->size[1], c->channels));
    return kd_graph_error(g, err);
}

static int build_denoised(plan *pl, const kd_denoiser *d, kd_err *err)
{
    KD_TRY(begin_graph(pl, d, err));
    kd_loss_graph *lg = &pl->lg;
    kd_graph *g = lg->g;
    pl->c_in = kd_input(g, "c_in", KD_F32, KD_SHAPE(pl->n));
    pl->c_out = kd_input(g, "c_out", KD_F32, KD_SHAPE(pl->n));
    pl->c_skip = kd_input(g, "c_skip", KD_F32, KD_SHAPE(pl->n));
    lg->in.x = kd_row_mix(g, pl->x, pl->c_in, NULL, NULL);
    const kd_net_out out = kd_net_forward(&lg->net, d->m->config, &lg->in);
    pl->inner = out.f, pl->logvar = out.logvar;
    pl->denoised = kd_row_mix(g, pl->inner, pl->c_out, pl->x, pl->c_skip);
    KD_TRY(kd_graph_error(g, err));
    if (pl->kind == VJP) {
        pl->v = kd_input(g, "v", KD_F32, pl->x->shape);
        kd_grad(g, pl->denoised, pl->v, &pl->x, 1, &pl->vjp);
    }
    return kd_graph_error(g, err);
}

static int build_call(plan *pl, const kd_denoiser *d, kd_err *err)
{
    KD_TRY(begin_graph(pl, d, err));
    kd_loss_graph *lg = &pl->lg;
    lg->in.x = pl->x;
    pl->whole = kd_net_forward(&lg->net, d->m->config, &lg->in).whole;
    KD_TRY(kd_graph_error(lg->g, err));
    if (pl->kind == CALL) return 0;
    pl->target = kd_input(lg->g, "target", KD_F32, pl->whole->shape);
    lg->weight = kd_input(lg->g, "weight", KD_F32, KD_SHAPE(pl->n));
    lg->loss = kd_mse(lg->g, pl->whole, pl->target, lg->weight, NULL);
    return kd_graph_error(lg->g, err);
}

// Appends the gradient of the mean loss with respect to the parameters, and of the network's call to x too.
static int build_gradient(plan *pl, const kd_denoiser *d, kd_err *err)
{
    const kd_params *ps = d->m->params;
    kd_val **wrt = calloc((size_t)(2 * ps->n + 2), sizeof *wrt), **dw = wrt + ps->n + 1;
    float *mean = malloc((size_t)pl->n * sizeof *mean);
    pl->grad = calloc((size_t)ps->n, sizeof *pl->grad);
    int code = !wrt || !mean || !pl->grad ? kd_fail_memory(err, "the gradient's graph") : 0, n = 0;
    if (code) goto done;
    for (int64_t i = 0; i < pl->n; i++) mean[i] = 1 / (float)pl->n;
    for (int i = 0; i < ps->n; i++)
        if (!(ps->p[i].tags & KD_TAG_BUFFER) && pl->lg.net.leaf[i]) wrt[n++] = pl->lg.net.leaf[i];
    if (pl->kind == CALL_GRADIENT) wrt[n++] = pl->x;
    kd_grad(pl->lg.g, pl->lg.loss, kd_const(pl->lg.g, "mean", KD_SHAPE(pl->n), mean), wrt, n, dw);
    code = kd_graph_error(pl->lg.g, err);
    if (pl->kind == CALL_GRADIENT) pl->grad_x = dw[n - 1];
    n = 0;
    for (int i = 0; i < ps->n; i++)
        if (!(ps->p[i].tags & KD_TAG_BUFFER) && pl->lg.net.leaf[i]) pl->grad[i] = dw[n++];
done:
    free(wrt);
    free(mean);
    return code;
}

static int make_program(plan *pl, const kd_denoiser *d, kd_err *err)
{
    const kd_params *ps = d->m->params;
    kd_val **outs = malloc((size_t)(ps->n + 5) * sizeof *outs);
    if (!outs) return kd_fail_memory(err, "the denoiser's program");
    int n = 0;
    if (pl->denoised) outs[n++] = pl->inner, outs[n++] = pl->denoised;
    if (pl->logvar) outs[n++] = pl->logvar;
    if (pl->vjp) outs[n++] = pl->vjp;
    if (pl->whole) outs[n++] = pl->whole;
    if (pl->grad_x) outs[n++] = pl->grad_x;
    if (pl->lg.loss) outs[n++] = pl->lg.loss;
    for (int i = 0; pl->grad && i < ps->n; i++)
        if (pl->grad[i]) outs[n++] = pl->grad[i];
    for (int i = 0; i < ps->n; i++)
        if (pl->lg.net.leaf[i]) kd_bind(pl->lg.net.leaf[i], d->w + ps->p[i].offset);
    kd_graph *g = pl->lg.g;
    pl->lg.g = NULL;                   // the program's from here, or gone
    const int code = kd_program_new(&pl->p, g, d->be, outs, n, err);
    free(outs);
    return code;
}

static int plan_make(plan *pl, const kd_denoiser *d, kd_err *err)
{
    switch (pl->kind) {
    case DENOISE: case VJP:
        KD_TRY(build_denoised(pl, d, err));
        break;
    case LOSS: case GRADIENT:
        KD_TRY(kd_loss_graph_new(&pl->lg, d->m->config, d->m->params, pl->n, pl->cross_len, false, false, err));
        break;
    case CALL: case CALL_GRADIENT:
        KD_TRY(build_call(pl, d, err));
        break;
    }
    if (pl->kind == GRADIENT || pl->kind == CALL_GRADIENT) KD_TRY(build_gradient(pl, d, err));
    return make_program(pl, d, err);
}

// The program of a kind of call for n images, from the table or in place of the one unused for longest.
static int plan_of(kd_denoiser *d, kind k, int64_t n, const kd_cond *cond, plan **out, kd_err *err)
{
    const int64_t len = d->m->config->cross_cond_dim && cond ? cond->cross_len : 0;
    plan *oldest = d->plan;
    for (plan *pl = d->plan; pl < d->plan + KEPT; pl++) {
        if (pl->used && pl->kind == k && pl->n == n && pl->cross_len == len) {
            pl->used = ++d->clock;
            *out = pl;
            return 0;
        }
        if (pl->used < oldest->used) oldest = pl;
    }
    plan_free(oldest);
    if (d->m->config->cross_cond_dim && (!cond || !cond->cross_cond || len < 1))
        return kd_fail(err, KD_EUSAGE, "the model attends to a sequence of conditions: cross_cond is missing");
    oldest->kind = k, oldest->n = n, oldest->cross_len = len, oldest->used = ++d->clock;
    const int code = plan_make(oldest, d, err);
    if (code) plan_free(oldest);
    else *out = oldest;
    return code;
}

int kd_denoiser_plan(kd_denoiser *d, int64_t n, const kd_cond *cond, kd_err *err)
{
    plan *pl;
    return plan_of(d, DENOISE, n, cond, &pl, err);
}

// Inputs -----------------------------------------------------------------------------------------------------------

static int host_rows(kd_denoiser *d, int64_t room, kd_err *err)
{
    if (room <= d->rows_room) return 0;
    float *rows = kd_realloc(d->rows, (size_t)room * sizeof *rows);
    if (!rows) return kd_fail_memory(err, "the denoiser's inputs");
    d->rows = rows, d->rows_room = room;
    return 0;
}

static int set_class(const kd_denoiser *d, const plan *pl, const int64_t *class_cond, kd_err *err)
{
    const kd_config *c = d->m->config;
    const int64_t classes = c->classes, last = c->no_class ? classes : classes - 1;
    if (!class_cond) return kd_fail(err, KD_EUSAGE, "the model has %lld classes: class_cond is missing", (long long)classes);
    for (int64_t i = 0; i < pl->n; i++) {
        if (class_cond[i] >= 0 && class_cond[i] <= last) continue;
        char none[48] = "";
        if (c->no_class) snprintf(none, sizeof none, ", or %lld for none", (long long)classes);
        return kd_fail(err, KD_EUSAGE, "class_cond: image %lld: expected a class 0 to %lld%s, got %lld", (long long)i,
                       (long long)classes - 1, none, (long long)class_cond[i]);
    }
    return kd_program_set(pl->p, pl->lg.in.class_cond, class_cond, err);
}

// Sets a condition, to zeros if it is absent.
static int set_or_zero(kd_denoiser *d, const plan *pl, kd_val *input, const float *values, kd_err *err)
{
    if (!input) return 0;
    if (!values) {
        KD_TRY(host_rows(d, kd_count(input), err));
        memset(d->rows, 0, (size_t)kd_count(input) * sizeof *d->rows);
    }
    return kd_program_set(pl->p, input, values ? values : d->rows, err);
}

static int set_conditions(kd_denoiser *d, const plan *pl, const kd_cond *cond, kd_err *err)
{
    const kd_config *c = d->m->config;
    const kd_net_in *in = &pl->lg.in;
    const kd_cond none = { 0 };
    if (!cond) cond = &none;
    if (in->class_cond) KD_TRY(set_class(d, pl, cond->class_cond, err));
    if (in->mapping_cond && !cond->mapping_cond)
        return kd_fail(err, KD_EUSAGE, "the model has a condition of %lld numbers: mapping_cond is missing",
                       (long long)c->mapping_cond_dim);
    if (in->unet_cond && !cond->unet_cond)
        return kd_fail(err, KD_EUSAGE, "the model has a condition of %lld channels: unet_cond is missing",
                       (long long)c->unet_cond_dim);
    if (in->mapping_cond) KD_TRY(kd_program_set(pl->p, in->mapping_cond, cond->mapping_cond, err));
    if (in->unet_cond) KD_TRY(kd_program_set(pl->p, in->unet_cond, cond->unet_cond, err));
    if (in->cross_cond) KD_TRY(kd_program_set(pl->p, in->cross_cond, cond->cross_cond, err));
    KD_TRY(set_or_zero(d, pl, in->cross_padding, cond->cross_padding, err));
    return set_or_zero(d, pl, in->aug_cond, cond->aug_cond, err);
}

static int set_factors(kd_denoiser *d, const plan *pl, const float *sigma, kd_err *err)
{
    const int64_t n = pl->n;
    KD_TRY(host_rows(d, 4 * n, err));
    float *r = d->rows;
    for (int64_t i = 0; i < n; i++) {
        assert(sigma[i] > 0);
        const kd_precond c = kd_precond_at(d->m->config, sigma[i]);
        r[i] = c.c_in, r[n + i] = c.c_out, r[2 * n + i] = c.c_skip, r[3 * n + i] = c.c_noise;
    }
    KD_TRY(kd_program_set(pl->p, pl->c_in, r, err));
    KD_TRY(kd_program_set(pl->p, pl->c_out, r + n, err));
    KD_TRY(kd_program_set(pl->p, pl->c_skip, r + 2 * n, err));
    return kd_program_set(pl->p, pl->lg.in.c_noise, r + 3 * n, err);
}

// Calls ------------------------------------------------------------------------------------------------------------

// A toy_mixture's denoised images are known; its F is what a network would have to give.
static bool is_toy(const kd_denoiser *d) { return d->m->config->type == KD_MODEL_TOY_MIXTURE; }

static int toy_call(const kd_denoiser *d, int64_t n, const float *x, const float *sigma, float *inner, float *denoised, kd_err *err)
{
    const kd_config *c = d->m->config;
    const int64_t size = c->size[0] * c->size[1] * c->channels;
    float *D = denoised ? denoised : inner;
    KD_TRY(kd_toy_denoise(d->m, n, x, sigma, NULL, D, NULL, err));
    for (int64_t i = 0; inner && i < n * size; i++) {
        const kd_precond p = kd_precond_of(sigma[i / size], c->sigma_data);
        inner[i] = (D[i] - p.c_skip * x[i]) / p.c_out;
    }
    return 0;
}

static int run_denoised(kd_denoiser *d, plan *pl, const float *x, const float *sigma, const kd_cond *cond, kd_err *err)
{
    KD_TRY(kd_program_ready(pl->p, err));
    KD_TRY(set_conditions(d, pl, cond, err));
    KD_TRY(set_factors(d, pl, sigma, err));
    KD_TRY(kd_program_set(pl->p, pl->x, x, err));
    return kd_program_run(pl->p, err);
}

int kd_denoise(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond,
               float *inner, float *denoised, kd_err *err)
{
    return kd_denoise_variance(d, n, x, sigma, cond, inner, denoised, NULL, err);
}

int kd_denoise_variance(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond,
                        float *inner, float *denoised, float *logvar, kd_err *err)
{
    plan *pl;
    if (is_toy(d)) return toy_call(d, n, x, sigma, inner, denoised, err);
    KD_TRY(plan_of(d, DENOISE, n, cond, &pl, err));
    KD_TRY(run_denoised(d, pl, x, sigma, cond, err));
    if (inner) KD_TRY(kd_program_get(pl->p, pl->inner, inner, err));
    if (denoised) KD_TRY(kd_program_get(pl->p, pl->denoised, denoised, err));
    if (logvar && pl->logvar) KD_TRY(kd_program_get(pl->p, pl->logvar, logvar, err));
    return 0;
}

int kd_denoise_vjp(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond, const float *v,
                   float *denoised, float *vjp, kd_err *err)
{
    plan *pl;
    if (is_toy(d)) return kd_toy_denoise(d->m, n, x, sigma, v, denoised, vjp, err);
    KD_TRY(plan_of(d, VJP, n, cond, &pl, err));
    KD_TRY(kd_program_ready(pl->p, err));
    KD_TRY(kd_program_set(pl->p, pl->v, v, err));
    KD_TRY(run_denoised(d, pl, x, sigma, cond, err));
    if (denoised) KD_TRY(kd_program_get(pl->p, pl->denoised, denoised, err));
    return kd_program_get(pl->p, pl->vjp, vjp, err);
}

// Into a flat array; zeros for what the loss does not depend on.
static int get_gradient(const plan *pl, const kd_params *ps, float *grad, kd_err *err)
{
    memset(grad, 0, (size_t)ps->total * sizeof *grad);
    for (int i = 0; i < ps->n; i++)
        if (pl->grad[i]) KD_TRY(kd_program_get(pl->p, pl->grad[i], grad + ps->p[i].offset, err));
    return 0;
}

int kd_denoiser_loss(kd_denoiser *d, int64_t n, const float *x0, const float *noise, const float *sigma,
                     const kd_cond *cond, float *loss, float *grad, kd_err *err)
{
    const kd_params *ps = d->m->params;
    plan *pl;
    if (is_toy(d)) return kd_fail(err, KD_EUSAGE, "a toy_mixture is not trained: it has no loss");
    KD_TRY(plan_of(d, grad ? GRADIENT : LOSS, n, cond, &pl, err));
    KD_TRY(kd_program_ready(pl->p, err));
    KD_TRY(set_conditions(d, pl, cond, err));
    KD_TRY(kd_loss_graph_set_sigma(&pl->lg, pl->p, d->m->config, sigma, n, err));
    KD_TRY(kd_program_set(pl->p, pl->lg.x0, x0, err));
    KD_TRY(kd_program_set(pl->p, pl->lg.noise, noise, err));
    KD_TRY(kd_program_run(pl->p, err));
    KD_TRY(kd_program_get(pl->p, pl->lg.loss, loss, err));
    return grad ? get_gradient(pl, ps, grad, err) : 0;
}

int64_t kd_denoiser_channels(const kd_config *c) { return c->learn_sigma ? 2 * c->channels : c->channels; }

int kd_network_call(kd_denoiser *d, int64_t n, const float *x, const float *told, const kd_cond *cond, float *whole,
                    kd_raw_loss *loss, kd_err *err)
{
    plan *pl;
    if (is_toy(d)) return kd_fail(err, KD_EUSAGE, "a toy_mixture has no network to call");
    KD_TRY(plan_of(d, loss ? CALL_GRADIENT : CALL, n, cond, &pl, err));
    KD_TRY(kd_program_ready(pl->p, err));
    KD_TRY(set_conditions(d, pl, cond, err));
    KD_TRY(host_rows(d, n, err));
    for (int64_t i = 0; i < n; i++) d->rows[i] = (float)kd_net_time(d->m->config, told[i]);
    KD_TRY(kd_program_set(pl->p, pl->lg.in.c_noise, d->rows, err));
    KD_TRY(kd_program_set(pl->p, pl->x, x, err));
    for (int64_t i = 0; i < n; i++) d->rows[i] = 1;
    if (loss) KD_TRY(kd_program_set(pl->p, pl->lg.weight, d->rows, err));
    if (loss) KD_TRY(kd_program_set(pl->p, pl->target, loss->target, err));
    KD_TRY(kd_program_run(pl->p, err));
    if (whole) KD_TRY(kd_program_get(pl->p, pl->whole, whole, err));
    if (!loss) return 0;
    KD_TRY(kd_program_get(pl->p, pl->lg.loss, d->rows, err));
    loss->loss = 0;
    for (int64_t i = 0; i < n; i++) loss->loss += d->rows[i] / (double)n;
    if (loss->grad_x) KD_TRY(kd_program_get(pl->p, pl->grad_x, loss->grad_x, err));
    return loss->grad ? get_gradient(pl, d->m->params, loss->grad, err) : 0;
}
