// Dropout's masks: for dropout of elements and channels, and of attention's probabilities. Drawn anew each time, never stored.
#ifndef KD_MASK_H
#define KD_MASK_H
#include "base/philox.h"
#include "op/backend.h"
#include <math.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

// Philox (base/philox.h) on DL blocks at once, each word in a lane of 64 bits: there one instruction makes a whole product of
// two words, and what is left in a lane's high half is never looked at. Element 4 i + k of the mask is word k of block i.
#if defined KD_ISA_avx512
enum { DL = 8 };
#elif defined KD_ISA_avx2
enum { DL = 4 };
#else
enum { DL = 2 };
#endif
typedef uint64_t words __attribute__((vector_size(8 * DL)));
typedef uint32_t halves __attribute__((vector_size(8 * DL)));
typedef int32_t signs __attribute__((vector_size(8 * DL)));
typedef float factors __attribute__((vector_size(8 * DL), aligned(4), may_alias));

#if defined KD_ISA_avx512
#define PRODUCT(a, b) ((words)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#define PAIRS(a, b, at) __builtin_shufflevector(a, b, at, at + 8, at + 1, at + 9, at + 2, at + 10, at + 3, at + 11)
#elif defined KD_ISA_avx2
#define PRODUCT(a, b) ((words)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#define PAIRS(a, b, at) __builtin_shufflevector(a, b, at, at + 4, at + 1, at + 5)
#elif defined __SSE2__
#define PRODUCT(a, b) ((words)_mm_mul_epu32((__m128i)(a), (__m128i)(b)))
#define PAIRS(a, b, at) __builtin_shufflevector(a, b, at, at + 2)
#else
#define PRODUCT(a, b) (((a) & 0xffffffff) * (b))
#define PAIRS(a, b, at) __builtin_shufflevector(a, b, at, at + 2)
#endif

enum { MASK_DRAW = 64 };                        // elements of a mask drawn at once

/// How an image's mask is drawn. limit: a word's high 24 bits below it are dropped, that is a uniform below the rate.
typedef struct mask { kd_rng rng; uint32_t limit; float scale; } mask;

/// rng [2]: the seed and the step
static inline mask mask_of(const uint64_t *rng, uint32_t layer, int64_t image, double rate)
{
    return (mask){ kd_rng_of(rng[0], KD_RNG_DROPOUT, layer, (uint64_t)image, (uint32_t)rng[1]),
                   (uint32_t)ceil(ldexp(rate, 24)), (float)(1 / (1 - rate)) };
}

/// keep[MASK_DRAW] = 0 or scale, for the elements from `first`, a multiple of 4, on.
static inline void mask_draw(const mask *m, int64_t first, float *keep)
{
    const kd_rng *const r = &m->rng;
    const uint32_t block = (uint32_t)(first / 4);
    const words zero = { 0 }, m0 = zero + PHILOX_M0, m1 = zero + PHILOX_M1;
    for (int at = 0; at < MASK_DRAW; at += 4 * DL) {
        words x0 = zero + r->word0, x1 = zero + r->word1, x2 = zero + r->word2, x3;
        for (int i = 0; i < DL; i++) x3[i] = block + (uint32_t)(at / 4 + i);
        uint32_t k0 = (uint32_t)r->seed, k1 = (uint32_t)(r->seed >> 32);
#pragma GCC unroll 10
        for (int round = 0; round < 10; round++, k0 += PHILOX_W0, k1 += PHILOX_W1) {
            const words p0 = PRODUCT(x0, m0), p1 = PRODUCT(x2, m1);
            x0 = p1 >> 32 ^ x1 ^ k0, x1 = p1;
            x2 = p0 >> 32 ^ x3 ^ k1, x3 = p0;
        }
        const words a = (x0 & 0xffffffff) | x1 << 32, b = (x2 & 0xffffffff) | x3 << 32;
        const halves w[2] = { (halves)PAIRS(a, b, 0), (halves)PAIRS(a, b, DL / 2) };
        for (int h = 0; h < 2; h++) {
            const signs kept = (signs)(w[h] >> 8) >= (int32_t)m->limit;
            *(factors *)(keep + at + 2 * DL * h) = (factors)(kept & (signs)((factors){ 0 } + m->scale));
        }
    }
}

#endif
