// A drawing's insides, for draw.c (its batches) and draw_new.c (its beginning). Private to them.
#ifndef KD_DRAW_PARTS_H
#define KD_DRAW_PARTS_H
#include "diffusion/draw.h"
#include "diffusion/pictures.h"
#include "diffusion/who.h"

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
    // a batch: [batch,size] and [batch]; with a trajectory per-image values and pixels are [batch,shown]
    int64_t n, shown;                  // shown: steps of the trajectory
    float *x, *other, *known, *mask, *path;                // other [size]; path [batch,shown,size]
    uint8_t *pixels;
    kd_draw *draw;
    int64_t *label, *index, *calls; uint64_t *seed;
};
#endif
