// Conversion between dtypes: each value is widened exactly (to double, int64 or uint64), then rounded once.
#include "tensor/tensor.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum { BLOCK = 256 };
typedef enum { REAL, SIGNED, UNSIGNED } wide_kind;
typedef union wide { double f[BLOCK]; int64_t i[BLOCK]; uint64_t u[BLOCK]; } wide;

// 16-bit floats ------------------------------------------------------------------------------------------------

static inline float from_bits(uint32_t u) { float x; memcpy(&x, &u, sizeof x); return x; }

// f16's exponent is moved to f32's place, then scaled by 2^(127-15): subnormals come out right too. Infinity and NaN
// have the largest exponent, which scaling would leave finite.
static inline float from_f16(uint16_t h)
{
    const uint32_t rest = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    const float x = from_bits(rest) * 0x1p112f;
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if ((h & 0x7c00) == 0x7c00)
        u = rest | 0x7f800000;
    return from_bits(u | sign);
}

static inline float from_bf16(uint16_t h) { return from_bits((uint32_t)h << 16); }

// Rounds to nearest even into 1 sign bit, 15 - mantissa exponent bits, and the mantissa.
static uint16_t to_half(double x, int mantissa)
{
    const int bias = (1 << (14 - mantissa)) - 1, drop = 52 - mantissa;
    const uint16_t inf = (uint16_t)(0x7fff >> mantissa << mantissa);
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    const uint16_t sign = (uint16_t)(u >> 48 & 0x8000);
    u &= INT64_MAX;
    if (x != x)
        return (uint16_t)(sign | inf | 1 << (mantissa - 1));
    if (u >> 52 < (uint64_t)(1023 - bias + 1))                // subnormal there: count units of its last place
        return (uint16_t)(sign | (uint16_t)rint(ldexp(fabs(x), bias - 1 + mantissa)));
    u += (1ull << (drop - 1)) - 1 + (u >> drop & 1);
    const uint64_t h = (u >> drop) - ((uint64_t)(1023 - bias) << mantissa);
    return (uint16_t)(sign | (h < inf ? h : inf));
}

// bf16 is the upper half of f32: training and saving convert many of these.
static inline uint16_t to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    const uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)(x != x ? u >> 16 | 0x40 : rounded);
}

// To integers --------------------------------------------------------------------------------------------------

// NaN becomes 0. The limits are compared as doubles: 2^63 is one, 2^63 - 1 is not.
static int64_t real_to_signed(double x, int64_t lo, int64_t hi)
{
    const double r = rint(x);
    if (r != r)
        return 0;
    if (r >= 0x1p63)
        return hi;
    if (r < -0x1p63)
        return lo;
    const int64_t v = (int64_t)r;
    return v < lo ? lo : v > hi ? hi : v;
}

static uint64_t real_to_unsigned(double x, uint64_t hi)
{
    const double r = rint(x);
    if (!(r > 0))
        return 0;
    return r >= 0x1p64 || (uint64_t)r > hi ? hi : (uint64_t)r;
}

static int64_t to_signed(const wide *w, wide_kind kind, int k, int64_t lo, int64_t hi)
{
    if (kind == REAL)
        return real_to_signed(w->f[k], lo, hi);
    if (kind == UNSIGNED)
        return w->u[k] > (uint64_t)hi ? hi : (int64_t)w->u[k];
    return w->i[k] < lo ? lo : w->i[k] > hi ? hi : w->i[k];
}

static uint64_t to_unsigned(const wide *w, wide_kind kind, int k, uint64_t hi)
{
    if (kind == REAL)
        return real_to_unsigned(w->f[k], hi);
    if (kind == SIGNED && w->i[k] < 0)
        return 0;
    return w->u[k] > hi ? hi : w->u[k];
}

// A block ------------------------------------------------------------------------------------------------------

