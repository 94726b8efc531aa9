// What the memory-bound kernels share: how an image's rows or elements are cut into tiles, and sums along a row in an order
// that depends on the length alone. (Left to itself gcc would not vectorise a float sum; told to by `omp simd` it may start
// at an aligned address, and then the order would depend on where the row lies.)
#ifndef KD_ROWS_H
#define KD_ROWS_H
#include "cpu/kernel.h"
#include <math.h>
#include <string.h>

enum { ROWS = 64, ELEMENTS = 4096 };       // a tile, by rows and by elements

typedef struct span { int64_t image, first, end; } span;

/// Tile t, where each image has n items cut into blocks.
static inline span span_of(int64_t t, int64_t n, int64_t block)
{
    const int64_t per = ceil_div(n, block), first = t % per * block;
    return (span){ t / per, first, first + block < n ? first + block : n };
}

static inline int64_t images_of(const kd_val *v) { return v->shape.n ? v->shape.d[0] : 1; }
static inline void *data_of(const kd_val *v) { return v ? v->data : NULL; }
static inline void *data_used(const kd_val *v) { return v && v->used ? v->data : NULL; }

// 16 floats, or 8 doubles, wherever they lie. Only ever local: no vector crosses a call.
typedef float f16 __attribute__((vector_size(64)));
typedef float f16u __attribute__((vector_size(64), aligned(4), may_alias));
typedef float f8u __attribute__((vector_size(32), aligned(4), may_alias));
typedef double d8 __attribute__((vector_size(64)));

#define LOAD(p) (*(const f16u *)(p))
typedef float f8 __attribute__((vector_size(32)));
typedef float f4 __attribute__((vector_size(16)));

/// Sum of the lanes, in halves. A macro's worth of code: a vector is not passed by value.
static inline float fold(const f16 *v)
{
    const f8 a = __builtin_shufflevector(*v, *v, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(*v, *v, 8, 9, 10, 11, 12, 13, 14, 15);
    const f4 b = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
    return (b[0] + b[2]) + (b[1] + b[3]);
}

static inline float dot(const float *a, const float *b, int64_t n)
{
    f16 acc = { 0 };
    float tail = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) acc += LOAD(a + i) * LOAD(b + i);
    for (; i < n; i++) tail += a[i] * b[i];
    return fold(&acc) + tail;
}

/// Sum of a b (s + offset)
static inline float dot3(const float *a, const float *b, const float *s, float offset, int64_t n)
{
    f16 acc = { 0 };
    float tail = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) acc += LOAD(a + i) * LOAD(b + i) * (LOAD(s + i) + offset);
    for (; i < n; i++) tail += a[i] * b[i] * (s[i] + offset);
    return fold(&acc) + tail;
}
#endif
