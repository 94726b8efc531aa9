#include "train/demo.h"
#include "base/memory.h"
#include "diffusion/sampler.h"
#include "diffusion/sigmas.h"
#include "formats/images.h"
#include "formats/png.h"
#include "train/trainer_state.h"
#include <math.h>
#include <string.h>

enum { STEPS = 50 };

typedef struct draw {
    kd_denoiser *d;
    int64_t n, size;                   // images of a call, pixels of one
    float *x;
    int64_t *class_cond;
    kd_draw *noise;
} draw;

static int call(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err)
{
    draw *w = arg;
    const kd_cond cond = { .class_cond = w->class_cond };
    (void)image;                       // all of them: the sampler's steps are fixed
    return kd_denoise(w->d, n, x, sigma, &cond, NULL, out, err);
}

// Images first .. first+n-1 into w->x.
static int draw_images(draw *w, const kd_trainer *t, int64_t first, int64_t n, kd_err *err)
{
    const kd_config *c = t->c;
    float sigmas[STEPS + 1];
    kd_sampler_opts o = kd_sampler_defaults();
    o.eta = 0;
    o.solver = "heun";
    KD_TRY(kd_sigmas_karras(sigmas, STEPS, c->sigma_min, c->sigma_max, 7, err));
    for (int64_t i = 0; i < n; i++) {
        w->noise[i] = (kd_draw){ t->o.seed, (uint64_t)(first + i) };
        w->class_cond[i] = c->classes ? (first + i) % c->classes : 0;
        kd_sample_start(w->x + i * w->size, w->size, w->noise[i], sigmas[0]);
    }
    const kd_sampling s = { .sampler = kd_sampler_find("dpmpp_2m_sde"), .o = &o, .sigmas = sigmas, .steps = STEPS, .call = call, .arg = w };
    return kd_sample(&s, n, w->size, w->noise, w->x, NULL, err);
}

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
    const kd_config *c = t->c;
    const int64_t columns = (int64_t)ceil(sqrt((double)n)), rows = (n + columns - 1) / columns;
    const int64_t h = rows * c->size[0], width = columns * c->size[1];
    draw w = { .n = n < t->o.batch ? n : t->o.batch, .size = c->size[0] * c->size[1] * c->channels };
    kd_model *m = NULL;
    uint8_t *grid = kd_alloc((size_t)(h * width * c->channels));

    w.x = kd_alloc((size_t)(w.n * w.size) * sizeof *w.x);
    w.class_cond = kd_alloc((size_t)w.n * sizeof *w.class_cond);
    w.noise = kd_alloc((size_t)w.n * sizeof *w.noise);
    if (!grid || !w.x || !w.class_cond || !w.noise) {
        kd_fail_memory(err, "a demo grid");
        goto done;
    }
    if (kd_trainer_ema(t, &m, err) || kd_denoiser_new(&w.d, m, t->be, err)) goto done;
    for (int64_t i = 0; i < n; i += w.n) {
        const int64_t count = n - i < w.n ? n - i : w.n;
        if (draw_images(&w, t, i, count, err)) goto done;
        for (int64_t k = 0; k < count; k++) place(grid, w.x + k * w.size, i + k, columns, c);
    }
    write_grid(grid, h, width, (int)c->channels, path, err);
done:
    kd_denoiser_free(w.d);
    kd_model_free(m);
    kd_free(grid);
    kd_free(w.x);
    kd_free(w.class_cond);
    kd_free(w.noise);
    return err->code;
}
