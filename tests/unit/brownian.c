// The virtual Brownian tree keeps its contract: one path, unit variance, sums, signs and correlations.
#include "base/brownian.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N = 40000 };
static const kd_brownian path = { .seed = 7, .index = 3, .t0 = 0.01, .t1 = 80 };
static float scratch[N], ab[N], bc[N], ac[N];

static double mean_product(const float *x, const float *y)
{
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)x[i] * y[i];
    return sum / N;
}

static void noise(double a, double b, float *out) { kd_brownian_noise(&path, a, b, out, 0, N, scratch); }

// Triples a > b > c: far apart, next to each other, at the ends, and as close as 10,000 Karras steps come.
static const double triples[][3] = { { 80, 40, 0.01 }, { 44.5, 23.4, 11.6 }, { 0.24596, 0.05947, 0.01 }, { 5, 4.999, 4.998 },
                                     { 0.0106, 0.0103, 0.01 }, { 40.005, 40.0049, 40.0048 } };
enum { TRIPLES = sizeof triples / sizeof *triples };

static void test_same_request(void **state)
{
    (void)state;
    noise(44.5, 23.4, ab);
    noise(11, 5, bc);                                  // another request between changes nothing
    noise(44.5, 23.4, ac);
    assert_memory_equal(ab, ac, sizeof ab);
    kd_brownian_noise(&path, 44.5, 23.4, ac, 0, 100, scratch);        // nor does the number of elements
    assert_memory_equal(ab, ac, 100 * sizeof *ab);
}

static void test_antisymmetry(void **state)
{
    (void)state;
    noise(44.5, 23.4, ab);
    noise(23.4, 44.5, ac);
    for (int i = 0; i < N; i++) assert_true(ab[i] == -ac[i]);
}

static void test_sum_rule(void **state)
{
    (void)state;
    for (int k = 0; k < TRIPLES; k++) {
        const double a = triples[k][0], b = triples[k][1], c = triples[k][2];
        noise(a, b, ab);
        noise(b, c, bc);
        noise(a, c, ac);
        double worst = 0;
        for (int i = 0; i < N; i++)
            worst = fmax(worst, fabs(sqrt(a - b) * ab[i] + sqrt(b - c) * bc[i] - sqrt(a - c) * ac[i]) / sqrt(a - c));
        if (!(worst < 5e-6)) fail_msg("(%g, %g, %g): error %.2g", a, b, c, worst);
    }
}

// A variance of N squares of unit normals has the deviation sqrt(2/N) = 0.007, a correlation at most 1/sqrt(N) = 0.005.
static void test_moments(void **state)
{
    (void)state;
    for (int k = 0; k < TRIPLES; k++) {
        const double a = triples[k][0], b = triples[k][1], c = triples[k][2];
        noise(a, b, ab);
        noise(b, c, bc);
        noise(a, c, ac);
        assert_true(fabs(mean_product(ab, ab) - 1) < 0.03);
        assert_true(fabs(mean_product(bc, bc) - 1) < 0.03);
        assert_true(fabs(mean_product(ac, ac) - 1) < 0.03);
        assert_true(fabs(mean_product(ab, bc)) < 0.02);                              // disjoint: independent
        assert_true(fabs(mean_product(ab, ac) - sqrt((a - b) / (a - c))) < 0.02);    // nested
    }
}

static void test_paths_differ(void **state)
{
    (void)state;
    const kd_brownian image = { 7, 4, 0.01, 80 }, seed = { 8, 3, 0.01, 80 };
    noise(44.5, 23.4, ab);
    kd_brownian_noise(&image, 44.5, 23.4, bc, 0, N, scratch);
    kd_brownian_noise(&seed, 44.5, 23.4, ac, 0, N, scratch);
    assert_true(fabs(mean_product(ab, bc)) < 0.02);
    assert_true(fabs(mean_product(ab, ac)) < 0.02);
}

static void test_bounds(void **state)
{
    (void)state;
    noise(80, 0.01, ab);
    noise(80.000001, 0.00999, ac);                     // clamped
    assert_memory_equal(ab, ac, sizeof ab);
    noise(5, 5, ab);
    for (int i = 0; i < N; i++) assert_true(ab[i] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_same_request), cmocka_unit_test(test_antisymmetry),
                                        cmocka_unit_test(test_sum_rule), cmocka_unit_test(test_moments),
                                        cmocka_unit_test(test_paths_differ), cmocka_unit_test(test_bounds) };
    return cmocka_run_group_tests_name("brownian", tests, NULL, NULL);
}
