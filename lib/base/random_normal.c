// Standard normals in fixed arithmetic: Box and Muller 1958, on Philox words. Every step is an IEEE operation that
// rounds alike on every machine (+ - * / sqrt, integer conversions); compiled without contraction of a*b+c (and with
// -fno-math-errno -fno-trapping-math, which change no bit, or the loop would stay scalar). A GPU that does the same steps
// draws the same bits.
#include "base/philox.h"
#include <math.h>

// Round to nearest of a 32-bit unsigned word plus one, by two exact halves: vector units convert signed words only.
static inline float word_plus_one(uint32_t w)
{
    return (float)(int32_t)(w >> 16) * 65536.0f + (float)(int32_t)((w & 0xffff) + 1);
}

// -2 ln u, u = (w + 1) / 2^32.
//   u = 2^e m, sqrt(1/2) <= m < sqrt(2), f = m - 1, s = f / (2 + f):   ln m = 2 atanh s = 2s (1 + s^2/3 + s^4/5 + ...)
// |s| < 0.172, so the first term left out is 2e-9 of the sum. Near u = 1 f comes from the word's complement, exact in
// relative terms where (float)u - 1 would have lost all its digits.
static inline float minus_2_ln(uint32_t w)
{
    const float x = word_plus_one(w);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t shifted = bits - 0x3f3504f3u;              // sqrt(1/2) as f32: m starts there
    const int32_t e = ((int32_t)shifted >> 23) - 32;
    bits = (shifted & 0x007fffff) + 0x3f3504f3u;
    float m;
    memcpy(&m, &bits, sizeof m);
    const uint32_t rest = ~w;                                 // 1 - u = rest / 2^32
    const float near_one = -((float)(int32_t)(rest & 0x7fffffff) * 0x1p-32f);
    const float f = rest < 0x40000000u ? near_one : m - 1.0f; // u > 3/4: e is 0 there
    const float s = f / (2.0f + f), z = s * s;
    float p = 1.0f / 11;
    p = p * z + 1.0f / 9;
    p = p * z + 1.0f / 7;
    p = p * z + 1.0f / 5;
    p = p * z + 1.0f / 3;
    const float ln_m = 2.0f * s + 2.0f * s * z * p;
    const float k = (float)e;
    // ln 2 = 0.693359375 - 2.1219444e-4: the first part has 9 bits, so its product with e is exact.
    return -2.0f * (k * 0.693359375f + (ln_m - k * 2.1219444e-4f));
}

// cos and sin of 2 pi w / 2^32. The nearest quarter turn q is taken off in integers; the rest |t| <= pi/4 goes into
// Taylor polynomials whose first term left out is below 3e-8 (cos) and 2e-9 (sin).
static inline void turn(uint32_t w, float *c, float *s)
{
    const uint32_t q = (w + 0x20000000u) >> 30;
    const float t = (float)(int32_t)(w - (q << 30)) * 1.46291807926715968e-9f;     // 2 pi / 2^32
    const float z = t * t;
    float a = 1.0f / 362880;
    a = a * z - 1.0f / 5040;
    a = a * z + 1.0f / 120;
    a = a * z - 1.0f / 6;
    const float sn = t + t * z * a;
    float b = -1.0f / 3628800;
    b = b * z + 1.0f / 40320;
    b = b * z - 1.0f / 720;
    b = b * z + 1.0f / 24;
    b = b * z - 0.5f;
    const float cs = 1.0f + z * b;
    const float c0 = q & 1 ? sn : cs, s0 = q & 1 ? cs : sn;
    *c = (q + 1) & 2 ? -c0 : c0;
    *s = q & 2 ? -s0 : s0;
}

VECTOR_CLONES static void normal_lanes(const kd_rng *r, uint32_t block, float out[4 * LANES])
{
    uint32_t w[4][LANES];
    philox_lanes(w, r, block);
#pragma omp simd
    for (int i = 0; i < LANES; i++) {
        const float r0 = sqrtf(minus_2_ln(w[0][i])), r1 = sqrtf(minus_2_ln(w[2][i]));
        float c0, s0, c1, s1;
        turn(w[1][i], &c0, &s0);
        turn(w[3][i], &c1, &s1);
        out[4 * i] = r0 * c0;
        out[4 * i + 1] = r0 * s0;
        out[4 * i + 2] = r1 * c1;
        out[4 * i + 3] = r1 * s1;
    }
}

void kd_rng_normal(const kd_rng *r, float *out, uint64_t first, int64_t n)
{
    for_lanes(r, out, first, n, normal_lanes);
}
