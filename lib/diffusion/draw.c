// See draw.h. In the order of a batch: who is drawn, where each starts, the sampler, what is handed out.
#include "diffusion/draw_parts.h"
#include "base/io.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

kd_draw_opts kd_draw_defaults(void)
{
    return (kd_draw_opts){ .count = -1, .batch = 64, .steps = 50, .sampler = "dpmpp_2m", .o = kd_sampler_defaults(), .schedule = "karras",
                           .sigma_min = NAN, .sigma_max = NAN, .rho = NAN, .beta_d = NAN, .beta_min = NAN, .eps_s = NAN, .sigma = NAN,
                           .guidance = { .scale = 1, .low = 0, .high = INFINITY, .percentile = 99.5 } };
}

int64_t kd_drawing_count(const kd_drawing *d) { return d->count; }
const kd_images_info *kd_drawing_info(const kd_drawing *d) { return &d->info; }

int64_t kd_drawing_calls(const kd_drawing *d)
{
    const int64_t b = d->o->batch, calls = kd_sampler_calls(d->sampler, d->steps);
    return d->count < 0 ? 0 : (d->count + b - 1) / b * (d->sigmas[d->steps] > 0 && d->sampler->calls == 2 ? 2 * d->steps : calls);
}

// Who --------------------------------------------------------------------------------------------------------------

// The draw of the k-th image of the run.
static kd_draw draw_of(const kd_drawing *d, int64_t k)
{
    const kd_draw_opts *o = d->o;
    if (o->interpolate) return (kd_draw){ d->arc.from, (uint64_t)o->first };
    if (d->seeds) return (kd_draw){ d->seeds[k / d->each], (uint64_t)(o->first + k % d->each) };
    return (kd_draw){ o->seed, (uint64_t)(o->first + k) };
}

static void set_who(kd_drawing *d, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        const kd_draw draw = draw_of(d, d->done + j);
        d->draw[j] = draw;
        d->seed[j] = draw.seed, d->index[j] = d->o->interpolate ? d->done + j : (int64_t)draw.index;
        if (d->classes.classes && !d->own_labels) d->label[j] = kd_class_of(&d->classes, draw);
    }
}

// Where from -------------------------------------------------------------------------------------------------------

static int check_label(const kd_drawing *d, int64_t n, kd_err *err)
{
    for (int64_t j = 0; d->own_labels && j < n; j++)
        if (d->label[j] < 0 || d->label[j] > d->classes.classes)
            return kd_fail(err, KD_EUSAGE, "--from: image %lld has the label %lld, the model %lld classes: say --class",
                           (long long)(d->done + j), (long long)d->label[j], (long long)d->classes.classes);
    return 0;
}

// The next pictures into `known`; *n falls to what is left where the run ends with them.
static int take_pictures(kd_drawing *d, int64_t *n, kd_err *err)
{
    int64_t got;
    KD_TRY(kd_pictures_take(d->from, *n, d->known, d->own_labels ? d->label : NULL, &got, err));
    if (got < *n && d->count >= 0)
        return kd_fail(err, KD_EUSAGE, "--from: %lld images, asked for %lld", (long long)(d->done + got), (long long)d->count);
    *n = got;
    KD_TRY(check_label(d, got, err));
    if (!d->mask_from || !got) return 0;
    KD_TRY(kd_pictures_take(d->mask_from, *n, d->mask, NULL, &got, err));
    if (got < *n) return kd_fail(err, KD_EUSAGE, "--mask: %lld masks, fewer than images", (long long)(d->done + got));
    for (int64_t i = 0; i < *n * d->size; i++) d->mask[i] = d->mask[i] > 0;
    return 0;
}

