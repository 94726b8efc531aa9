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

static inline int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

/// Tile t, where each image has n items cut into blocks.
static inline span span_of(int64_t t, int64_t n, int64_t block)
{
    const int64_t per = blocks_of(n, block), first = t % per * block;
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

static inline float fold16(float *v)
{
    for (int h = 8; h; h /= 2)
        for (int i = 0; i < h; i++) v[i] += v[i + h];
    return v[0];
}

#define LOAD(p) (*(const f16u *)(p))

static inline float dot(const float *a, const float *b, int64_t n)
{
    f16 acc = { 0 };
    float lane[16];
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) acc += LOAD(a + i) * LOAD(b + i);
    memcpy(lane, &acc, sizeof lane);
    for (int k = 0; i < n; i++, k++) lane[k] += a[i] * b[i];
    return fold16(lane);
}

/// Sum of a b (s + offset)
static inline float dot3(const float *a, const float *b, const float *s, float offset, int64_t n)
{
    f16 acc = { 0 };
    float lane[16];
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) acc += LOAD(a + i) * LOAD(b + i) * (LOAD(s + i) + offset);
    memcpy(lane, &acc, sizeof lane);
    for (int k = 0; i < n; i++, k++) lane[k] += a[i] * b[i] * (s[i] + offset);
    return fold16(lane);
}
#endif
