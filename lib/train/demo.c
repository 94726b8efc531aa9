#include "train/demo.h"
#include "base/memory.h"
#include "formats/images.h"
#include "formats/png.h"
#include "train/draws.h"
#include <math.h>
#include <string.h>

// Image i of the grid: rows of pixels into its place.
static void place(uint8_t *grid, const float *x, int64_t i, int64_t columns, const kd_config *c)
{
    const int64_t h = c->size[0], row = c->size[1] * c->channels;
    for (int64_t y = 0; y < h; y++)
        kd_images_quantize(grid + ((i / columns * h + y) * columns + i % columns) * row, x + y * row, row, false);
}

static int write_grid(const uint8_t *grid, int64_t h, int64_t w, int c, const char *path, kd_err *err)
{
    kd_out *out;
    KD_TRY(kd_out_open(&out, path, true, err));
    if (!kd_png_write(out, grid, h, w, c, NULL, err)) kd_out_commit(out, err);
    kd_out_close(out);
    return err->code;
}

int kd_demo(kd_trainer *t, const char *path, int64_t n, kd_err *err)
{
    const kd_config *c = kd_trainer_config(t);
    const int64_t columns = (int64_t)ceil(sqrt((double)n)), rows = (n + columns - 1) / columns, batch = kd_trainer_opts(t)->batch;
    const int64_t h = rows * c->size[0], width = columns * c->size[1], size = c->size[0] * c->size[1] * c->channels;
    kd_draws *w = NULL;
    const float *x;
    uint8_t *grid = kd_alloc((size_t)(h * width * c->channels));
    if (!grid) {
        kd_fail_memory(err, "a demo grid");
        goto done;
    }
    if (kd_draws_open(&w, t, n < batch ? n : batch, err)) goto done;
    for (int64_t i = 0; i < n; i += batch) {
        const int64_t count = n - i < batch ? n - i : batch;
        if (kd_draws_make(w, i, count, &x, err)) goto done;
        for (int64_t k = 0; k < count; k++) place(grid, x + k * size, i + k, columns, c);
    }
    write_grid(grid, h, width, (int)c->channels, path, err);
done:
    kd_draws_close(w);
    kd_free(grid);
    return err->code;
}
