// The graph of the training loss: see denoiser.h for its formula.
#include "diffusion/denoiser.h"
#include "base/memory.h"
#include "base/random.h"
#include "op/random.h"
#include "op/unet.h"
#include <math.h>
#include <stdlib.h>

// f of loss_scales as a constant; NULL for one scale, where the plain mean of squares is the loss.
static int frequency_factors(kd_val **f, kd_graph *g, const kd_config *c, kd_err *err)
{
    *f = NULL;
    if (c->loss == KD_LOSS_SIMPLE || c->loss_scales <= 1) return 0;
    float *values = malloc((size_t)(c->size[0] * c->size[1]) * sizeof *values);
    if (!values) return kd_fail_memory(err, "the loss's frequency weights");
    kd_frequency_weights(values, c->size[0], c->size[1], c->loss_scales);
    *f = kd_const(g, "frequency_weights", KD_SHAPE(c->size[0], c->size[1]), values);
    free(values);
    return 0;
}

static kd_val *loss_of(kd_loss_graph *lg, const kd_net_out *out, kd_val *target, kd_val *f)
{
    kd_graph *g = lg->g;
    if (out->logvar)
        return kd_gauss_nll(g, out->f, target, out->logvar);
    kd_val *a = f ? kd_dct2(g, out->f, false) : out->f, *b = f ? kd_dct2(g, target, false) : target;
    kd_val *loss = kd_mse(g, a, b, lg->weight, f);
    if (!out->range || !lg->net.train)
        return loss;
    lg->bound = kd_input(g, "bound", KD_F32, KD_SHAPE(lg->x0->shape.d[0], KD_BOUND_FACTORS));
    return kd_add(g, loss, kd_bound(g, out->range, out->f, lg->noise, lg->x0, lg->bound));
}

// The images and their noise: what the caller gives, or in training 8-bit images (unless they are augmented) and normals.
static void make_images(kd_loss_graph *lg, const kd_config *c, kd_shape image)
{
    kd_graph *g = lg->g;
    if (!lg->net.train) {
        lg->x0 = kd_feed(g, "x0", KD_F32, image);
        lg->noise = kd_feed(g, "noise", KD_F32, image);
        return;
    }
    lg->net.index = lg->index = kd_input(g, "index", KD_I64, KD_SHAPE(image.d[0]));
    lg->net.rng = lg->rng = kd_input(g, "rng", KD_U64, KD_SHAPE(2));
    lg->pixels = c->augment_prob == 0 ? kd_input(g, "pixels", KD_U8, image) : NULL;
    lg->x0 = lg->pixels ? kd_pixels(g, lg->pixels) : kd_input(g, "x0", KD_F32, image);
    lg->noise = kd_normal(g, image, lg->index, lg->rng, (kd_draw_attr){ .purpose = KD_RNG_NOISE });
}

static int build(kd_loss_graph *lg, const kd_config *c, int64_t n, int64_t cross_len, kd_err *err)
{
    kd_graph *g = lg->g;
    const kd_shape image = KD_SHAPE(n, c->size[0], c->size[1], c->channels), each = KD_SHAPE(n);
    lg->in = kd_net_conditions(g, c, n, cross_len);
    lg->x_x0 = kd_input(g, "x_x0", KD_F32, each);
    lg->x_noise = kd_input(g, "x_noise", KD_F32, each);
    lg->t_x0 = kd_input(g, "t_x0", KD_F32, each);
    lg->t_noise = kd_input(g, "t_noise", KD_F32, each);
    lg->weight = kd_input(g, "weight", KD_F32, each);
    make_images(lg, c, image);
    KD_TRY(kd_graph_error(g, err));

    lg->in.x = kd_row_mix(g, lg->x0, lg->x_x0, lg->noise, lg->x_noise);
    const kd_net_out out = kd_net_forward(&lg->net, c, &lg->in);
    kd_val *target = kd_row_mix(g, lg->x0, lg->t_x0, lg->noise, lg->t_noise), *f;
    KD_TRY(kd_graph_error(g, err));
    KD_TRY(frequency_factors(&f, g, c, err));
    lg->loss = loss_of(lg, &out, target, f);
    return kd_graph_error(g, err);
}

