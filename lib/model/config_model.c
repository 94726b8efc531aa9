// The model section of a filled-in config: what all networks have. The networks' own keys have files of their own.
#include "model/config_parts.h"
#include <math.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static int read_loss(kd_config *c, const kd_json *m, kd_err *err)
{
    static const char *const losses[] = { "karras", "simple" };                     // kd_loss_type
    static const char *const weights[] = { "karras", "soft-min-snr", "snr" };       // kd_weight_type
    int loss, weighting;
    KD_TRY(kd_config_choice(m, "loss_config", losses, COUNT(losses), &loss, err));
    KD_TRY(kd_config_choice(m, "loss_weighting", weights, COUNT(weights), &weighting, err));
    c->loss = (kd_loss_type)loss, c->weighting = (kd_weight_type)weighting;
    return kd_config_int(m, "loss_scales", 1, 64, &c->loss_scales, err);
}

const char *const kd_config_steps_keys[] = { "quantize", "noise_schedule", "diffusion_steps", "beta_start", "beta_end", NULL };

const char *const kd_wrapper_names[] = { "karras", "v", "eps", "vd" };

static bool is_discrete(const kd_config *c) { return c->wrapper == KD_WRAP_EPS || c->wrapper == KD_WRAP_VD; }

static int read_wrapper(kd_config *c, const kd_json *m, kd_err *err)
{
    const kd_json quantize = kd_json_at(m, "quantize");
    int type = KD_WRAP_KARRAS;
    if (kd_config_has(m, "wrapper"))
        KD_TRY(kd_config_choice(m, "wrapper", kd_wrapper_names, COUNT(kd_wrapper_names), &type, err));
    if (kd_config_has(m, "quantize"))
        KD_TRY(kd_config_bool(m, "quantize", &c->quantize, err));
    c->wrapper = (kd_wrapper_type)type;
    if (c->quantize && !is_discrete(c))
        return kd_json_fail(&quantize, err, "there are no steps to choose from: with wrapper eps or vd only");
    return 0;
}

/// The steps of a discrete schedule. A guided_diffusion's config names one, whatever its wrapper.
static int read_schedule(kd_config *c, const kd_json *m, kd_err *err)
{
    static const char *const names[] = { "linear", "cosine", "scaled-linear" };          // kd_steps_type
    const kd_json end = kd_json_at(m, "beta_end"), steps = kd_json_at(m, "diffusion_steps");
    double first = 0.00085, last = 0.012;                                                // Stable Diffusion's
    int64_t n = 1000;
    int type = KD_STEPS_LINEAR;
    for (int i = 1; kd_config_steps_keys[i]; i++) {          // all but quantize
        const kd_json j = kd_json_at(m, kd_config_steps_keys[i]);
        if (!is_discrete(c) && c->type != KD_MODEL_GUIDED && kd_json_given(&j))
            return kd_json_fail(&j, err, "steps are those of a discrete schedule: with wrapper eps or vd only");
    }
    if (kd_config_has(m, "noise_schedule"))
        KD_TRY(kd_config_choice(m, "noise_schedule", names, COUNT(names), &type, err));
    if (kd_config_has(m, "diffusion_steps"))
        KD_TRY(kd_json_int(&steps, 2, 1 << 20, &n, err));
    if (type == KD_STEPS_LINEAR && n <= 20)                  // beta_n = 20/n
        return kd_json_fail(&steps, err, "a linear schedule takes more than 20 steps, got %lld", (long long)n);
    if (kd_config_has(m, "beta_start"))
        KD_TRY(kd_config_positive(m, "beta_start", &first, err));
    if (kd_config_has(m, "beta_end"))
        KD_TRY(kd_config_positive(m, "beta_end", &last, err));
    if (!(first < last && last < 1))
        return kd_json_fail(&end, err, "beta_start must be below beta_end, and that below 1, got %.9g and %.9g", first, last);
    return is_discrete(c) ? kd_steps_new(&c->steps, (kd_steps_type)type, n, first, last, err) : 0;
}

