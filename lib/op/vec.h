// Vectors on a backend: what samplers compute between a model's calls. Each function queues one node over arrays in the
// backend's memory and does not wait. Such a node belongs to no program, so its attributes may be what a step needs.
// Factors are double; each element is computed in double and rounded once, to the same bits on every CPU.
// errors  those of queueing, or of scratch memory
#ifndef KD_OP_VEC_H
#define KD_OP_VEC_H
#include "op/backend.h"

/// Begin with { .be = be }.
typedef struct kd_vec {
    kd_backend *be;
    void *scratch; size_t room;       // on the backend
} kd_vec;
void kd_vec_free(kd_vec *v);

/// out = a x + b y. out may be x or y.
int kd_vec_mix(kd_vec *v, int64_t n, float *out, double a, const float *x, double b, const float *y, kd_err *err);
/// out = x + a e + b (f - e); f NULL: x + a e. out may be any of them.
int kd_vec_advance(kd_vec *v, int64_t n, float *out, const float *x, double a, const float *e, double b, const float *f, kd_err *err);
/// out = x + f (y - x). out may be x or y.
int kd_vec_extrapolate(kd_vec *v, int64_t n, float *out, const float *x, double f, const float *y, kd_err *err);
/// x is limited to low..high; NaN remains.
int kd_vec_clamp(kd_vec *v, int64_t n, float *x, double low, double high, kd_err *err);
/// x = known where mask is 0.
int kd_vec_keep(kd_vec *v, int64_t n, float *x, const float *known, const float *mask, kd_err *err);
/// first [n]: for each image of x [n,size] with an element that is NaN or beyond +-limit, `code`, unless it is set already
/// (not 0).
int kd_vec_check(kd_vec *v, int64_t n, int64_t size, int64_t *first, const float *x, double limit, int64_t code, kd_err *err);

/// Which image each row of a vector is, for its noise: I64 [n], U64 [n,2] (seed and 0), on the backend.
typedef struct kd_vec_images { int64_t *index; uint64_t *rng; } kd_vec_images;
/// z [n,size]: unit normals of images first .. first + n - 1.
int kd_vec_normal(kd_vec *v, int64_t n, int64_t size, float *z, const kd_vec_images *images, int64_t first, kd_draw_attr draw, kd_err *err);
int kd_vec_brownian(kd_vec *v, int64_t n, int64_t size, float *z, const kd_vec_images *images, int64_t first, kd_brownian_attr path,
                    kd_err *err);
#endif
