// Shapes, frames, and conversion between dtypes.
#include "tensor/tensor.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void names_and_shapes(void **state)
{
    (void)state;
    for (int i = 0; i < KD_DTYPES; i++) {
        kd_dtype t;
        assert_true(kd_dtype_parse(kd_dtype_name((kd_dtype)i), &t));
        assert_int_equal(t, i);
    }
    kd_dtype t;
    assert_false(kd_dtype_parse("F33", &t));
    char buf[64];
    kd_shape s = KD_SHAPE(2, 3), scalar = {0}, other = KD_SHAPE(2, 3, 1);
    assert_string_equal(kd_shape_str(buf, sizeof buf, &s), "[2,3]");
    assert_string_equal(kd_shape_str(buf, sizeof buf, &scalar), "[]");
    assert_string_equal(kd_shape_str(buf, 4, &s), "[2,");
    assert_int_equal(kd_shape_count(&s), 6);
    assert_int_equal(kd_shape_count(&scalar), 1);
    assert_true(kd_shape_same(&s, &s));
    assert_false(kd_shape_same(&s, &other));
}

static void frames_hold_in_order(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_frame *f = kd_frame_new();
    float mine[6] = {0};
    char name[16];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "t%d", i);
        kd_tensor *t;
        assert_int_equal(kd_frame_add(f, name, KD_F32, KD_SHAPE(2, 3), i % 2 ? mine : NULL, &t, &err), 0);
        assert_true(t->borrowed == (i % 2 == 1));
        assert_int_equal(kd_tensor_bytes(t), 24);
        assert_int_equal(kd_frame_set_meta(f, name, "v", &err), 0);
    }
    assert_string_equal(f->t[17].name, "t17");
    assert_ptr_equal(kd_frame_get(f, "t39"), &f->t[39]);
    assert_null(kd_frame_get(f, "t40"));
    assert_int_equal(kd_frame_set_meta(f, "t3", "w", &err), 0);
    assert_int_equal(kd_frame_set_meta(f, "t4", NULL, &err), 0);
    assert_int_equal(kd_frame_set_meta(f, "none", NULL, &err), 0);
    assert_string_equal(kd_frame_meta(f, "t3"), "w");
    assert_null(kd_frame_meta(f, "t4"));
    assert_string_equal(f->key[4], "t5");
    assert_int_equal(f->n_meta, 39);
    kd_frame_free(f);
    kd_frame_free(NULL);
}

static uint16_t half_of(double x, kd_dtype t)
{
    uint16_t h;
    kd_convert(&h, t, &x, KD_F64, 1);
    return h;
}

static double of_half(uint16_t h, kd_dtype t)
{
    double x;
    kd_convert(&x, KD_F64, &h, t, 1);
    return x;
}

// Every 16-bit float is its own rounding; half way between two neighbours the even one is taken, beyond it the nearer.
static void halves_round_to_nearest_even(void **state)
{
    (void)state;
    static const struct { kd_dtype t; uint16_t inf; } kinds[] = { { KD_F16, 0x7c00 }, { KD_BF16, 0x7f80 } };
    for (int k = 0; k < 2; k++) {
        const kd_dtype t = kinds[k].t;
        for (uint32_t h = 0; h < kinds[k].inf; h++) {
            const double x = of_half((uint16_t)h, t), last = of_half((uint16_t)(kinds[k].inf - 1), t);
            const double next = h + 1 < kinds[k].inf ? of_half((uint16_t)(h + 1), t)
                                                     : last + (last - of_half((uint16_t)(kinds[k].inf - 2), t));
            const double middle = x + (next - x) / 2;
            assert_int_equal(half_of(x, t), h);
            assert_int_equal(half_of(-x, t), h | 0x8000);
            assert_int_equal(half_of(middle, t), h + (h & 1));
            assert_int_equal(half_of(nextafter(middle, 0), t), h);
            assert_int_equal(half_of(nextafter(middle, INFINITY), t), h + 1);
        }
        assert_int_equal(half_of(INFINITY, t), kinds[k].inf);
        assert_int_equal(half_of(1e300, t), kinds[k].inf);
        assert_int_equal(half_of(1e-300, t), 0);
        assert_true(isnan(of_half(half_of(NAN, t), t)));
        assert_true(isinf(of_half(kinds[k].inf, t)));
        assert_true(isnan(of_half(kinds[k].inf | 1, t)));
    }
    assert_true(of_half(0x3c00, KD_F16) == 1 && of_half(1, KD_F16) == 0x1p-24 && of_half(0x7bff, KD_F16) == 65504);
    assert_true(of_half(0x3f80, KD_BF16) == 1 && of_half(1, KD_BF16) == 0x1p-133);
}