/// How the loss is made up is the preconditioned denoiser's alone; the other wrappers have a loss each.
static int read_loss_of(kd_config *c, const kd_json *m, kd_err *err)
{
    KD_TRY(read_loss(c, m, err));
    const bool plain = c->loss == KD_LOSS_KARRAS && c->weighting == KD_WEIGHT_KARRAS && c->loss_scales == 1;
    const char *key = c->loss != KD_LOSS_KARRAS ? "loss_config" : c->weighting != KD_WEIGHT_KARRAS ? "loss_weighting" : "loss_scales";
    const kd_json j = kd_json_at(m, key), variance = kd_json_at(m, "has_variance");
    if (!plain && c->wrapper != KD_WRAP_KARRAS)
        return kd_json_fail(&j, err, "only with wrapper karras");
    if (c->has_variance && c->loss == KD_LOSS_SIMPLE)
        return kd_json_fail(&variance, err, "the simple loss has no place for a variance: set it to false");
    if (c->has_variance && c->wrapper != KD_WRAP_KARRAS)
        return kd_json_fail(&variance, err, "only with wrapper karras");
    return 0;
}

static int read_network(kd_config *c, const kd_json *m, kd_err *err)
{
    switch (c->type) {
    case KD_MODEL_TRANSFORMER_V2: return kd_config_read_v2(c, m, err);
    case KD_MODEL_TRANSFORMER_V1: return kd_config_read_v1(c, m, err);
    case KD_MODEL_IMAGE_V1:       return kd_config_read_image_v1(c, m, err);
    case KD_MODEL_GUIDED:         return kd_config_read_guided(c, m, err);
    case KD_MODEL_TOY_MIXTURE:    break;                   // has a reader of its own
    }
    return 0;
}

/// A discrete schedule has a lowest and a highest level.
static int read_sigmas(kd_config *c, const kd_json *m, kd_err *err)
{
    if (c->steps)
        c->sigma_min = c->steps->sigma[0], c->sigma_max = c->steps->sigma[c->steps->n - 1];
    if (!c->steps || kd_config_has(m, "sigma_min"))
        KD_TRY(kd_config_positive(m, "sigma_min", &c->sigma_min, err));
    if (!c->steps || kd_config_has(m, "sigma_max"))
        KD_TRY(kd_config_positive(m, "sigma_max", &c->sigma_max, err));
    const kd_json j = kd_json_at(m, "sigma_min");
    if (c->sigma_min >= c->sigma_max)
        return kd_json_fail(&j, err, "must be below sigma_max, got %.9g and %.9g", c->sigma_min, c->sigma_max);
    return 0;
}

int kd_config_read_model(kd_config *c, const kd_json *top, kd_err *err)
{
    const kd_json m = kd_json_at(top, "model"), density = kd_json_at(&m, "sigma_sample_density");
    KD_TRY(kd_config_int(&m, "input_channels", 1, 1024, &c->channels, err));
    KD_TRY(kd_config_ints(&m, "input_size", 2, 1, KD_MAX_SIZE, c->size, err));
    KD_TRY(read_wrapper(c, &m, err));
    KD_TRY(read_schedule(c, &m, err));
    KD_TRY(read_network(c, &m, err));
    KD_TRY(kd_config_num(&m, "augment_prob", 0, 1, &c->augment_prob, err));
    KD_TRY(kd_config_positive(&m, "sigma_data", &c->sigma_data, err));
    KD_TRY(read_sigmas(c, &m, err));
    KD_TRY(read_loss_of(c, &m, err));
    c->has_density = kd_json_given(&density) || c->steps;
    c->density = (kd_density){ .type = KD_DENSITY_STEPS, .steps = c->steps };
    return kd_json_given(&density) ? kd_config_read_density(c, &density, err) : 0;
}