#define EACH(type, expr) do { const type *p = from; for (int k = 0; k < n; k++) { const type v = p[k]; expr; } } while (0)
static wide_kind widen(wide *w, const void *from, kd_dtype t, int n)
{
    switch (t) {
    case KD_F32: EACH(float, w->f[k] = v); return REAL;
    case KD_F64: EACH(double, w->f[k] = v); return REAL;
    case KD_F16: EACH(uint16_t, w->f[k] = from_f16(v)); return REAL;
    case KD_BF16: EACH(uint16_t, w->f[k] = from_bf16(v)); return REAL;
    case KD_I64: EACH(int64_t, w->i[k] = v); return SIGNED;
    case KD_I32: EACH(int32_t, w->i[k] = v); return SIGNED;
    case KD_I16: EACH(int16_t, w->i[k] = v); return SIGNED;
    case KD_I8: EACH(int8_t, w->i[k] = v); return SIGNED;
    case KD_U64: EACH(uint64_t, w->u[k] = v); return UNSIGNED;
    case KD_U32: EACH(uint32_t, w->u[k] = v); return UNSIGNED;
    case KD_U16: EACH(uint16_t, w->u[k] = v); return UNSIGNED;
    case KD_U8: EACH(uint8_t, w->u[k] = v); return UNSIGNED;
    case KD_BOOL: EACH(uint8_t, w->u[k] = v != 0); return UNSIGNED;
    default: assert(!"a dtype"); return REAL;
    }
}
#undef EACH

// int64 to float rounds once when converted directly, twice by way of double.
#define AS(type) (kind == REAL ? (type)w->f[k] : kind == SIGNED ? (type)w->i[k] : (type)w->u[k])
#define EACH(type, expr) do { type *p = to; for (int k = 0; k < n; k++) p[k] = (type)(expr); } while (0)
static void narrow(void *to, kd_dtype t, const wide *w, wide_kind kind, int n)
{
    switch (t) {
    case KD_F32: EACH(float, AS(float)); return;
    case KD_F64: EACH(double, AS(double)); return;
    case KD_F16: EACH(uint16_t, to_half(AS(double), 10)); return;
    case KD_BF16: EACH(uint16_t, to_half(AS(double), 7)); return;
    case KD_I64: EACH(int64_t, to_signed(w, kind, k, INT64_MIN, INT64_MAX)); return;
    case KD_I32: EACH(int32_t, to_signed(w, kind, k, INT32_MIN, INT32_MAX)); return;
    case KD_I16: EACH(int16_t, to_signed(w, kind, k, INT16_MIN, INT16_MAX)); return;
    case KD_I8: EACH(int8_t, to_signed(w, kind, k, INT8_MIN, INT8_MAX)); return;
    case KD_U64: EACH(uint64_t, to_unsigned(w, kind, k, UINT64_MAX)); return;
    case KD_U32: EACH(uint32_t, to_unsigned(w, kind, k, UINT32_MAX)); return;
    case KD_U16: EACH(uint16_t, to_unsigned(w, kind, k, UINT16_MAX)); return;
    case KD_U8: EACH(uint8_t, to_unsigned(w, kind, k, UINT8_MAX)); return;
    case KD_BOOL: EACH(uint8_t, kind == REAL ? w->f[k] != 0 : w->u[k] != 0); return;
    default: assert(!"a dtype");
    }
}
#undef EACH
#undef AS

void kd_convert(void *to, kd_dtype to_type, const void *from, kd_dtype from_type, int64_t n)
{
    const size_t a = kd_dtype_size(to_type), b = kd_dtype_size(from_type);
    if (n <= 0)
        return;
    if (to_type == from_type) {
        memcpy(to, from, (size_t)n * a);
        return;
    }
    if (to_type == KD_F32 && (from_type == KD_F16 || from_type == KD_BF16)) {        // loading weights
        for (int64_t i = 0; i < n; i++)
            ((float *)to)[i] = from_type == KD_F16 ? from_f16(((const uint16_t *)from)[i]) : from_bf16(((const uint16_t *)from)[i]);
        return;
    }
    if (to_type == KD_BF16 && from_type == KD_F32) {
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)to)[i] = to_bf16(((const float *)from)[i]);
        return;
    }
    for (int64_t i = 0; i < n; i += BLOCK) {
        wide w;
        const int k = n - i < BLOCK ? (int)(n - i) : BLOCK;
        const wide_kind kind = widen(&w, (const char *)from + (size_t)i * b, from_type, k);
        narrow((char *)to + (size_t)i * a, to_type, &w, kind, k);
    }
}
