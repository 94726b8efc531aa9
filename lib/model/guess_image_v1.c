// image_v1, k-diffusion's UNet, from its weights. Stage s is u_net.d_blocks.s: a resampler (0), then of each layer a residual block
// (main), and where the stage has them self-attention (qkv_proj) and cross-attention (q_proj, kv_proj).
#include "model/guess_private.h"
#include <inttypes.h>
#include <stdio.h>

enum { AUG_COND = 9 };                                   // what the augmentation wrapper puts before the mapping condition

typedef struct stage { int64_t depth, channels; bool self, cross; } stage;
typedef struct unet {
    const char *prefix;
    int stages; stage s[KD_MAX_LEVELS];
    int64_t channels, patch, unet_cond, cross_cond, mapping, mapping_cond, skip;
    bool wrapper, variance;
} unet;

static stage measure_stage(const kd_guess *g, const unet *u, int i, int64_t *cross_cond)
{
    char at[64], prefix[80];
    stage s = {0};
    snprintf(at, sizeof at, "%su_net.d_blocks.%d", u->prefix, i);
    snprintf(prefix, sizeof prefix, "%s.", at);
    const int n = kd_guess_count(g, prefix);
    for (int k = 1; k < n; k++) {
        const int64_t c = kd_guess_size(g, 0, "%s.%d.main.6.weight", at, k), e = kd_guess_size(g, 1, "%s.%d.kv_proj.weight", at, k);
        s.depth += c > 0;
        s.channels = c > 0 ? c : s.channels;
        s.self |= kd_guess_has(g, "%s.%d.qkv_proj.weight", at, k);
        s.cross |= e > 0;
        *cross_cond = e > 0 ? e : *cross_cond;
    }
    return s;
}

// Of proj_out's rows the last may be the variance; what proj_in has more than the others is the condition. Most networks have no
// condition, so a reading without one is preferred, and then one without variance.
static bool fits_ends(unet *u, int64_t in, int64_t out, bool variance, bool condition)
{
    if (!kd_guess_patch(out - variance, &u->channels, &u->patch))
        return false;
    const int64_t area = u->patch * u->patch;
    u->variance = variance;
    u->unet_cond = in / area - u->channels;
    return in % area == 0 && (condition ? u->unet_cond >= 0 : u->unet_cond == 0);
}

static int measure_ends(const kd_guess *g, unet *u, kd_err *err)
{
    const int64_t out = kd_guess_size(g, 0, "%sproj_out.weight", u->prefix), in = kd_guess_size(g, 1, "%sproj_in.weight", u->prefix);
    for (int i = 0; i < 4; i++)
        if (fits_ends(u, in, out, i % 2, i / 2))
            return 0;
    const bool known = kd_guess_patch(out, &u->channels, &u->patch) || kd_guess_patch(out - 1, &u->channels, &u->patch);
    return kd_guess_cannot(g, err, known ? "proj_in.weight does not fit proj_out.weight"
                                         : "neither 1 nor 3 channels and a square patch fit proj_out.weight");
}

// A stage that halves the image has the filter's kernel; those before the first of these but one are skipped.
static int64_t skipped_stages(const kd_guess *g, const unet *u)
{
    int i = 1;
    while (i < u->stages && !kd_guess_has(g, "%su_net.d_blocks.%d.0.kernel", u->prefix, i))
        i++;
    return i - 1;
}

static int measure(const kd_guess *g, unet *u, kd_err *err)
{
    u->wrapper = kd_guess_has(g, "inner_model.proj_in.weight");
    u->prefix = u->wrapper ? "inner_model." : "";
    char prefix[40];
    snprintf(prefix, sizeof prefix, "%su_net.d_blocks.", u->prefix);
    u->stages = kd_guess_count(g, prefix);
    if (u->stages < 1 || u->stages > KD_MAX_LEVELS)
        return kd_guess_cannot(g, err, "too many stages");
    KD_TRY(measure_ends(g, u, err));
    for (int i = 0; i < u->stages; i++) {
        u->s[i] = measure_stage(g, u, i, &u->cross_cond);
        if (!u->s[i].depth)
            return kd_guess_cannot(g, err, "a stage's weights are missing");
    }
    u->skip = skipped_stages(g, u);
    u->mapping = kd_guess_size(g, 0, "%smapping.2.weight", u->prefix);
    u->mapping_cond = kd_guess_size(g, 1, "%smapping_cond.weight", u->prefix) - (u->wrapper ? AUG_COND : 0);
    if (u->mapping_cond < 0)
        u->mapping_cond = 0;
    return 0;
}

