// The denoiser on a backend: weights uploaded once, and for each kind of call and number of images a program, planned when
// first met; the latest few are kept.
#include "diffusion/denoiser.h"
#include "diffusion/toy.h"
#include "base/memory.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 4 };                     // programs: a batch, the last and smaller one, and another kind of either
typedef enum { DENOISE, VJP, LOSS, GRADIENT } kind;

// The programs of DENOISE and VJP: D = c_out F(c_in x) + c_skip x. LOSS and GRADIENT have a kd_loss_graph.
typedef struct plan {
    kind kind; int64_t n;
    uint64_t used;                     // when last; 0: the place is free
    kd_program *p;
    kd_loss_graph lg;                  // its conditions and leaves serve all kinds
    kd_val *x, *c_in, *c_out, *c_skip; // inputs
    kd_val *inner, *denoised, *v, *vjp;
    kd_val **grad;                     // [params->n], NULL for buffers
} plan;

struct kd_denoiser {
    const kd_model *m;
    kd_backend *be;
    float *w;                          // on the backend
    plan plan[KEPT];
    uint64_t clock;
    float *rows;                       // host: row factors and zeros for an absent aug_cond, [9 n]
    int64_t rows_n;
};

int kd_denoiser_new(kd_denoiser **out, const kd_model *m, kd_backend *be, kd_err *err)
{
    kd_denoiser *d = calloc(1, sizeof *d);
    if (!d) return kd_fail_memory(err, "the denoiser");
    d->m = m, d->be = be;
    const size_t bytes = (size_t)m->params->total * sizeof(float);
    int code = be->alloc(be, (void **)&d->w, bytes, err);
    if (!code) code = be->upload(be, d->w, m->w, bytes, err);
    if (code) kd_denoiser_free(d);
    else *out = d;
    return code;
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
    if (d->w) d->be->free(d->be, d->w);
    free(d->rows);
    free(d);
}

const kd_model *kd_denoiser_model(const kd_denoiser *d) { return d->m; }