static void start(kd_drawing *d, int64_t j)
{
    const kd_draw_opts *o = d->o;
    const int64_t k = d->done + j;
    const size_t bytes = (size_t)d->size * sizeof *d->x;
    float *x = d->x + j * d->size;
    if (d->init) {
        memcpy(x, d->init + k * d->size, bytes);
    } else if (o->invert) {
        memcpy(x, d->known + j * d->size, bytes);
    } else {
        kd_sample_start(x, d->size, d->draw[j], 1);
        if (o->interpolate) {
            kd_sample_start(d->other, d->size, (kd_draw){ d->arc.to, (uint64_t)o->first }, 1);
            kd_slerp(x, d->other, d->size, (double)k / (double)(d->arc.n - 1));
        }
        for (int64_t i = 0; i < d->size; i++) x[i] = d->sigmas[0] * x[i] + (d->from ? d->known[j * d->size + i] : 0);
    }
}

static int bank(void *arg, kd_vec *vec, int64_t request, double from, double to, int64_t first, int64_t n, int64_t size, float *z,
                kd_err *err)
{
    const kd_drawing *d = arg;
    (void)from, (void)to;
    if (request >= d->requests)
        return kd_fail(err, KD_EUSAGE, "%s: %lld rows, and the sampler asks for one more", d->o->noise, (long long)d->requests);
    return vec->be->upload(vec->be, z, d->bank + (request * d->bank_n + d->done + first) * size, (size_t)(n * size) * sizeof *z, err);
}

// A batch ----------------------------------------------------------------------------------------------------------

static int call(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err)
{
    kd_drawing *d = arg;
    return kd_guide_call(&d->guide, n, image, sigma, x, out, err);
}

static int sample(kd_drawing *d, kd_err *err)
{
    const kd_draw_opts *o = d->o;
    const kd_sampling s = { .be = kd_denoiser_backend(d->guide.d), .sampler = d->sampler, .o = &o->o, .sigmas = d->sigmas,
                            .steps = d->steps, .call = call, .watch = o->trajectory ? kd_path_keep : NULL, .arg = d };
    const kd_noise noise = { bank, d };
    kd_path_begin(d);
    KD_TRY(kd_guide_begin(&d->guide, d->n, err));
    if (d->bank) return kd_sample_with(&s, d->n, d->size, &noise, d->x, d->calls, err);
    return kd_sample(&s, d->n, d->size, d->draw, d->x, d->calls, err);
}

int kd_drawing_next(kd_drawing *d, kd_images *images, kd_err *err)
{
    const kd_draw_opts *o = d->o;
    int64_t n = d->count < 0 || d->count - d->done > o->batch ? o->batch : d->count - d->done;
    *images = (kd_images){ 0 };
    if (o->trajectory && d->path_at < d->n) return kd_path_next(d, images, err);
    set_who(d, n);
    if (d->from && n) KD_TRY(take_pictures(d, &n, err));
    d->n = n;
    if (n == 0) return 0;
    for (int64_t j = 0; j < n; j++) start(d, j);
    KD_TRY(sample(d, err));
    d->done += n;
    if (o->trajectory) return kd_path_next(d, images, err);
    if (d->info.dtype == KD_U8) kd_images_quantize(d->pixels, d->x, n * d->size, o->trunc);
    *images = (kd_images){ .n = n, .image = d->info.dtype == KD_U8 ? (void *)d->pixels : d->x,
                           .label = d->info.has_label ? d->label : NULL, .index = d->index, .seed = d->seed, .calls = d->calls };
    return 0;
}

void kd_drawing_free(kd_drawing *d)
{
    if (!d) return;
    kd_pictures_close(d->from);
    kd_pictures_close(d->mask_from);
    kd_classes_free(&d->classes);
    kd_guide_free(&d->guide);
    kd_frame_free(d->info.meta);
    kd_path_free(d);
    free(d->seeds);
    void *blocks[] = { d->sigmas, d->init, d->bank, d->x, d->other, d->known, d->mask, d->pixels, d->draw, d->label, d->index,
                       d->calls, d->seed };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) kd_free(blocks[i]);
    kd_free(d);
}
