// A run of sampling as kd-sample makes it: which images, from what, with which schedule, sampler and guidance; batch by batch
// in constant memory.
#ifndef KD_DRAW_H
#define KD_DRAW_H
#include "diffusion/guide.h"
#include "formats/images.h"

/// What is asked for. Strings are as on kd-sample's command line (its man page has their meaning); NULL, NAN: not given.
typedef struct kd_draw_opts {
    int64_t count, batch, steps, first; uint64_t seed;                 // count -1: as many as there are seeds, pictures, ...; else 64
    const char *seeds, *interpolate, *classes;
    const char *sampler; kd_sampler_opts o;
    const char *schedule, *sigmas;                                     // karras|exponential|polyexponential|vp|model; FILE:NAME
    double sigma_min, sigma_max, rho, beta_d, beta_min, eps_s;         // NAN: the config's; 7, or 1 for polyexponential; 19.9, 0.1, 0.001
    kd_guidance guidance;
    const char *init, *noise;                                          // FILE:NAME
    const char *from, *mask; double sigma;
    bool invert, trajectory, as_float, trunc;
    void (*tick)(void *arg, int64_t calls, int64_t images); void *arg; // told each denoiser call of all, and the images done
} kd_draw_opts;
kd_draw_opts kd_draw_defaults(void);

typedef struct kd_drawing kd_drawing;
/// Checks everything that can be checked, opens files. The options, denoisers and strings stay the caller's; weak: NULL, or
/// the model that guides.
int kd_drawing_new(kd_drawing **d, const kd_draw_opts *o, kd_denoiser *denoiser, kd_denoiser *weak, kd_err *err);
/// Images of the run; -1 where only the end of a stream of pictures will tell.
int64_t kd_drawing_count(const kd_drawing *d);
int64_t kd_drawing_calls(const kd_drawing *d);             // of the denoiser in all; 0 if unknown
/// Their shape, type, per-image values, and metadata (a frame, the drawing's).
const kd_images_info *kd_drawing_info(const kd_drawing *d);
/// The next images, the drawing's until the next call; n = 0 at the end.
int kd_drawing_next(kd_drawing *d, kd_images *images, kd_err *err);
void kd_drawing_free(kd_drawing *d);

#endif
