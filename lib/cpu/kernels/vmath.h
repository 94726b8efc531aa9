// Elementary functions for kernels: branch-free float code that gcc vectorises inside a loop for every instruction set.
// No tables, no libm; NaN stays NaN.
//
// The coefficients were fitted in double precision on 400 to 3000 Chebyshev points by weighted least squares, the weights
// iterated until the largest error is level (Lawson), then rounded to float. The fits' own errors stand beside them.
#ifndef KD_VMATH_H
#define KD_VMATH_H
#include <stdint.h>
#include <string.h>

static inline float kd_bits_float(uint32_t u) { float f; memcpy(&f, &u, sizeof f); return f; }
static inline uint32_t kd_float_bits(float f) { uint32_t u; memcpy(&u, &f, sizeof u); return u; }

/// e^x within about 1 ulp. Exactly 0 below -86.9 (the result would be near the smallest normal number; also for
/// -infinity), infinity from 88.73 on.
static inline float kd_vexp(float x)
{
    const float round = 12582912;                              // 1.5 * 2^23: adding it leaves an integer in the low bits
    float c = x < -86.9f ? -86.9f : x;
    c = c > 89 ? 89 : c;
    float t = c * 1.44269504f + round;                         // n = nearest integer to x / ln 2
    float n = t - round;
    float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;    // ln 2 in two parts (Cody & Waite); n * the first is exact
    float p = 1.38144661e-3f;                                  // e^r = 1 + r + r^2 p(r), |r| <= ln(2)/2: fit 3e-9
    p = p * r + 8.36878084e-3f;
    p = p * r + 4.16683927e-2f;
    p = p * r + 1.66665196e-1f;
    p = p * r + 4.9999994e-1f;
    p = (p * r) * r + r;
    p = 2 * p + 2;
    float scale = kd_bits_float((kd_float_bits(t) - kd_float_bits(round) + 126u) << 23);   // 2^(n-1): n may be 128
    return x < -86.9f ? 0 : p * scale;
}

/// The normal distribution at a >= 0: e = exp(-a^2/2) and its upper tail P(X > a) = (1 - k) e / 2, as the pair (e, k).
/// 1 - k = erfcx(a / sqrt 2) = 1 - a d(a)/q(a), a rational of degree 3: fit 1e-8 in the tail. k has small relative
/// error near 0, so that nothing cancels there.
static inline float kd_vtail(float a, float *e)
{
    a = a > 14 ? 14 : a;                                       // there e is 0
    float d = 0.0815508657f;
    d = d * a + 0.429951403f;
    d = d * a + 0.797885645f;
    float q = 0.0812510796f;
    q = q * a + 0.499155608f;
    q = q * a + 1.16554292f;
    q = q * a + 1;
    *e = kd_vexp(-0.5f * a * a);
    return a * d / q;
}

/// The error function, absolute error below 1.5e-7.
static inline float kd_verf(float x)
{
    float e, k = kd_vtail(1.41421356f * __builtin_fabsf(x), &e);
    return __builtin_copysignf((1 - e) + e * k, x);
}

/// GELU by the error function: x P(X < x) = max(x, 0) - |x| P(X > |x|), which subtracts nothing in the negative tail.
static inline float kd_vgelu(float x)
{
    float e, a = __builtin_fabsf(x);
    a = a > 14 ? 14 : a;
    float k = kd_vtail(a, &e);
    return (x > 0 ? x : 0) - 0.5f * a * (e - e * k);
}

/// GELU, and in *slope its derivative P(X < x) + x exp(-x^2 / 2) / sqrt(2 pi), from one tail.
static inline float kd_vgelu_slope(float x, float *slope)
{
    float e, a = __builtin_fabsf(x);
    a = a > 14 ? 14 : a;
    float k = kd_vtail(a, &e), tail = 0.5f * (e - e * k), pull = 0.398942280f * a * e;
    *slope = x > 0 ? 1 - tail + pull : tail - pull;
    return (x > 0 ? x : 0) - a * tail;
}

/// The derivative alone.
static inline float kd_vgelu_grad(float x)
{
    float slope;
    kd_vgelu_slope(x, &slope);
    return slope;
}

/// 1 / (1 + e^-x)
static inline float kd_vsigmoid(float x) { return 1 / (1 + kd_vexp(-x)); }

#endif
