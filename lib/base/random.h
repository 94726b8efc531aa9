// Random numbers: Philox4x32-10, a function of a key and a counter, so that nothing has to be stored or restored and
// nothing depends on threads, batches or processes. Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
#ifndef KD_RANDOM_H
#define KD_RANDOM_H
#include <stdint.h>

/// What a number is drawn for. In the high half of the counter's first word; the low half tells apart draws of one purpose.
enum {
    KD_RNG_INIT = 1,      // weights: node = 0, image = hash of the parameter's name
    KD_RNG_NOISE,         // training noise
    KD_RNG_SIGMA,         // training noise level
    KD_RNG_CLASS,         // class dropout
    KD_RNG_AUGMENT,       // augmentation draws
    KD_RNG_DROPOUT,       // node = hash of the layer's name
    KD_RNG_SHUFFLE,       // epoch permutations
    KD_RNG_START,         // sampling: the starting noise
    KD_RNG_STEP,          // sampling: ancestral noise of step i
    KD_RNG_BROWNIAN,      // sampling: nodes of the virtual Brownian tree
    KD_RNG_LABEL,         // sampling: random classes
    KD_RNG_PROBE,         // log-likelihood probes
    KD_RNG_TEST,
    KD_RNG_METRIC,        // resampling of feature vectors: node = side, image = number of the resampling
};

/// One stream: the seed, what for, which image, which step. Element e of it is drawn by block e / 4, lane e % 4.
typedef struct kd_rng {
    uint64_t seed;
    uint32_t word0;       // purpose << 16 | node
    uint32_t word1;       // image index, low 32 bits
    uint32_t word2;       // image index, bits 32..39 in the high 8 bits | step (24 bits)
} kd_rng;

/// node < 65536, image < 2^40, step < 2^24 (asserted).
kd_rng kd_rng_of(uint64_t seed, int purpose, uint32_t node, uint64_t image, uint32_t step);

/// The 10-round Philox4x32 block function (Random123's test vectors hold).
void kd_philox(uint32_t out[4], const uint32_t counter[4], uint64_t key);

uint32_t kd_rng_u32(const kd_rng *r, uint64_t element);
/// Uniform in [0, 1) with 24 bits: (u >> 8) * 2^-24, exact in f32.
float kd_rng_uniform(const kd_rng *r, uint64_t element);
/// Standard normal by Box-Muller on two words, in fixed arithmetic (polynomials, no libm, no contraction): the same
/// bits on every machine and backend. Elements 2i and 2i+1 share their words. |x| < 6.7.
void kd_rng_normal(const kd_rng *r, float *out, uint64_t first, int64_t n);
void kd_rng_uniforms(const kd_rng *r, float *out, uint64_t first, int64_t n);

/// A keyed permutation of 0..n-1: the image of i. Feistel network with cycle walking; epoch selects the permutation.
uint64_t kd_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i);

/// 16 bits from a name, for kd_rng_of's node: stable across graphs and versions (xxh3 of the bytes, folded).
uint32_t kd_rng_node(const char *name);

#endif
