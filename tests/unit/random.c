// Philox against Random123's known answers, the normals against the distribution and recorded bits, permutations.
#include "base/random.h"
#include "base/io.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// The line "philox 4x32 10" of kat_vectors in the tests of Random123 1.14.
static void philox_known_answers(void **state)
{
    (void)state;
    static const struct { uint32_t counter[4], key[2], want[4]; } kat[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff }, { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof kat / sizeof *kat; i++) {
        uint32_t out[4];
        kd_philox(out, kat[i].counter, (uint64_t)kat[i].key[1] << 32 | kat[i].key[0]);
        assert_memory_equal(out, kat[i].want, sizeof out);
    }
}

static void streams_differ(void **state)
{
    (void)state;
    const kd_rng a = kd_rng_of(1, KD_RNG_TEST, 2, 3, 4);
    const kd_rng other[] = { kd_rng_of(2, KD_RNG_TEST, 2, 3, 4), kd_rng_of(1, KD_RNG_NOISE, 2, 3, 4), kd_rng_of(1, KD_RNG_TEST, 3, 3, 4),
                             kd_rng_of(1, KD_RNG_TEST, 2, 4, 4), kd_rng_of(1, KD_RNG_TEST, 2, 3, 5),
                             kd_rng_of(1, KD_RNG_TEST, 2, 3 + (1ull << 32), 4), kd_rng_of(1ull << 32 | 1, KD_RNG_TEST, 2, 3, 4) };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_true(kd_rng_u32(&a, 0) != kd_rng_u32(&other[i], 0));
}

// Any cut of a range gives the range's numbers, and never touches what lies beside it.
static void cuts_agree(void (*draw)(const kd_rng *, float *, uint64_t, int64_t))
{
    enum { N = 333 };
    const kd_rng r = kd_rng_of(7, KD_RNG_TEST, 0, 0, 0);
    float all[N], part[N + 2];
    draw(&r, all, 0, N);
    for (int first = 0; first < 150; first += 7)
        for (int n = 0; n <= N - first; n += 13) {
            part[0] = part[n + 1] = 99;
            draw(&r, part + 1, (uint64_t)first, n);
            assert_memory_equal(part + 1, all + first, (size_t)n * sizeof *all);
            assert_true(part[0] == 99 && part[n + 1] == 99);
        }
    draw(&r, part, (1ull << 34) - 3, 3);                    // the last elements of a stream
}

static void ranges(void **state)
{
    (void)state;
    cuts_agree(kd_rng_normal);
    cuts_agree(kd_rng_uniforms);
    const kd_rng r = kd_rng_of(7, KD_RNG_TEST, 0, 0, 0);
    float u[100];
    kd_rng_uniforms(&r, u, 0, 100);
    for (int i = 0; i < 100; i++)
        assert_true(u[i] == kd_rng_uniform(&r, (uint64_t)i) && u[i] >= 0 && u[i] < 1);
}