// The short way from f32 to bf16 and from halves to f32 gives what the long one gives.
static void shortcuts_agree(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1u << 20; i++) {
        const uint32_t u = (uint32_t)(i * 4099 + (i << 20));
        float x, y;
        memcpy(&x, &u, sizeof x);
        const double wide = x;
        uint16_t a, b;
        kd_convert(&a, KD_BF16, &x, KD_F32, 1);
        kd_convert(&b, KD_BF16, &wide, KD_F64, 1);
        assert_true(a == b || isnan(x));
        kd_convert(&y, KD_F32, &a, KD_BF16, 1);
        assert_true(isnan(x) ? isnan(y) : y == (float)of_half(a, KD_BF16));
    }
    for (uint32_t h = 0; h < 65536; h++) {
        const uint16_t half = (uint16_t)h;
        float x;
        kd_convert(&x, KD_F32, &half, KD_F16, 1);
        const double e = (h >> 10 & 31) ? ldexp(1024 + (h & 1023), (int)(h >> 10 & 31) - 25) : ldexp(h & 1023, -24);
        if ((h >> 10 & 31) < 31)
            assert_true(x == (h & 0x8000 ? -e : e));
    }
}

#define CONVERTS(want_t, ...) do { const want_t want[] = { __VA_ARGS__ }; want_t got[16]; \
        kd_convert(got, to, in, from, sizeof want / sizeof *want); assert_memory_equal(got, want, sizeof want); } while (0)
static void integers_saturate(void **state)
{
    (void)state;
    kd_dtype from = KD_F64, to = KD_I8;
    const double reals[] = { 0.5, 1.5, -2.5, 127.4, 128, -1e30, INFINITY, NAN }, *in = reals;
    CONVERTS(int8_t, 0, 2, -2, 127, 127, -128, 127, 0);
    to = KD_U8;
    CONVERTS(uint8_t, 0, 2, 0, 127, 128, 0, 255, 0);
    to = KD_I64;
    CONVERTS(int64_t, 0, 2, -2, 127, 128, INT64_MIN, INT64_MAX, 0);
    to = KD_U64;
    CONVERTS(uint64_t, 0, 2, 0, 127, 128, 0, UINT64_MAX, 0);
    to = KD_BOOL;
    CONVERTS(uint8_t, 1, 1, 1, 1, 1, 1, 1, 1);
}

static void between_integers(void **state)
{
    (void)state;
    kd_dtype from = KD_I64, to = KD_I32;
    const int64_t signs[] = { 0, -1, INT64_MIN, INT64_MAX, 300 };
    const void *in = signs;
    CONVERTS(int32_t, 0, -1, INT32_MIN, INT32_MAX, 300);
    to = KD_U16;
    CONVERTS(uint16_t, 0, 0, 0, 65535, 300);
    to = KD_F32;
    CONVERTS(float, 0, -1, -0x1p63f, 0x1p63f, 300);
    const uint64_t big[] = { UINT64_MAX, (1ull << 54) + (1ull << 30) + 1 };      // by way of double it would round to even
    in = big, from = KD_U64;
    CONVERTS(float, 0x1p64f, 0x1.000002p54f);
    to = KD_I64;
    CONVERTS(int64_t, INT64_MAX, (1ll << 54) + (1 << 30) + 1);
    const uint8_t flags[] = { 0, 1, 7 };
    in = flags, from = KD_BOOL, to = KD_F32;
    CONVERTS(float, 0, 1, 1);
}

static void long_runs(void **state)
{
    (void)state;
    enum { N = 1000 };
    uint8_t bytes[N + 1], back[N + 1] = { [N] = 77 };
    double wide[N];
    for (int i = 0; i < N; i++)
        bytes[i] = (uint8_t)(i * 7);
    kd_convert(wide, KD_F64, bytes, KD_U8, N);
    kd_convert(back, KD_U8, wide, KD_F64, N);
    assert_memory_equal(bytes, back, N);
    assert_int_equal(back[N], 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_shapes), cmocka_unit_test(frames_hold_in_order),
        cmocka_unit_test(halves_round_to_nearest_even), cmocka_unit_test(shortcuts_agree),
        cmocka_unit_test(integers_saturate), cmocka_unit_test(between_integers), cmocka_unit_test(long_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
