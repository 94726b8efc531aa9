// A drawing's insides, for draw.c (its batches) and draw_new.c (its beginning). Private to them.
#ifndef KD_DRAW_PARTS_H
#define KD_DRAW_PARTS_H
#include "diffusion/draw.h"
#include "diffusion/pictures.h"
#include "diffusion/who.h"

/// The denoised images of all steps of an image: [n,size]; room for more.
typedef struct kd_path { float *image; int64_t n, room; } kd_path;

struct kd_drawing {
    const kd_draw_opts *o;
    const kd_sampler *sampler;
    kd_guide guide;
    kd_images_info info;
    int64_t size;                      // elements of an image
    int64_t count, done;               // images: of the run, -1 unknown; handed out
    int64_t calls_done;
    // schedule
    float *sigmas; int64_t steps;      // [steps+1]
    // who
    uint64_t *seeds; int64_t n_seeds, each;                // --seeds, and images of each; NULL
    kd_interpolation arc;
    kd_classes classes;
    bool own_labels;                   // the pictures' own
    // where from
    float *init, *bank;                // [n,size], [requests,bank_n,size]; NULL
    int64_t requests, bank_n;
    kd_pictures *from, *mask_from;
    // a batch: [batch,size] and [batch]
    int64_t n;
    float *x, *other, *known, *mask;                       // other [size]
    uint8_t *pixels;
    kd_draw *draw;
    int64_t *label, *index, *calls; uint64_t *seed;
    // trajectories: [paths], for a batch; of them the next to hand out; its rows
    kd_path *path;
    int64_t paths, path_at, row_room;
    uint8_t *row_pixels; int64_t *row_label, *row_index, *row_calls; uint64_t *row_seed;
};

/// Forgets the last batch's trajectories.
void kd_path_begin(kd_drawing *d);
/// A kd_step_call; arg is the drawing.
int kd_path_keep(void *arg, int64_t image, int64_t step, const float *denoised, kd_err *err);
/// Hands out the next image's trajectory, its values repeated for each step.
int kd_path_next(kd_drawing *d, kd_images *images, kd_err *err);
void kd_path_free(kd_drawing *d);
#endif
