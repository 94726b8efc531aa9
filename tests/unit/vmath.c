// The vector functions of the kernels against libm in double precision.
#include "cpu/kernels/vmath.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { POINTS = 2000001 };

static float point(int i, double lo, double hi) { return (float)(lo + (hi - lo) * i / (POINTS - 1)); }
static double phi(double x) { return .5 * erfc(-x / sqrt(2)); }
static double gelu(double x) { return x * phi(x); }
static double gelu_grad(double x) { return phi(x) + x * exp(-x * x / 2) / sqrt(2 * M_PI); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/// Largest |f - ref| over lo..hi, divided by |ref| if relative.
static double worst(float (*f)(float), double (*ref)(double), double lo, double hi, int relative)
{
    double w = 0;
    for (int i = 0; i < POINTS; i++) {
        float x = point(i, lo, hi);
        double r = ref(x), e = fabs(f(x) - r) / (relative ? fabs(r) : 1);
        if (!(e <= w)) w = e;
    }
    return w;
}

static void exponential(void **state)
{
    (void)state;
    const double ulp = ldexp(1, -23);
    assert_true(worst(kd_vexp, exp, -86.9, 88.72, 1) < 1.1 * ulp);
    assert_true(worst(kd_vexp, exp, -1, 1, 1) < 1.1 * ulp);
    assert_true(kd_vexp(0) == 1 && kd_vexp(-0.f) == 1);
    assert_true(kd_vexp(-86.91f) == 0 && kd_vexp(-1e30f) == 0 && kd_vexp(-INFINITY) == 0);
    assert_true(isinf(kd_vexp(88.8f)) && isinf(kd_vexp(1e30f)) && isinf(kd_vexp(INFINITY)));
    assert_true(isnan(kd_vexp(NAN)));
}

static void error_function(void **state)
{
    (void)state;
    assert_true(worst(kd_verf, erf, -6, 6, 0) < 1.5e-7);
    assert_true(worst(kd_verf, erf, -.01, .01, 0) < 1.5e-7);
    assert_true(kd_verf(0) == 0 && kd_verf(1e30f) == 1 && kd_verf(-INFINITY) == -1);
    assert_true(isnan(kd_verf(NAN)));
}

static void gaussian_linear_unit(void **state)
{
    (void)state;
    assert_true(worst(kd_vgelu, gelu, -20, 0, 0) < 6e-8);
    assert_true(worst(kd_vgelu, gelu, -.1, .1, 1) < 3e-7);
    assert_true(worst(kd_vgelu, gelu, 1e-3, 20, 1) < 3e-7);
    assert_true(worst(kd_vgelu, gelu, -3, -1e-3, 1) < 1e-5);             // relative, in the negative tail too
    assert_true(worst(kd_vgelu_grad, gelu_grad, -20, 20, 0) < 2e-7);
    assert_true(kd_vgelu(-1e30f) == 0 && kd_vgelu(1e30f) == 1e30f && kd_vgelu(0) == 0);
    assert_true(isinf(kd_vgelu(INFINITY)) && kd_vgelu(-INFINITY) == 0);
    assert_true(kd_vgelu_grad(-INFINITY) == 0 && kd_vgelu_grad(INFINITY) == 1);
    assert_true(isnan(kd_vgelu(NAN)) && isnan(kd_vgelu_grad(NAN)));
}

static void logistic(void **state)
{
    (void)state;
    assert_true(worst(kd_vsigmoid, sigmoid, -86, 86, 1) < 3e-7);
    assert_true(kd_vsigmoid(-1e30f) == 0 && kd_vsigmoid(1e30f) == 1 && kd_vsigmoid(0) == .5f);
    assert_true(isnan(kd_vsigmoid(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential), cmocka_unit_test(error_function),
        cmocka_unit_test(gaussian_linear_unit), cmocka_unit_test(logistic) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
