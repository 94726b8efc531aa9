// The density from which training draws noise levels. Peer: k_diffusion/config.py make_sample_density.
#include "model/config_parts.h"
#include <math.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/// The first of two spellings of a key that is given; the second if none is.
static const char *either(const kd_json *o, const char *a, const char *b) { return kd_config_has(o, a) ? a : b; }

static int optional(const kd_json *o, const char *key, double fallback, double *to, kd_err *err)
{
    *to = fallback;
    return kd_config_has(o, key) ? kd_config_num(o, key, -INFINITY, INFINITY, to, err) : 0;
}

static int ordered(const kd_json *o, const kd_density *d, bool positive, kd_err *err)
{
    if (positive && !(d->min_value > 0))
        return kd_json_fail(o, err, "min_value must be above 0, got %.9g", d->min_value);
    if (!(d->min_value < d->max_value))
        return kd_json_fail(o, err, "min_value must be below max_value, got %.9g and %.9g", d->min_value, d->max_value);
    return 0;
}

int kd_config_read_density(kd_config *c, const kd_json *o, kd_err *err)
{
    enum { LOGNORMAL, LOGLOGISTIC, LOGUNIFORM, V_DIFFUSION, SPLIT, COSINE_INTERPOLATED, STEPS, COSINE };   // as in kd_density_type
    static const char *const names[] = { "lognormal", "loglogistic", "loguniform", "v-diffusion", "split-lognormal",
                                         "cosine-interpolated", "steps", "cosine" };
    kd_density *d = &c->density;
    const double longest = fmax(c->size[0], c->size[1]);
    int type;
    KD_TRY(kd_config_choice(o, "type", names, COUNT(names), &type, err));
    d->type = type == COSINE ? KD_DENSITY_V_DIFFUSION : (kd_density_type)type;
    d->sigma_data = c->sigma_data;
    switch (d->type) {
    case KD_DENSITY_LOGNORMAL:
        KD_TRY(kd_config_num(o, either(o, "mean", "loc"), -INFINITY, INFINITY, &d->loc, err));
        return kd_config_positive(o, either(o, "std", "scale"), &d->scale, err);
    case KD_DENSITY_SPLIT_LOGNORMAL:
        KD_TRY(kd_config_num(o, either(o, "mean", "loc"), -INFINITY, INFINITY, &d->loc, err));
        KD_TRY(kd_config_positive(o, either(o, "std_1", "scale_1"), &d->scale, err));
        return kd_config_positive(o, either(o, "std_2", "scale_2"), &d->scale_2, err);
    case KD_DENSITY_LOGLOGISTIC:
        KD_TRY(optional(o, "loc", log(c->sigma_data), &d->loc, err));
        d->scale = 0.5;
        if (kd_config_has(o, "scale"))
            KD_TRY(kd_config_positive(o, "scale", &d->scale, err));
        KD_TRY(optional(o, "min_value", 0, &d->min_value, err));
        KD_TRY(optional(o, "max_value", INFINITY, &d->max_value, err));
        if (d->min_value < 0)
            return kd_json_fail(o, err, "min_value must not be below 0, got %.9g", d->min_value);
        return ordered(o, d, false, err);
    case KD_DENSITY_LOGUNIFORM:
        KD_TRY(optional(o, "min_value", c->sigma_min, &d->min_value, err));
        KD_TRY(optional(o, "max_value", c->sigma_max, &d->max_value, err));
        return ordered(o, d, true, err);
    case KD_DENSITY_V_DIFFUSION:
        KD_TRY(optional(o, "min_value", 1e-3, &d->min_value, err));
        KD_TRY(optional(o, "max_value", 1e3, &d->max_value, err));
        return ordered(o, d, true, err);
    case KD_DENSITY_STEPS:
        d->steps = c->steps;
        return c->steps ? 0 : kd_json_fail(o, err, "steps are those of a discrete schedule: with wrapper eps or vd only");
    case KD_DENSITY_COSINE_INTERPOLATED:
        KD_TRY(optional(o, "min_value", fmin(c->sigma_min, 1e-3), &d->min_value, err));
        KD_TRY(optional(o, "max_value", fmax(c->sigma_max, 1e3), &d->max_value, err));
        d->image_d = d->noise_d_high = longest;
        d->noise_d_low = 32;
        if (kd_config_has(o, "image_d"))
            KD_TRY(kd_config_positive(o, "image_d", &d->image_d, err));
        if (kd_config_has(o, "noise_d_low"))
            KD_TRY(kd_config_positive(o, "noise_d_low", &d->noise_d_low, err));
        if (kd_config_has(o, "noise_d_high"))
            KD_TRY(kd_config_positive(o, "noise_d_high", &d->noise_d_high, err));
        return ordered(o, d, true, err);
    }
    return 0;
}

