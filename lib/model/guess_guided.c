// guided-diffusion's UNet from its weights. On the way up each level has one block more than on the way down, and all but the
// last level end with an upsampler; so output_blocks tell levels and blocks.
#include "model/guess_private.h"
#include <inttypes.h>
#include <math.h>

typedef struct unet {
    int levels, blocks;
    double mult[KD_MAX_LEVELS];
    bool attends[KD_MAX_LEVELS];
    int64_t model, in, out, classes, heads_in;           // heads_in: the largest number that divides the features of all attention
    bool conv, updown, scale_shift;
} unet;

// Resampling by convolution has `op`, by residual blocks a second one in an output block, by pooling nothing but a number left out.
static int levels_of(const kd_guess *g, unet *u)
{
    const int n = kd_guess_count(g, "output_blocks.");
    int conv = 0, updown = 0, gaps = 0;
    for (int i = 0; i < n; i++) {
        conv += kd_guess_has(g, "input_blocks.%d.0.op.weight", i);
        for (int k = 1; k <= 2; k++)
            updown += kd_guess_has(g, "output_blocks.%d.%d.in_layers.2.weight", i, k);
        gaps += i && !kd_guess_has(g, "input_blocks.%d.0.op.weight", i) && !kd_guess_has(g, "input_blocks.%d.0.in_layers.2.weight", i);
    }
    u->conv = gaps == 0;
    u->updown = updown > 0;
    return 1 + conv + updown + gaps;
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

// What the reader of configs makes `width` again: it cuts fractions off.
static double multiple(int64_t width, int64_t model)
{
    const double m = (double)width / (double)model;
    return (int64_t)(m * (double)model) == width ? m : nextafter(m, INFINITY);
}

static int measure(const kd_guess *g, unet *u, kd_err *err)
{
    const int n = kd_guess_count(g, "output_blocks.");
    u->levels = levels_of(g, u);
    u->blocks = u->levels <= KD_MAX_LEVELS ? n / u->levels - 1 : 0;
    u->model = kd_guess_size(g, 1, "time_embed.0.weight");
    if (u->blocks < 1 || n % u->levels || u->model < 1)
        return kd_guess_cannot(g, err, "its blocks are not those of a guided-diffusion UNet");
    u->in = kd_guess_size(g, 1, "input_blocks.0.0.weight");
    u->out = kd_guess_size(g, 0, "out.2.weight");
    u->classes = kd_guess_size(g, 0, "label_emb.weight");
    u->heads_in = kd_guess_size(g, 1, "middle_block.1.qkv.weight");
    for (int l = 0; l < u->levels; l++) {
        const int block = (u->levels - 1 - l) * (u->blocks + 1);
        const int64_t width = kd_guess_size(g, 0, "output_blocks.%d.0.out_layers.3.weight", block);
        u->mult[l] = multiple(width, u->model);
        u->attends[l] = kd_guess_has(g, "output_blocks.%d.1.qkv.weight", block);
        u->heads_in = u->attends[l] ? common_divisor(width, u->heads_in) : u->heads_in;
        u->scale_shift = width && kd_guess_size(g, 0, "output_blocks.%d.0.emb_layers.1.weight", block) == 2 * width;
        if (!width)
            return kd_guess_cannot(g, err, "a level's weights are missing");
    }
    return 0;
}

static int add_levels(kd_str *s, const char *mult, const char *attention, const unet *u, kd_err *err)
{
    bool first = true;
    KD_TRY(kd_str_printf(s, err, "%s[", mult));
    for (int l = 0; l < u->levels; l++)
        KD_TRY(kd_str_printf(s, err, "%s%.17g", l ? ", " : "", u->mult[l]));
    KD_TRY(kd_str_printf(s, err, "], %s[", attention));
    for (int l = 0; l < u->levels; l++)
        if (u->attends[l]) {
            KD_TRY(kd_str_printf(s, err, "%s%d", first ? "" : ", ", 1 << l));
            first = false;
        }
    return kd_str_printf(s, err, "], ");
}

static const char *word(bool b) { return b ? "true" : "false"; }

int kd_guess_guided(kd_guess *g, kd_err *err)
{
    unet u = {0};
    KD_TRY(measure(g, &u, err));
    // OpenAI's networks have 4 levels for 64 x 64 and one more for each doubling; heads of 64 features.
    const int size = 4 << u.levels, head = u.heads_in % 64 == 0 ? 64 : u.heads_in % 32 == 0 ? 32 : -1;
    KD_TRY(kd_str_printf(&g->config, err, "{\"model\": {\"type\": \"guided_diffusion\", \"image_size\": %d, \"in_channels\": %" PRId64
                         ", \"model_channels\": %" PRId64 ", \"out_channels\": %" PRId64 ", \"num_res_blocks\": %d, ", size, u.in, u.model,
                         u.out, u.blocks));
    KD_TRY(add_levels(&g->config, "\"channel_mult\": ", "\"attention_resolutions\": ", &u, err));
    if (u.classes)
        KD_TRY(kd_str_printf(&g->config, err, "\"num_classes\": %" PRId64 ", ", u.classes));
    KD_TRY(kd_str_printf(&g->config, err, "\"num_heads\": 1, \"num_head_channels\": %d, \"conv_resample\": %s, \"resblock_updown\": %s, "
                         "\"use_scale_shift_norm\": %s, \"use_new_attention_order\": false}}", head, word(u.conv), word(u.updown),
                         word(u.scale_shift)));
    KD_TRY(kd_str_printf(&g->told, err, "guided_diffusion, %" PRId64 " model channels, %d blocks, ", u.model, u.blocks));
    KD_TRY(add_levels(&g->told, "channel_mult ", "attention where pixels are merged ", &u, err));
    KD_TRY(kd_str_printf(&g->told, err, "%" PRId64 " classes%s", u.classes, u.out == 2 * u.in ? ", learned variance" : ""));
    KD_TRY(kd_str_printf(&g->taken, err, "image_size %d, ", size));
    if (head > 0)
        KD_TRY(kd_str_printf(&g->taken, err, "heads of %d", head));
    else
        KD_TRY(kd_str_printf(&g->taken, err, "one head"));
    return kd_str_printf(&g->taken, err, ", the old order of attention, 1000 steps of the linear schedule");
}
