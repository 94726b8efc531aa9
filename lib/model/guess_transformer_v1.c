// image_transformer_v1 from its weights: depth, width, d_ff. Its head is always 64 wide.
#include "model/guess_private.h"
#include <inttypes.h>

int kd_guess_transformer_v1(kd_guess *g, kd_err *err)
{
    int64_t channels, patch;
    if (!kd_guess_patch(kd_guess_size(g, 1, "in_proj.weight"), &channels, &patch))
        return kd_guess_cannot(g, err, "neither 1 nor 3 channels and a square patch fit in_proj.weight");
    const int64_t width = kd_guess_size(g, 0, "in_proj.weight"), d_ff = kd_guess_size(g, 0, "blocks.0.ff.up_proj.weight") / 2,
                  rows = kd_guess_size(g, 0, "class_emb.weight"), classes = rows ? rows - 1 : 0, size = 16 * patch;
    const int depth = kd_guess_count(g, "blocks.");
    KD_TRY(kd_str_printf(&g->config, err, "{\"model\": {\"type\": \"image_transformer_v1\", \"input_channels\": %" PRId64
                         ", \"input_size\": [%" PRId64 ", %" PRId64 "], \"patch_size\": [%" PRId64 ", %" PRId64 "], \"depth\": %d, "
                         "\"width\": %" PRId64 ", \"d_ff\": %" PRId64 ", \"sigma_data\": 0.5, \"sigma_min\": 0.01, \"sigma_max\": 80}, "
                         "\"dataset\": {\"num_classes\": %" PRId64 "}}", channels, size, size, patch, patch, depth, width, d_ff, classes));
    KD_TRY(kd_str_printf(&g->told, err, "image_transformer_v1, depth %d, width %" PRId64 ", d_ff %" PRId64 ", %" PRId64 " classes", depth,
                         width, d_ff, classes));
    return kd_str_printf(&g->taken, err, "%d channel%s in patches of %" PRId64 ", input_size [%" PRId64 ", %" PRId64 "], sigma_data 0.5, "
                         "sigma_min 0.01, sigma_max 80", (int)channels, channels == 1 ? "" : "s", patch, size, size);
}
