// Dropout by element or by channel, its mask drawn anew each time.    op: lib/op/dropout.c
#include "base/random.h"
#include "cpu/kernels/rows.h"
#ifdef __SSE2__
#include <immintrin.h>
#endif

typedef struct job {
    int64_t count, c;                      // elements and channels an image
    const float *x;
    const int64_t *index;
    float *y, scale;
    uint32_t limit, node;                  // a word's high 24 bits below limit: dropped, that is a uniform below p
    const kd_run *run;
} job;

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

enum { DRAW = 64 };                        // elements of a mask drawn at once

/// keep[DRAW] = 0 or scale, for the elements of blocks `block` and on.
static inline void draw_mask(const job *j, const kd_rng *r, uint32_t block, float *keep)
{
    const words zero = { 0 }, m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u;
    for (int at = 0; at < DRAW; at += 4 * DL) {
        words x0 = zero + r->word0, x1 = zero + r->word1, x2 = zero + r->word2, x3;
        for (int i = 0; i < DL; i++) x3[i] = block + (uint32_t)(at / 4 + i);
        uint32_t k0 = (uint32_t)r->seed, k1 = (uint32_t)(r->seed >> 32);
#pragma GCC unroll 10
        for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
            const words p0 = PRODUCT(x0, m0), p1 = PRODUCT(x2, m1);
            x0 = p1 >> 32 ^ x1 ^ k0, x1 = p1;
            x2 = p0 >> 32 ^ x3 ^ k1, x3 = p0;
        }
        const words a = (x0 & 0xffffffff) | x1 << 32, b = (x2 & 0xffffffff) | x3 << 32;
        const halves w[2] = { (halves)PAIRS(a, b, 0), (halves)PAIRS(a, b, DL / 2) };
        for (int h = 0; h < 2; h++) {
            const signs kept = (signs)(w[h] >> 8) >= (int32_t)j->limit;
            *(factors *)(keep + at + 2 * DL * h) = (factors)(kept & (signs)((factors){ 0 } + j->scale));
        }
    }
}

static void tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    const kd_rng rng = kd_rng_of(j->run->seed, KD_RNG_DROPOUT, j->node, (uint64_t)j->index[p.image], j->run->step);
    const float *x = j->x + p.image * j->count;
    float *y = j->y + p.image * j->count;
    for (int64_t i = p.first; i < p.end; i += DRAW) {
        float keep[DRAW];
        draw_mask(j, &rng, (uint32_t)(i / 4), keep);
        const int64_t n = p.end - i < DRAW ? p.end - i : DRAW;
#pragma GCC ivdep
        for (int64_t k = 0; k < n; k++) y[i + k] = x[i + k] * keep[k];
    }
}

/// DRAW channels of an image: one draw, then all its rows.
static void channels_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->c, DRAW);
    const kd_rng rng = kd_rng_of(j->run->seed, KD_RNG_DROPOUT, j->node, (uint64_t)j->index[p.image], j->run->step);
    float keep[DRAW];
    draw_mask(j, &rng, (uint32_t)(p.first / 4), keep);
    for (int64_t at = p.image * j->count + p.first; at < (p.image + 1) * j->count; at += j->c) {
        const float *x = j->x + at;
        float *y = j->y + at;
#pragma GCC ivdep
        for (int64_t k = 0; k < p.end - p.first; k++) y[k] = x[k] * keep[k];
    }
}

static job job_of(const kd_node *n, const kd_run *run)
{
    const int64_t images = images_of(n->in[0]);
    return (job){ .count = images ? kd_count(n->in[0]) / images : 0, .c = kd_last(n->in[0]), .x = n->in[0]->data,
                  .index = n->in[1]->data, .y = n->out[0]->data, .scale = (float)(1 / (1 - n->f[0])),
                  .limit = (uint32_t)ceil(ldexp(n->f[0], 24)), .node = (uint32_t)n->i[0], .run = run };
}

static int dropout(const kd_node *n, const kd_run *run, void *scratch, kd_err *err)
{
    (void)scratch, (void)err;
    job j = job_of(n, run);
    kd_parallel(images_of(n->in[0]) * blocks_of(j.count, ELEMENTS), tile, &j);
    return 0;
}

static int dropout_channels(const kd_node *n, const kd_run *run, void *scratch, kd_err *err)
{
    (void)scratch, (void)err;
    job j = job_of(n, run);
    kd_parallel(images_of(n->in[0]) * blocks_of(j.c, DRAW), channels_tile, &j);
    return 0;
}

const kd_kernel KD_KERNEL(dropout) = { dropout, NULL };
const kd_kernel KD_KERNEL(dropout_channels) = { dropout_channels, NULL };