int kd_loss_graph_new(kd_loss_graph *lg, const kd_config *c, kd_params *ps, int64_t n, int64_t cross_len, bool train,
                      bool checkpointing, kd_dtype compute, kd_err *err)
{
    *lg = (kd_loss_graph){ .g = kd_graph_new() };
    if (lg->g) kd_graph_compute(lg->g, compute);
    lg->net = (kd_net){ .g = lg->g, .params = ps, .train = train, .checkpointing = checkpointing,
                        .leaf = calloc((size_t)ps->n, sizeof(kd_val *)) };
    int code = !lg->g || !lg->net.leaf ? kd_fail_memory(err, "the loss's graph") : build(lg, c, n, cross_len, err);
    if (code) {
        kd_graph_free(lg->g);
        kd_loss_graph_free(lg);
    }
    return code;
}

void kd_loss_graph_free(kd_loss_graph *lg)
{
    free(lg->net.leaf);
    *lg = (kd_loss_graph){ 0 };
}

// What depends on the noise level ------------------------------------------------------------------------------------

/// Of one image, in the order of the inputs below.
typedef struct factors { float x_x0, x_noise, t_x0, t_noise, weight, c_noise; } factors;

static factors factors_of(const kd_config *c, double s)
{
    const bool karras = c->wrapper == KD_WRAP_KARRAS;
    const double d = karras ? c->sigma_data : 1, r = sqrt(s * s + d * d);
    factors f = { .x_x0 = (float)(1 / r), .x_noise = (float)(s / r), .weight = 1, .c_noise = kd_precond_at(c, s).c_noise };
    switch (c->wrapper) {
    case KD_WRAP_KARRAS:
        f.t_x0 = (float)(s / (d * r)), f.t_noise = (float)(-d / r);
        f.weight = (float)kd_loss_weight(c->loss == KD_LOSS_SIMPLE ? KD_WEIGHT_SNR : c->weighting, s, d);
        break;
    case KD_WRAP_V: case KD_WRAP_VD:
        f.t_x0 = (float)(-s / r), f.t_noise = (float)(1 / r);
        break;
    case KD_WRAP_EPS:
        f.t_x0 = 0, f.t_noise = 1;
        break;
    }
    return f;
}

/// Of the bound at step i (op.h, kd_bound). The posterior's variance is beta_i (1 - a_{i-1}) / (1 - a_i), 0 at the first
/// step: the second's stands for it. The log variance lies between its logarithm and that of beta_i. The mean's error is
/// m (eps - noise), m = beta_i sqrt(a_{i-1}) / (1 - a_i) sqrt(1/a_i - 1).
static void bound_of(float k[KD_BOUND_FACTORS], const kd_config *c, double sigma)
{
    const kd_steps *s = c->steps;
    const int64_t i = (int64_t)kd_steps_of(s, sigma, true), j = i ? i : 1;
    const double a = s->alpha[i], before = i ? s->alpha[i - 1] : 1;
    const double low = log(s->beta[j] * (1 - s->alpha[j - 1]) / (1 - s->alpha[j])), high = log(s->beta[i]);
    k[KD_BOUND_MID] = (float)((high + low) / 2);
    k[KD_BOUND_HALF] = (float)((high - low) / 2);
    k[KD_BOUND_TRUE] = (float)low;
    k[KD_BOUND_MEAN] = (float)(s->beta[i] * sqrt(before) / (1 - a) * sqrt(1 / a - 1));
    k[KD_BOUND_FIRST] = i == 0;
    k[KD_BOUND_WEIGHT] = c->rescale_learned_sigmas ? (float)((double)s->n / 1000) : 1;
}

int kd_loss_graph_set_sigma(const kd_loss_graph *lg, kd_program *p, const kd_config *c, const float *sigma, int64_t n, kd_err *err)
{
    enum { KINDS = sizeof(factors) / sizeof(float) };
    float *rows = malloc((size_t)((KINDS + KD_BOUND_FACTORS) * n) * sizeof *rows), *bound = rows + KINDS * n;
    if (!rows) return kd_fail_memory(err, "the loss's noise levels");
    for (int64_t i = 0; i < n; i++) {
        const double s = fmax(sigma[i], 1e-20);
        const factors f = factors_of(c, s);
        const float each[KINDS] = { f.x_x0, f.x_noise, f.t_x0, f.t_noise, f.weight, f.c_noise };
        for (int k = 0; k < KINDS; k++) rows[k * n + i] = each[k];
        if (lg->bound) bound_of(bound + i * KD_BOUND_FACTORS, c, s);
    }
    kd_val *const to[KINDS] = { lg->x_x0, lg->x_noise, lg->t_x0, lg->t_noise, lg->weight, lg->in.c_noise };
    int code = 0;
    for (int k = 0; k < KINDS && !code; k++)
        code = kd_program_set(p, to[k], rows + k * n, err);
    if (lg->bound && !code) code = kd_program_set(p, lg->bound, bound, err);
    free(rows);
    return code;
}
