// The gradient noise scale against k-diffusion's (golden gns).
#include "train/gns.h"
#include "tests/support/golden.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static double num(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    assert_true(json_is_number(v));
    return json_number_value(v);
}

static void near(double got, double want) { assert_true(fabs(got - want) <= 1e-12 * fabs(want)); }

static void test_golden(void **state)
{
    (void)state;
    json_t *root = json_load_file("tests/golden/gns.json", 0, NULL), *run, *update;
    size_t i, k, seen = 0;
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "runs"), i, run) {
        kd_gns g = kd_gns_start(num(run, "beta"), num(run, "eps"));
        json_array_foreach(json_object_get(run, "updates"), k, update) {
            double square, variance;
            const json_t *stats = json_object_get(update, "get_stats");
            kd_gns_update(&g, num(update, "sq_norm_small"), num(update, "sq_norm_big"), num(run, "n_small"), num(run, "n_big"));
            kd_gns_averages(&g, &square, &variance);
            near(kd_gns_value(&g), num(update, "gns"));
            near(square, json_number_value(json_array_get(stats, 0)));
            near(variance, json_number_value(json_array_get(stats, 1)));
            seen++;
        }
    }
    assert_int_equal(seen, 36);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_golden) };
    return cmocka_run_group_tests_name("gns", tests, NULL, NULL);
}
