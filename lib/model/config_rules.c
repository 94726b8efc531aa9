// Sizes that must fit each other, checked before anything is built: what does not fit, and the nearest that would.
#include "model/config_parts.h"
#include <stdio.h>

const char *kd_config_multiples(char buf[64], int64_t v, int64_t unit)
{
    const long long below = v / unit * unit, above = below + unit;
    if (below)
        snprintf(buf, 64, "nearest %lld or %lld", below, above);
    else
        snprintf(buf, 64, "nearest %lld", above);
    return buf;
}

/// An image side is a whole number of patches, and an even one before each merge of 2x2 tokens.
static int check_side(const kd_config *c, int axis, kd_err *err)
{
    const long long size = c->size[axis], patch = c->v2.patch[axis], unit = patch << (c->v2.levels - 1);
    const char *side = axis ? "width" : "height";
    char near[64];
    kd_config_multiples(near, size, unit);
    if (size % unit == 0)
        return 0;
    if (size % patch)
        return kd_fail(err, KD_EUSAGE, "%s: model.input_size: %s %lld is not a multiple of the patch %s %lld%s: %s",
                       c->path, side, size, side, patch, c->v2.levels > 1 ? " times 2 for each merge" : "", near);
    int merge = 0;
    while ((size / patch >> merge) % 2 == 0)
        merge++;
    return kd_fail(err, KD_EUSAGE, "%s: model.input_size: %s %lld gives %lld tokens at level %d, an odd number before the "
                   "2x2 merge to level %d; with patch %s %lld and %d levels it must be a multiple of %lld: %s", c->path,
                   side, size, size / patch >> merge, merge, merge + 1, side, patch, c->v2.levels, unit, near);
}

static int check_heads(const kd_config *c, int i, kd_err *err)
{
    const kd_level *l = &c->v2.level[i];
    char near[64];
    if (l->d_head % 8)          // half of a head is rotated, in pairs, by y and by x
        return kd_fail(err, KD_EUSAGE, "%s: model.self_attns[%d].d_head: %lld is not a multiple of 8: %s", c->path, i,
                       (long long)l->d_head, kd_config_multiples(near, l->d_head, 8));
    if (l->width % l->d_head)
        return kd_fail(err, KD_EUSAGE, "%s: model.widths[%d]: %lld is not a multiple of self_attns[%d].d_head %lld: %s",
                       c->path, i, (long long)l->width, i, (long long)l->d_head, kd_config_multiples(near, l->width, l->d_head));
    return 0;
}

static int check_kernel(const kd_config *c, int i, int64_t h, int64_t w, kd_err *err)
{
    const long long k = c->v2.level[i].size, shorter = h < w ? h : w, largest = shorter % 2 ? shorter : shorter - 1;
    if (k > shorter)
        return kd_fail(err, KD_EUSAGE, "%s: model.self_attns[%d].kernel_size: %lld is more than the %lldx%lld tokens of "
                       "level %d: the largest that fits is %lld", c->path, i, k, (long long)h, (long long)w, i, largest);
    if (k % 2)
        return 0;
    char above[32] = "";
    if (k < largest)
        snprintf(above, sizeof above, " or %lld", k + 1);
    return kd_fail(err, KD_EUSAGE, "%s: model.self_attns[%d].kernel_size: %lld is even: nearest %lld%s", c->path, i, k,
                   k - 1, above);
}

static int check_window(const kd_config *c, int i, int64_t h, int64_t w, kd_err *err)
{
    const int64_t size = c->v2.level[i].size;
    if (h % size == 0 && w % size == 0)
        return 0;
    int64_t below = size < h ? size : h, above = size;
    while (h % below || w % below)
        below--;                                                    // ends at 1
    while (above <= h && (h % above || w % above))
        above++;
    char near[64];
    if (above <= h)
        snprintf(near, sizeof near, "nearest %lld or %lld", (long long)below, (long long)above);
    else
        snprintf(near, sizeof near, "nearest %lld", (long long)below);
    return kd_fail(err, KD_EUSAGE, "%s: model.self_attns[%d].window_size: %lld does not divide the %lldx%lld tokens of level "
                   "%d: %s", c->path, i, (long long)size, (long long)h, (long long)w, i, near);
}

static int check_v2(const kd_config *c, kd_err *err)
{
    char near[64];
    KD_TRY(check_side(c, 0, err));
    KD_TRY(check_side(c, 1, err));
    if (c->v2.mapping_width % 2)               // half cosines, half sines
        return kd_fail(err, KD_EUSAGE, "%s: model.mapping_width: %lld is not even: %s", c->path,
                       (long long)c->v2.mapping_width, kd_config_multiples(near, c->v2.mapping_width, 2));
    for (int i = 0; i < c->v2.levels; i++) {
        const kd_level *l = &c->v2.level[i];
        const int64_t h = c->size[0] / c->v2.patch[0] >> i, w = c->size[1] / c->v2.patch[1] >> i;
        if (l->self_attn != KD_SELF_NONE)
            KD_TRY(check_heads(c, i, err));
        if (l->self_attn == KD_SELF_NEIGHBORHOOD)
            KD_TRY(check_kernel(c, i, h, w, err));
        if (l->self_attn == KD_SELF_SHIFTED_WINDOW)
            KD_TRY(check_window(c, i, h, w, err));
    }
    return 0;
}

static int check_v1(const kd_config *c, kd_err *err)
{
    const kd_transformer_v1 *t = &c->v1;
    char near[64];
    for (int axis = 0; axis < 2; axis++)
        if (c->size[axis] % t->patch[axis])
            return kd_fail(err, KD_EUSAGE, "%s: model.input_size: %s %lld is not a multiple of the patch %s %lld: %s", c->path,
                           axis ? "width" : "height", (long long)c->size[axis], axis ? "width" : "height",
                           (long long)t->patch[axis], kd_config_multiples(near, c->size[axis], t->patch[axis]));
    if (t->width % 64)
        return kd_fail(err, KD_EUSAGE, "%s: model.width: %lld is not a multiple of 64, a head's width: %s", c->path,
                       (long long)t->width, kd_config_multiples(near, t->width, 64));
    return 0;
}

int kd_config_check_sizes(const kd_config *c, kd_err *err)
{
    switch (c->type) {
    case KD_MODEL_TRANSFORMER_V2: return check_v2(c, err);
    case KD_MODEL_TRANSFORMER_V1: return check_v1(c, err);
    case KD_MODEL_IMAGE_V1:       return kd_config_check_image_v1(c, err);
    case KD_MODEL_GUIDED:         return kd_config_check_guided(c, err);
    case KD_MODEL_TOY_MIXTURE:    break;                   // has a reader of its own
    }
    return 0;
}

int kd_config_check_training(const kd_config *c, kd_err *err)
{
    if (c->augment_prob > 0 && !c->aug_cond)        // unnoticed, augmentations would become part of what is sampled
        return kd_fail(err, KD_EUSAGE, "%s: model.augment_prob: this network is not told of augmentations%s: set it to 0", c->path,
                       c->type == KD_MODEL_IMAGE_V1 ? " (augment_wrapper is false)" : "");
    if (c->classes && c->type == KD_MODEL_IMAGE_V1)
        return kd_fail(err, KD_EUSAGE, "%s: dataset.num_classes: an image_v1 takes no classes: set it to 0", c->path);
    return 0;
}