// The normals against Box-Muller in double precision on the same words.
static void normal_is_box_muller(void **state)
{
    (void)state;
    enum { N = 1 << 18 };
    const kd_rng r = kd_rng_of(3, KD_RNG_TEST, 0, 0, 0);
    float *x = malloc(N * sizeof *x);
    double worst = 0;
    kd_rng_normal(&r, x, 0, N);
    for (int i = 0; i < N; i += 2) {
        const double u = (kd_rng_u32(&r, (uint64_t)i) + 1.0) * 0x1p-32, v = kd_rng_u32(&r, (uint64_t)i + 1) * 0x1p-32;
        const double radius = sqrt(-2 * log(u)), c = radius * cos(2 * M_PI * v), s = radius * sin(2 * M_PI * v);
        worst = fmax(worst, fmax(fabs(x[i] - c), fabs(x[i + 1] - s)) / (radius + 1e-12));
    }
    free(x);
    if (worst > 4e-7)
        fail_msg("largest error %.3g of the radius", worst);
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void normal_moments_and_shape(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    const kd_rng r = kd_rng_of(11, KD_RNG_TEST, 0, 5, 6);
    float *x = malloc(N * sizeof *x);
    kd_rng_normal(&r, x, 0, N);
    double m[5] = {0}, lag = 0;
    for (int i = 0; i < N; i++) {
        for (int k = 1; k <= 4; k++)
            m[k] += pow(x[i], k) / N;
        lag += i ? (double)x[i] * x[i - 1] / N : 0;
        assert_true(fabsf(x[i]) < 6.7f);
    }
    const double sd = 1 / sqrt(N);                                   // five standard errors each
    assert_true(fabs(m[1]) < 5 * sd);
    assert_true(fabs(m[2] - 1) < 5 * sqrt(2) * sd);
    assert_true(fabs(m[3]) < 5 * sqrt(15) * sd);
    assert_true(fabs(m[4] - 3) < 5 * sqrt(96) * sd);
    assert_true(fabs(lag) < 5 * sd);
    qsort(x, N, sizeof *x, by_value);
    double ks = 0;
    for (int i = 0; i < N; i++) {
        const double cdf = 0.5 * erfc(-x[i] / sqrt(2));
        ks = fmax(ks, fmax(fabs(cdf - (double)i / N), fabs(cdf - (i + 1.0) / N)));
    }
    assert_true(ks * sqrt(N) < 2.0);                                 // Kolmogorov: p < 7e-4
    for (double t = 2; t <= 4; t++) {                                // tails, each side
        int below = 0, above = 0;
        for (int i = 0; i < N; i++)
            below += x[i] < -t, above += x[i] > t;
        const double want = N * 0.5 * erfc(t / sqrt(2));
        assert_true(fabs(below - want) < 5 * sqrt(want) && fabs(above - want) < 5 * sqrt(want));
    }
    free(x);
}

// The bits themselves, so that no compiler, machine or change alters what a seed names.
static void recorded_bits(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    const kd_rng r = kd_rng_of(42, KD_RNG_TEST, 1, 2, 3);
    static float x[N], u[N];
    kd_rng_normal(&r, x, 0, N);
    kd_rng_uniforms(&r, u, 0, N);
    static const float want[4] = { 0x1.65c3eep-1f, -0x1.c2fbb4p-2f, 0x1.76411p-2f, -0x1.0bdee8p+0f };
    if (memcmp(x, want, sizeof want))
        fail_msg("normals are %a, %a, %a, %a", x[0], x[1], x[2], x[3]);
    const uint64_t hx = kd_hash_of(x, sizeof x), hu = kd_hash_of(u, sizeof u);
    if (hx != 0xdf66120318e88568ull || hu != 0x84772b6c19390606ull)
        fail_msg("hashes are 0x%016llx, 0x%016llx", (unsigned long long)hx, (unsigned long long)hu);
}

static void permutation_is_one(void **state)
{
    (void)state;
    static const uint64_t sizes[] = { 1, 2, 3, 7, 64, 65, 1000, 4099 };
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        char seen[4099] = {0};
        int fixed = 0;
        for (uint64_t i = 0; i < sizes[k]; i++) {
            const uint64_t j = kd_permute(5, 3, sizes[k], i);
            assert_true(j < sizes[k] && !seen[j]);
            seen[j] = 1;
            fixed += j == i;
        }
        assert_true(sizes[k] < 64 || fixed < 10);
    }
    assert_true(kd_permute(1, 0, 1ull << 40, 12345) < 1ull << 40);
    assert_true(kd_permute(1, 0, UINT64_MAX, 12345) < UINT64_MAX);
}

// All six orders of three come up equally often over epochs (chi-square, 5 degrees: 20.5 is p = 0.001).
static void permutations_are_fair(void **state)
{
    (void)state;
    enum { N = 6000 };
    int count[9] = {0};
    double chi = 0;
    for (uint64_t epoch = 0; epoch < N; epoch++)
        count[3 * kd_permute(9, epoch, 3, 0) + kd_permute(9, epoch, 3, 1)]++;
    for (int i = 0; i < 9; i++)
        if (i % 4)
            chi += pow(count[i] - N / 6.0, 2) / (N / 6.0);
    assert_true(chi < 20.5);
}

static void names_to_nodes(void **state)
{
    (void)state;
    assert_true(kd_rng_node("mapping.blocks.0.up.weight") < 65536);
    assert_true(kd_rng_node("a") != kd_rng_node("b"));
    assert_int_equal(kd_rng_node("patch_in.proj.weight"), 0x9619);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers), cmocka_unit_test(streams_differ),
        cmocka_unit_test(ranges), cmocka_unit_test(normal_is_box_muller),
        cmocka_unit_test(normal_moments_and_shape), cmocka_unit_test(recorded_bits),
        cmocka_unit_test(permutation_is_one), cmocka_unit_test(permutations_are_fair),
        cmocka_unit_test(names_to_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
