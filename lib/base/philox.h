// Private to random.c, random_normal.c and the kernels' mask.h: Philox on several counters at once, in loops that the
// compiler turns into vector code. Integers only, and IEEE operations that round alike everywhere, so all widths give the
// same bits.
#ifndef KD_PHILOX_H
#define KD_PHILOX_H
#include "base/random.h"
#include <assert.h>
#include <string.h>

enum { LANES = 16 };                  // counters at once: one AVX-512 register of words

#if defined __x86_64__ && defined __GNUC__ && !defined __clang__
#define VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))   // chosen when the program starts
#else
#define VECTOR_CLONES
#endif

typedef struct philox { uint32_t x0, x1, x2, x3, k0, k1; } philox;

// The paper's: two odd multipliers; key increments from the golden ratio and sqrt(3) - 1.
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

static inline __attribute__((always_inline)) philox philox_round(philox p)
{
    const uint64_t p0 = (uint64_t)PHILOX_M0 * p.x0, p1 = (uint64_t)PHILOX_M1 * p.x2;
    return (philox){ (uint32_t)(p1 >> 32) ^ p.x1 ^ p.k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ p.x3 ^ p.k1, (uint32_t)p0,
                     p.k0 + PHILOX_W0, p.k1 + PHILOX_W1 };
}

// Ten rounds, written out: a loop in here would keep the loop over lanes from becoming vector code.
static inline __attribute__((always_inline)) void philox_rounds(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d, uint64_t key)
{
    philox p = { *a, *b, *c, *d, (uint32_t)key, (uint32_t)(key >> 32) };
    p = philox_round(philox_round(philox_round(philox_round(philox_round(p)))));
    p = philox_round(philox_round(philox_round(philox_round(philox_round(p)))));
    *a = p.x0, *b = p.x1, *c = p.x2, *d = p.x3;
}

// Blocks block .. block + LANES - 1 of a stream: word k of block i in w[k][i].
static inline __attribute__((always_inline)) void philox_lanes(uint32_t w[4][LANES], const kd_rng *r, uint32_t block)
{
#pragma omp simd
    for (int i = 0; i < LANES; i++) {
        uint32_t a = r->word0, b = r->word1, c = r->word2, d = block + (uint32_t)i;
        philox_rounds(&a, &b, &c, &d, r->seed);
        w[0][i] = a, w[1][i] = b, w[2][i] = c, w[3][i] = d;
    }
}

// Elements first .. first + n - 1, computed 4 * LANES at a time from whole blocks.
static inline void for_lanes(const kd_rng *r, float *out, uint64_t first, int64_t n,
                             void (*lanes)(const kd_rng *, uint32_t block, float *))
{
    assert(n >= 0 && first + (uint64_t)n <= 1ull << 34);
    uint64_t skip = first % 4;
    for (uint64_t block = first / 4; n > 0; block += LANES) {
        float buf[4 * LANES];
        const int64_t have = 4 * LANES - (int64_t)skip, take = n < have ? n : have;
        const int whole = take == 4 * LANES;
        lanes(r, (uint32_t)block, whole ? out : buf);
        if (!whole)
            memcpy(out, buf + skip, (size_t)take * sizeof *out);
        out += take;
        n -= take;
        skip = 0;
    }
}
#endif