static int add_flags(kd_str *s, const char *before, const unet *u, bool cross, kd_err *err)
{
    KD_TRY(kd_str_printf(s, err, "%s[", before));
    for (int i = 0; i < u->stages; i++)
        KD_TRY(kd_str_printf(s, err, "%s%s", i ? ", " : "", (cross ? u->s[i].cross : u->s[i].self) ? "true" : "false"));
    return kd_str_printf(s, err, "], ");
}

static int write_config(kd_str *c, const unet *u, int64_t size, const int64_t *depths, const int64_t *channels, kd_err *err)
{
    KD_TRY(kd_str_printf(c, err, "{\"model\": {\"type\": \"image_v1\", \"input_channels\": %" PRId64 ", \"input_size\": [%" PRId64
                         ", %" PRId64 "], \"patch_size\": %" PRId64 ", ", u->channels, size, size, u->patch));
    KD_TRY(kd_str_printf(c, err, "\"mapping_out\": %" PRId64 ", \"mapping_cond_dim\": %" PRId64 ", \"unet_cond_dim\": %" PRId64
                         ", \"skip_stages\": %" PRId64 ", ", u->mapping, u->mapping_cond, u->unet_cond, u->skip));
    KD_TRY(kd_guess_list(c, "\"depths\": ", depths, u->stages, err));
    KD_TRY(kd_guess_list(c, "\"channels\": ", channels, u->stages, err));
    KD_TRY(add_flags(c, "\"self_attn_depths\": ", u, false, err));
    if (u->cross_cond) {
        KD_TRY(kd_str_printf(c, err, "\"cross_cond_dim\": %" PRId64 ", ", u->cross_cond));
        KD_TRY(add_flags(c, "\"cross_attn_depths\": ", u, true, err));
    }
    return kd_str_printf(c, err, "\"augment_wrapper\": %s, \"has_variance\": %s, \"sigma_data\": 0.5, \"sigma_min\": 0.01, "
                         "\"sigma_max\": 80}}", u->wrapper ? "true" : "false", u->variance ? "true" : "false");
}

static int tell_conditions(kd_str *s, const unet *u, kd_err *err)
{
    const struct { const char *key; int64_t dim; } of[] = {
        { "mapping_cond_dim", u->mapping_cond }, { "unet_cond_dim", u->unet_cond }, { "cross_cond_dim", u->cross_cond } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i].dim)
            KD_TRY(kd_str_printf(s, err, ", %s %" PRId64, of[i].key, of[i].dim));
    return kd_str_printf(s, err, "%s%s", u->variance ? ", a variance" : "", u->wrapper ? "" : ", no augment_wrapper");
}

int kd_guess_image_v1(kd_guess *g, kd_err *err)
{
    unet u = {0};
    int64_t depths[KD_MAX_LEVELS], channels[KD_MAX_LEVELS];
    KD_TRY(measure(g, &u, err));
    for (int i = 0; i < u.stages; i++) {
        depths[i] = u.s[i].depth;
        channels[i] = u.s[i].channels;
    }
    const int64_t size = (u.patch << (u.stages - 1 - u.skip)) * 8;               // 8 x 8 on the coarsest stage
    KD_TRY(write_config(&g->config, &u, size, depths, channels, err));
    KD_TRY(kd_str_printf(&g->told, err, "image_v1, "));
    KD_TRY(kd_guess_list(&g->told, "depths ", depths, u.stages, err));
    KD_TRY(kd_guess_list(&g->told, "channels ", channels, u.stages, err));
    KD_TRY(add_flags(&g->told, "self-attention ", &u, false, err));
    KD_TRY(add_flags(&g->told, "cross-attention ", &u, true, err));
    KD_TRY(kd_str_printf(&g->told, err, "skip_stages %" PRId64 ", mapping_out %" PRId64, u.skip, u.mapping));
    KD_TRY(tell_conditions(&g->told, &u, err));
    return kd_str_printf(&g->taken, err, "%d channel%s in patches of %" PRId64 ", input_size [%" PRId64 ", %" PRId64 "], "
                         "sigma_data 0.5, sigma_min 0.01, sigma_max 80", (int)u.channels, u.channels == 1 ? "" : "s", u.patch, size, size);
}
