// The model section of an image_v1, k-diffusion's UNet. Peer: k_diffusion/models/image_v1.py.
#include "model/config_parts.h"

/// A list with a value for each stage.
static int stages_of(const kd_json *m, const char *key, const char *what, int stages, kd_json *list, kd_err *err)
{
    size_t n;
    *list = kd_json_at(m, key);
    KD_TRY(kd_json_array(list, &n, err));
    if (n != (size_t)stages)
        return kd_json_fail(list, err, "expected %d %s, one a stage as in channels, got %zu", stages, what, n);
    return 0;
}

static int read_stages(kd_config *c, const kd_json *m, kd_err *err)
{
    kd_image_v1_config *u = &c->image_v1;
    const kd_json channels = kd_json_at(m, "channels");
    int64_t depth[KD_MAX_LEVELS], width[KD_MAX_LEVELS];
    kd_json depths, attends, crosses;
    size_t n;
    KD_TRY(kd_json_array(&channels, &n, err));
    if (n < 1 || n > KD_MAX_LEVELS)
        return kd_json_fail(&channels, err, "expected 1 to %d numbers of channels, one a stage, got %zu", KD_MAX_LEVELS, n);
    u->stages = (int)n;
    KD_TRY(kd_config_ints(m, "channels", n, 1, KD_MAX_WIDTH, width, err));
    KD_TRY(stages_of(m, "depths", "integers", u->stages, &depths, err));
    KD_TRY(kd_config_ints(m, "depths", n, 1, KD_MAX_DEPTH, depth, err));
    KD_TRY(stages_of(m, "self_attn_depths", "truth values", u->stages, &attends, err));
    if (c->cross_cond_dim)
        KD_TRY(stages_of(m, "cross_attn_depths", "truth values", u->stages, &crosses, err));
    for (size_t i = 0; i < n; i++) {
        kd_stage *s = &u->stage[i];
        const kd_json attend = kd_json_item(&attends, i);
        s->depth = depth[i], s->channels = width[i];
        KD_TRY(kd_json_truth(&attend, &s->self_attn, err));
        if (!c->cross_cond_dim)         // then the peer does not look at the list
            continue;
        const kd_json cross = kd_json_item(&crosses, i);
        KD_TRY(kd_json_truth(&cross, &s->cross_attn, err));
    }
    return 0;
}

int kd_config_read_image_v1(kd_config *c, const kd_json *m, kd_err *err)
{
    kd_image_v1_config *u = &c->image_v1;
    const kd_json skip = kd_json_at(m, "skip_stages");
    KD_TRY(kd_config_int(m, "patch_size", 1, KD_MAX_SIZE, &u->patch, err));
    KD_TRY(kd_config_int(m, "mapping_out", 1, KD_MAX_WIDTH, &u->mapping_out, err));
    KD_TRY(kd_config_int(m, "mapping_cond_dim", 0, KD_MAX_WIDTH, &c->mapping_cond_dim, err));
    KD_TRY(kd_config_int(m, "unet_cond_dim", 0, KD_MAX_WIDTH, &c->unet_cond_dim, err));
    KD_TRY(kd_config_int(m, "cross_cond_dim", 0, KD_MAX_WIDTH, &c->cross_cond_dim, err));
    KD_TRY(read_stages(c, m, err));
    KD_TRY(kd_config_int(m, "skip_stages", 0, KD_MAX_LEVELS, &u->skip_stages, err));
    if (u->skip_stages >= u->stages)
        return kd_json_fail(&skip, err, "expected fewer than the %d stages, got %lld", u->stages, (long long)u->skip_stages);
    KD_TRY(kd_config_bool(m, "augment_wrapper", &u->augment_wrapper, err));
    KD_TRY(kd_config_bool(m, "has_variance", &c->has_variance, err));
    c->aug_cond = u->augment_wrapper;
    return kd_config_rate(m, "dropout_rate", &u->dropout, err);
}

// Sizes ------------------------------------------------------------------------------------------------------------

/// Each stage but the first one that is run halves the image.
static int check_sides(const kd_config *c, kd_err *err)
{
    const kd_image_v1_config *u = &c->image_v1;
    const int64_t halvings = u->stages - 1 - u->skip_stages, unit = u->patch << halvings;
    char near[64];
    for (int axis = 0; axis < 2; axis++) {
        const char *side = axis ? "width" : "height";
        const long long size = c->size[axis], least = halvings ? 2 * unit : unit;
        if (size % unit)
            return kd_fail(err, KD_EUSAGE, "%s: model.input_size: %s %lld is not a multiple of %lld, patch_size %lld and 2 for each "
                           "of %lld halvings: %s", c->path, side, size, (long long)unit, (long long)u->patch, (long long)halvings,
                           kd_config_multiples(near, size, unit));
        if (size < least)                   // upsampling reflects at the edge, which takes a neighbour
            return kd_fail(err, KD_EUSAGE, "%s: model.input_size: %s %lld leaves one pixel at the deepest stage: it takes %lld or "
                           "more", c->path, side, size, least);
    }
    return 0;
}

/// Groups of a norm over n channels of stage i, and heads of an attention, are fixed: max(1, n/32), max(1, n/64).
static int check_divides(const kd_config *c, int i, int64_t n, int64_t per, const char *what, kd_err *err)
{
    const int64_t parts = n / per > 1 ? n / per : 1;
    return n % parts == 0 ? 0 : kd_fail(err, KD_EUSAGE, "%s: model.channels[%d]: %lld channels do not divide into %lld %s: a multiple of "
                                        "%lld does", c->path, i, (long long)n, (long long)parts, what, (long long)per);
}

int kd_config_check_image_v1(const kd_config *c, kd_err *err)
{
    const kd_image_v1_config *u = &c->image_v1;
    char near[64];
    KD_TRY(check_sides(c, err));
    if (u->mapping_out % 2)                 // half cosines, half sines
        return kd_fail(err, KD_EUSAGE, "%s: model.mapping_out: %lld is not even: %s", c->path, (long long)u->mapping_out,
                       kd_config_multiples(near, u->mapping_out, 2));
    for (int i = 0; i < u->stages; i++) {
        const kd_stage *s = &u->stage[i];
        KD_TRY(check_divides(c, i, s->channels, 32, "groups", err));
        if (i < u->stages - 1)
            KD_TRY(check_divides(c, i, 2 * s->channels, 32, "groups (with those of the skip connection)", err));
        if (!s->self_attn && !s->cross_attn)
            continue;
        const int out = i ? i - 1 : 0;      // the last layer on the way up has the channels of the stage above
        KD_TRY(check_divides(c, i, s->channels, 64, "heads", err));
        KD_TRY(check_divides(c, out, u->stage[out].channels, 64, "heads", err));
    }
    return 0;
}
