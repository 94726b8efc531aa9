// Trajectories: the denoised image of every step, kept while a batch is drawn and handed out image by image. Images may have
// steps of their own number (dpm_adaptive).
#include "diffusion/draw_parts.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

void kd_path_begin(kd_drawing *d)
{
    for (int64_t j = 0; j < d->paths; j++) d->path[j].n = 0;
    d->path_at = 0;
}

int kd_path_keep(void *arg, int64_t image, int64_t step, const float *denoised, kd_err *err)
{
    kd_drawing *d = arg;
    kd_path *p = &d->path[image];
    if (step >= p->room) {
        const int64_t room = 2 * step + 8;
        float *more = kd_realloc(p->image, (size_t)(room * d->size) * sizeof *more);
        if (!more) return kd_fail_memory(err, "a trajectory");
        p->image = more, p->room = room;
    }
    memcpy(p->image + step * d->size, denoised, (size_t)d->size * sizeof *denoised);
    p->n = step + 1;
    return 0;
}

static int make_rows(kd_drawing *d, int64_t n, kd_err *err)
{
    if (n <= d->row_room) return 0;
    void **rows[] = { (void **)&d->row_label, (void **)&d->row_index, (void **)&d->row_calls, (void **)&d->row_seed,
                      (void **)&d->row_pixels };
    for (int i = 0; i < 5; i++) {
        void *more = kd_realloc(*rows[i], (size_t)n * (i < 4 ? sizeof(int64_t) : (size_t)d->size));
        if (!more) return kd_fail_memory(err, "a trajectory");
        *rows[i] = more;
    }
    d->row_room = n;
    return 0;
}

int kd_path_next(kd_drawing *d, kd_images *images, kd_err *err)
{
    const int64_t j = d->path_at;
    const kd_path *p = &d->path[j];
    const bool bytes = d->info.dtype == KD_U8;
    KD_TRY(make_rows(d, p->n, err));
    for (int64_t s = 0; s < p->n; s++)
        d->row_label[s] = d->label[j], d->row_index[s] = d->index[j], d->row_calls[s] = d->calls[j], d->row_seed[s] = d->seed[j];
    if (bytes) kd_images_quantize(d->row_pixels, p->image, p->n * d->size, d->o->trunc);
    *images = (kd_images){ .n = p->n, .image = bytes ? (void *)d->row_pixels : p->image, .label = d->info.has_label ? d->row_label : NULL,
                           .index = d->row_index, .seed = d->row_seed, .calls = d->row_calls };
    d->path_at++;
    return 0;
}

void kd_path_free(kd_drawing *d)
{
    for (int64_t j = 0; d->path && j < d->paths; j++) free(d->path[j].image);
    kd_free(d->path);
    free(d->row_pixels), free(d->row_label), free(d->row_index), free(d->row_calls), free(d->row_seed);
}