int64_t kd_denoiser_bytes(const kd_denoiser *d)
{
    int64_t bytes = d->m->params->total * (int64_t)sizeof(float);
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

static int build_denoised(plan *pl, const kd_denoiser *d, kd_err *err)
{
    const kd_config *c = d->m->config;
    const kd_shape image = KD_SHAPE(pl->n, c->size[0], c->size[1], c->channels), each = KD_SHAPE(pl->n);
    kd_loss_graph *lg = &pl->lg;
    kd_graph *g = lg->g = kd_graph_new();
    lg->net = (kd_net){ .g = g, .params = d->m->params, .leaf = calloc((size_t)d->m->params->n, sizeof(kd_val *)) };
    if (!g || !lg->net.leaf) return kd_fail_memory(err, "the denoiser's graph");
    pl->x = kd_input(g, "x", KD_F32, image);
    pl->c_in = kd_input(g, "c_in", KD_F32, each);
    pl->c_out = kd_input(g, "c_out", KD_F32, each);
    pl->c_skip = kd_input(g, "c_skip", KD_F32, each);
    lg->c_noise = kd_input(g, "c_noise", KD_F32, KD_SHAPE(pl->n, 1));
    lg->aug_cond = kd_input(g, "aug_cond", KD_F32, KD_SHAPE(pl->n, 9));
    if (c->classes) lg->class_cond = kd_input(g, "class_cond", KD_I64, each);
    if (c->mapping_cond_dim) lg->mapping_cond = kd_input(g, "mapping_cond", KD_F32, KD_SHAPE(pl->n, c->mapping_cond_dim));

    const kd_net_in in = { .x = kd_row_mix(g, pl->x, pl->c_in, NULL, NULL), .c_noise = lg->c_noise, .class_cond = lg->class_cond,
                           .aug_cond = lg->aug_cond, .mapping_cond = lg->mapping_cond };
    pl->inner = kd_net_forward(&lg->net, c, &in);
    pl->denoised = kd_row_mix(g, pl->inner, pl->c_out, pl->x, pl->c_skip);
    KD_TRY(kd_graph_error(g, err));
    if (pl->kind == VJP) {
        pl->v = kd_input(g, "v", KD_F32, image);
        kd_grad(g, pl->denoised, pl->v, &pl->x, 1, &pl->vjp);
    }
    return kd_graph_error(g, err);
}

// Appends the gradient of the mean loss.
static int build_gradient(plan *pl, const kd_denoiser *d, kd_err *err)
{
    const kd_params *ps = d->m->params;
    kd_val **wrt = calloc((size_t)(2 * ps->n), sizeof *wrt), **dw = wrt + ps->n;
    float *mean = malloc((size_t)pl->n * sizeof *mean);
    pl->grad = calloc((size_t)ps->n, sizeof *pl->grad);
    int code = !wrt || !mean || !pl->grad ? kd_fail_memory(err, "the gradient's graph") : 0, n = 0;
    if (code) goto done;
    for (int64_t i = 0; i < pl->n; i++) mean[i] = 1 / (float)pl->n;
    for (int i = 0; i < ps->n; i++)
        if (!(ps->p[i].tags & KD_TAG_BUFFER) && pl->lg.net.leaf[i]) wrt[n++] = pl->lg.net.leaf[i];
    kd_grad(pl->lg.g, pl->lg.loss, kd_const(pl->lg.g, "mean", KD_SHAPE(pl->n), mean), wrt, n, dw);
    code = kd_graph_error(pl->lg.g, err);
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
    kd_val **outs = malloc((size_t)(ps->n + 3) * sizeof *outs);
    if (!outs) return kd_fail_memory(err, "the denoiser's program");
    int n = 0;
    if (pl->denoised) outs[n++] = pl->inner, outs[n++] = pl->denoised;
    if (pl->vjp) outs[n++] = pl->vjp;
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
    if (pl->kind == DENOISE || pl->kind == VJP) KD_TRY(build_denoised(pl, d, err));
    else KD_TRY(kd_loss_graph_new(&pl->lg, d->m->config, d->m->params, pl->n, false, false, err));
    if (pl->kind == GRADIENT) KD_TRY(build_gradient(pl, d, err));
    return make_program(pl, d, err);
}

// The program of a kind of call for n images, from the table or in place of the one unused for longest.
static int plan_of(kd_denoiser *d, kind k, int64_t n, plan **out, kd_err *err)
{
    plan *oldest = d->plan;
    for (plan *pl = d->plan; pl < d->plan + KEPT; pl++) {
        if (pl->used && pl->kind == k && pl->n == n) {
            pl->used = ++d->clock;
            *out = pl;
            return 0;
        }
        if (pl->used < oldest->used) oldest = pl;
    }
    plan_free(oldest);
    oldest->kind = k, oldest->n = n, oldest->used = ++d->clock;
    const int code = plan_make(oldest, d, err);
    if (code) plan_free(oldest);
    else *out = oldest;
    return code;
}

// Inputs -----------------------------------------------------------------------------------------------------------

static int host_rows(kd_denoiser *d, int64_t n, kd_err *err)
{
    if (n <= d->rows_n) return 0;
    float *rows = kd_realloc(d->rows, (size_t)(9 * n) * sizeof *rows);
    if (!rows) return kd_fail_memory(err, "the denoiser's inputs");
    d->rows = rows, d->rows_n = n;
    return 0;
}

static int set_class(const kd_denoiser *d, const plan *pl, const int64_t *class_cond, kd_err *err)
{
    const int64_t classes = d->m->config->classes;
    if (!class_cond) return kd_fail(err, KD_EUSAGE, "the model has %lld classes: class_cond is missing", (long long)classes);
    for (int64_t i = 0; i < pl->n; i++)
        if (class_cond[i] < 0 || class_cond[i] > classes)
            return kd_fail(err, KD_EUSAGE, "class_cond: image %lld: expected a class 0 to %lld, or %lld for none, got %lld",
                           (long long)i, (long long)classes - 1, (long long)classes, (long long)class_cond[i]);
    return kd_program_set(pl->p, pl->lg.class_cond, class_cond, err);
}

static int set_conditions(kd_denoiser *d, const plan *pl, const kd_cond *cond, kd_err *err)
{
    const kd_cond none = { 0 };
    if (!cond) cond = &none;
    KD_TRY(host_rows(d, pl->n, err));
    if (pl->lg.class_cond) KD_TRY(set_class(d, pl, cond->class_cond, err));
    if (pl->lg.mapping_cond && !cond->mapping_cond)
        return kd_fail(err, KD_EUSAGE, "the model has a condition of %lld numbers: mapping_cond is missing",
                       (long long)d->m->config->mapping_cond_dim);
    if (pl->lg.mapping_cond) KD_TRY(kd_program_set(pl->p, pl->lg.mapping_cond, cond->mapping_cond, err));
    if (!cond->aug_cond) memset(d->rows, 0, (size_t)(9 * pl->n) * sizeof *d->rows);
    return kd_program_set(pl->p, pl->lg.aug_cond, cond->aug_cond ? cond->aug_cond : d->rows, err);
}

static int set_factors(kd_denoiser *d, const plan *pl, const float *sigma, kd_err *err)
{
    const int64_t n = pl->n;
    KD_TRY(host_rows(d, n, err));
    float *r = d->rows;
    for (int64_t i = 0; i < n; i++) {
        assert(sigma[i] > 0);
        const kd_precond c = kd_precond_of(sigma[i], d->m->config->sigma_data);
        r[i] = c.c_in, r[n + i] = c.c_out, r[2 * n + i] = c.c_skip, r[3 * n + i] = c.c_noise;
    }
    KD_TRY(kd_program_set(pl->p, pl->c_in, r, err));
    KD_TRY(kd_program_set(pl->p, pl->c_out, r + n, err));
    KD_TRY(kd_program_set(pl->p, pl->c_skip, r + 2 * n, err));
    return kd_program_set(pl->p, pl->lg.c_noise, r + 3 * n, err);
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

static const kd_run quiet = { 0 };     // nothing random is left in these graphs

static int run_denoised(kd_denoiser *d, plan *pl, const float *x, const float *sigma, const kd_cond *cond, kd_err *err)
{
    KD_TRY(kd_program_ready(pl->p, err));
    KD_TRY(set_conditions(d, pl, cond, err));
    KD_TRY(set_factors(d, pl, sigma, err));
    KD_TRY(kd_program_set(pl->p, pl->x, x, err));
    return kd_program_run(pl->p, &quiet, err);
}

int kd_denoise(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond,
               float *inner, float *denoised, kd_err *err)
{
    plan *pl;
    if (is_toy(d)) return toy_call(d, n, x, sigma, inner, denoised, err);
    KD_TRY(plan_of(d, DENOISE, n, &pl, err));
    KD_TRY(run_denoised(d, pl, x, sigma, cond, err));
    if (inner) KD_TRY(kd_program_get(pl->p, pl->inner, inner, err));
    if (denoised) KD_TRY(kd_program_get(pl->p, pl->denoised, denoised, err));
    return 0;
}

int kd_denoise_vjp(kd_denoiser *d, int64_t n, const float *x, const float *sigma, const kd_cond *cond, const float *v,
                   float *denoised, float *vjp, kd_err *err)
{
    plan *pl;
    if (is_toy(d)) return kd_toy_denoise(d->m, n, x, sigma, v, denoised, vjp, err);
    KD_TRY(plan_of(d, VJP, n, &pl, err));
    KD_TRY(kd_program_ready(pl->p, err));
    KD_TRY(kd_program_set(pl->p, pl->v, v, err));
    KD_TRY(run_denoised(d, pl, x, sigma, cond, err));
    if (denoised) KD_TRY(kd_program_get(pl->p, pl->denoised, denoised, err));
    return kd_program_get(pl->p, pl->vjp, vjp, err);
}

int kd_denoiser_loss(kd_denoiser *d, int64_t n, const float *x0, const float *noise, const float *sigma,
                     const kd_cond *cond, float *loss, float *grad, kd_err *err)
{
    const kd_params *ps = d->m->params;
    plan *pl;
    if (is_toy(d)) return kd_fail(err, KD_EUSAGE, "a toy_mixture is not trained: it has no loss");
    KD_TRY(plan_of(d, grad ? GRADIENT : LOSS, n, &pl, err));
    KD_TRY(kd_program_ready(pl->p, err));
    KD_TRY(set_conditions(d, pl, cond, err));
    KD_TRY(kd_loss_graph_set_sigma(&pl->lg, pl->p, d->m->config, sigma, n, err));
    KD_TRY(kd_program_set(pl->p, pl->lg.x0, x0, err));
    KD_TRY(kd_program_set(pl->p, pl->lg.noise, noise, err));
    KD_TRY(kd_program_run(pl->p, &quiet, err));
    KD_TRY(kd_program_get(pl->p, pl->lg.loss, loss, err));
    if (grad) memset(grad, 0, (size_t)ps->total * sizeof *grad);
    for (int i = 0; grad && i < ps->n; i++)
        if (pl->grad[i]) KD_TRY(kd_program_get(pl->p, pl->grad[i], grad + ps->p[i].offset, err));
    return 0;
}
