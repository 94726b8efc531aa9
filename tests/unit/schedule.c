// Learning rates and EMA decays against golden lr_ema.json.
#include "train/schedule.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static json_t *golden(void)
{
    json_t *j = json_load_file("tests/golden/lr_ema.json", 0, NULL);
    assert_non_null(j);
    return j;
}

static double get(const json_t *o, const char *key, double otherwise)
{
    const json_t *v = json_object_get(o, key);
    return v ? json_number_value(v) : otherwise;
}

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-12 * fabs(want)) fail_msg("got %.17g, want %.17g", got, want);
}

static void learning_rates(void **state)
{
    (void)state;
    json_t *j = golden(), *steps = json_object_get(j, "steps"), *one;
    size_t i, n = 0;
    json_array_foreach(json_object_get(j, "cases"), i, one) {
        const char *type = json_string_value(json_object_get(one, "type"));
        const json_t *a = json_object_get(one, "args");
        kd_config c = { .lr_type = !strcmp(type, "InverseLR") ? KD_LR_INVERSE : !strcmp(type, "ExponentialLR") ? KD_LR_EXPONENTIAL
                                                                                                            : KD_LR_CONSTANT,
                        .lr_warmup = get(a, "warmup", 0), .lr_inv_gamma = get(a, "inv_gamma", 1), .lr_power = get(a, "power", 1),
                        .lr_min = get(a, "min_lr", 0), .lr_num_steps = get(a, "num_steps", 1), .lr_decay = get(a, "decay", 0.5) };
        for (size_t k = 0; k < json_array_size(steps); k++, n++)
            near(kd_lr_at(&c, 1e-3, json_integer_value(json_array_get(steps, k))),
                 json_number_value(json_array_get(json_object_get(one, "lr"), k)));
    }
    assert_int_equal(n, 99);
    json_decref(j);
}

// The cases that a config can express: inv_gamma 1, min_value 0, start_at 0. The toy average of the file checks that
// decay k belongs to update k.
static void ema_decays(void **state)
{
    (void)state;
    json_t *j = golden(), *steps = json_object_get(j, "steps"), *one;
    size_t i, cases = 0;
    json_array_foreach(json_object_get(j, "ema"), i, one) {
        const json_t *a = json_object_get(one, "args");
        if (json_object_get(a, "inv_gamma")) continue;
        kd_config c = { .ema_power = get(a, "power", 0), .ema_max = get(a, "max_value", 0) };
        double ema = 0.25;
        size_t k = 0;
        for (int64_t step = 0; k < json_array_size(steps); step++) {
            const double decay = kd_ema_decay_at(&c, step);
            ema += (1 - decay) * (sin(0.01 * (double)(step + 1)) - ema);
            if (step != json_integer_value(json_array_get(steps, k))) continue;
            near(decay, json_number_value(json_array_get(json_object_get(one, "decay"), k)));
            near(ema, json_number_value(json_array_get(json_object_get(one, "ema"), k)));
            k++;
        }
        cases++;
    }
    assert_int_equal(cases, 3);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(learning_rates), cmocka_unit_test(ema_decays) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
