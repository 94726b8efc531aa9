// Which images a run draws: their seeds, numbers and classes.
#ifndef KD_WHO_H
#define KD_WHO_H
#include "diffusion/sampler.h"

/// Classes of images. An image's class depends on its seed and number alone.
typedef struct kd_classes {
    int64_t classes;                   // of the model; 0: it has none
    int64_t *cycle, n;                 // image k gets cycle[k mod n]; NULL: random
} kd_classes;
/// text   "all" (also NULL), "random", "none" (the model's class for it), or classes with commas between
/// errors KD_EUSAGE
int kd_classes_parse(kd_classes *c, const char *text, int64_t classes, kd_err *err);
void kd_classes_free(kd_classes *c);
/// The class of an image, 0..classes; only of a model with classes.
int64_t kd_class_of(const kd_classes *c, kd_draw draw);

/// "3,5,10-12" as a list; free() it. errors KD_EUSAGE, also for more than 2^24 seeds
int kd_seeds_parse(uint64_t **seeds, int64_t *n, const char *text, kd_err *err);

/// "A,B,N": two seeds and how many images from one to the other, both included; N is at least 2.
typedef struct kd_interpolation { uint64_t from, to; int64_t n; } kd_interpolation;
int kd_interpolation_parse(kd_interpolation *i, const char *text, kd_err *err);
/// Spherical interpolation: a becomes the point at t in [0, 1] on the arc from a to b, 0 is a and 1 is b to the bit.
/// Shoemake 1985, "Animating rotation with quaternion curves".
void kd_slerp(float *a, const float *b, int64_t size, double t);

#endif
