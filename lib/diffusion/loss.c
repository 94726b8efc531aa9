// The graph of the training loss: see denoiser.h for its formula.
#include "diffusion/denoiser.h"
#include "base/memory.h"
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

static int build(kd_loss_graph *lg, const kd_config *c, int64_t n, kd_err *err)
{
    kd_graph *g = lg->g;
    const kd_shape image = KD_SHAPE(n, c->size[0], c->size[1], c->channels), each = KD_SHAPE(n);
    lg->x0 = kd_input(g, "x0", KD_F32, image);
    lg->noise = kd_input(g, "noise", KD_F32, image);
    lg->x_x0 = kd_input(g, "x_x0", KD_F32, each);
    lg->x_noise = kd_input(g, "x_noise", KD_F32, each);
    lg->t_x0 = kd_input(g, "t_x0", KD_F32, each);
    lg->t_noise = kd_input(g, "t_noise", KD_F32, each);
    lg->weight = kd_input(g, "weight", KD_F32, each);
    lg->c_noise = kd_input(g, "c_noise", KD_F32, KD_SHAPE(n, 1));
    lg->aug_cond = kd_input(g, "aug_cond", KD_F32, KD_SHAPE(n, 9));
    if (c->classes) lg->class_cond = kd_input(g, "class_cond", KD_I64, each);
    if (c->mapping_cond_dim) lg->mapping_cond = kd_input(g, "mapping_cond", KD_F32, KD_SHAPE(n, c->mapping_cond_dim));
    if (lg->net.train) lg->net.index = lg->index = kd_input(g, "index", KD_I64, each);

    const kd_net_in in = { .x = kd_row_mix(g, lg->x0, lg->x_x0, lg->noise, lg->x_noise), .c_noise = lg->c_noise,
                           .class_cond = lg->class_cond, .aug_cond = lg->aug_cond, .mapping_cond = lg->mapping_cond };
    kd_val *F = kd_net_forward(&lg->net, c, &in);
    kd_val *target = kd_row_mix(g, lg->x0, lg->t_x0, lg->noise, lg->t_noise);
    kd_val *f;
    KD_TRY(frequency_factors(&f, g, c, err));
    if (f) F = kd_dct2(g, F, false), target = kd_dct2(g, target, false);
    lg->loss = kd_mse(g, F, target, lg->weight, f);
    return kd_graph_error(g, err);
}

int kd_loss_graph_new(kd_loss_graph *lg, const kd_config *c, kd_params *ps, int64_t n, bool train, bool checkpointing, kd_err *err)
{
    *lg = (kd_loss_graph){ .g = kd_graph_new() };
    lg->net = (kd_net){ .g = lg->g, .params = ps, .train = train, .checkpointing = checkpointing,
                        .leaf = calloc((size_t)ps->n, sizeof(kd_val *)) };
    int code = !lg->g || !lg->net.leaf ? kd_fail_memory(err, "the loss's graph") : build(lg, c, n, err);
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

int kd_loss_graph_set_sigma(const kd_loss_graph *lg, kd_program *p, const kd_config *c, const float *sigma, int64_t n, kd_err *err)
{
    float *rows = malloc((size_t)(6 * n) * sizeof *rows);
    if (!rows) return kd_fail_memory(err, "the loss's noise levels");
    float *x_x0 = rows, *x_noise = rows + n, *t_x0 = rows + 2 * n, *t_noise = rows + 3 * n, *weight = rows + 4 * n, *c_noise = rows + 5 * n;
    const double d = c->sigma_data;
    for (int64_t i = 0; i < n; i++) {
        const double s = fmax(sigma[i], 1e-20), r = sqrt(s * s + d * d);
        x_x0[i] = (float)(1 / r);
        x_noise[i] = (float)(s / r);
        t_x0[i] = (float)(s / (d * r));
        t_noise[i] = (float)(-d / r);
        weight[i] = (float)kd_loss_weight(c->loss == KD_LOSS_SIMPLE ? KD_WEIGHT_SNR : c->weighting, s, d);
        c_noise[i] = (float)(log(s) / 4);
    }
    kd_val *const to[] = { lg->x_x0, lg->x_noise, lg->t_x0, lg->t_noise, lg->weight, lg->c_noise };
    int code = 0;
    for (int k = 0; k < 6 && !code; k++) code = kd_program_set(p, to[k], rows + k * n, err);
    free(rows);
    return code;
}
