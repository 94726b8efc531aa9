// Philox4x32-10 and what is drawn from it, but the normals (random_normal.c). Read random.h first.
#include "base/random.h"
#include "base/io.h"
#include "base/philox.h"
#include <assert.h>
#include <string.h>

kd_rng kd_rng_of(uint64_t seed, int purpose, uint32_t node, uint64_t image, uint32_t step)
{
    assert(purpose > 0 && purpose < 65536 && node < 65536 && image >> 40 == 0 && step >> 24 == 0);
    return (kd_rng){ .seed = seed, .word0 = (uint32_t)purpose << 16 | node, .word1 = (uint32_t)image,
                     .word2 = (uint32_t)(image >> 32) << 24 | step };
}

void kd_philox(uint32_t out[4], const uint32_t counter[4], uint64_t key)
{
    memcpy(out, counter, 4 * sizeof *out);
    philox_rounds(&out[0], &out[1], &out[2], &out[3], key);
}

uint32_t kd_rng_u32(const kd_rng *r, uint64_t element)
{
    assert(element >> 34 == 0);
    const uint32_t counter[4] = { r->word0, r->word1, r->word2, (uint32_t)(element / 4) };
    uint32_t out[4];
    kd_philox(out, counter, r->seed);
    return out[element % 4];
}

float kd_rng_uniform(const kd_rng *r, uint64_t element)
{
    return (float)(kd_rng_u32(r, element) >> 8) * 0x1p-24f;
}

VECTOR_CLONES static void uniform_lanes(const kd_rng *r, uint32_t block, float out[4 * LANES])
{
    uint32_t w[4][LANES];
    philox_lanes(w, r, block);
#pragma omp simd
    for (int i = 0; i < LANES; i++) {
        out[4 * i] = (float)(int32_t)(w[0][i] >> 8) * 0x1p-24f;
        out[4 * i + 1] = (float)(int32_t)(w[1][i] >> 8) * 0x1p-24f;
        out[4 * i + 2] = (float)(int32_t)(w[2][i] >> 8) * 0x1p-24f;
        out[4 * i + 3] = (float)(int32_t)(w[3][i] >> 8) * 0x1p-24f;
    }
}

void kd_rng_uniforms(const kd_rng *r, float *out, uint64_t first, int64_t n)
{
    for_lanes(r, out, first, n, uniform_lanes);
}

// One round's pseudo-random half: any function of (half, round, epoch, seed) makes the network a permutation.
static uint64_t feistel_half(uint64_t seed, uint64_t epoch, uint32_t half, uint32_t round)
{
    const uint32_t counter[4] = { (uint32_t)KD_RNG_SHUFFLE << 16 | round, half, (uint32_t)epoch, (uint32_t)(epoch >> 32) };
    uint32_t out[4];
    kd_philox(out, counter, seed);
    return out[0];
}

// Black and Rogaway 2002, "Ciphers with arbitrary finite domains": a Feistel network permutes 0 .. 4^b - 1 >= n; walking
// its cycle until the value is below n permutes 0 .. n - 1. b is at least 3: networks on fewer bits reach few of the
// permutations. Eight rounds; at most 4 walks on average once n > 16.
uint64_t kd_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i)
{
    enum { ROUNDS = 8 };
    assert(i < n);
    int bits = 3;
    while (bits < 32 && (n - 1) >> 2 * bits)
        bits++;
    const uint64_t mask = (1ull << bits) - 1;
    do {
        uint64_t left = i >> bits, right = i & mask;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            const uint64_t next = left ^ (feistel_half(seed, epoch, (uint32_t)right, round) & mask);
            left = right;
            right = next;
        }
        i = left << bits | right;
    } while (i >= n);
    return i;
}

uint32_t kd_rng_node(const char *name)
{
    uint64_t h = kd_hash_of(name, strlen(name));
    h ^= h >> 32;
    return (uint32_t)((h ^ h >> 16) & 0xffff);
}
