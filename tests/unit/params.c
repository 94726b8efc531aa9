// Parameters: k-diffusion's names, shapes, groups and order; first values and what they depend on.
#include "base/json.h"
#include "base/memory.h"
#include "formats/safetensors.h"
#include "model/net.h"
#include "tests/support/fault.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static kd_config *config(const char *path)
{
    kd_config *c;
    kd_err err = {0};
    if (kd_config_load(&c, path, &err))
        fail_msg("%s", err.msg);
    return c;
}

static kd_params *params_of(const kd_config *c)
{
    kd_params *ps;
    kd_err err = {0};
    if (kd_params_of(&ps, c, &err))
        fail_msg("%s", err.msg);
    return ps;
}

static json_t *golden(const char *path)
{
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    return root;
}

static void check_layout(const kd_params *ps)
{
    int64_t at = 0, trained = 0;
    int group = 0;
    for (int i = 0; i < ps->n; i++) {
        const kd_param_info *p = &ps->p[i];
        const int g = p->group < 0 ? 4 : p->group;
        assert_true(g >= group);
        for (; group < g; group++)
            assert_int_equal(ps->group_end[group], at);
        assert_int_equal(p->offset, at);
        assert_int_equal(p->offset % 16, 0);
        assert_int_equal(p->count, kd_shape_count(&p->shape));
        assert_int_equal(p->group < 0, (p->tags & KD_TAG_BUFFER) != 0);
        at += (p->count + 15) / 16 * 16;
        trained += p->group < 0 ? 0 : p->count;
    }
    assert_int_equal(ps->group_end[4], at);
    assert_int_equal(ps->total, at);
    assert_int_equal(ps->trained, ps->group_end[3]);
    assert_int_equal(ps->n_trained, trained);
}

/// The eight configs that k-diffusion ships: its state_dict.
static void test_shapes(void **state)
{
    (void)state;
    static const char *const names[] = { "config_cifar10_transformer.json", "config_mnist_transformer.json",
                                         "config_oxford_flowers.json", "config_oxford_flowers_shifted_window.json",
                                         "config_32x32_small.json", "config_32x32_small_butterflies.json", "config_cifar10.json",
                                         "config_mnist.json" };
    json_t *all = golden("tests/golden/configs/state_dict_shapes.json");
    for (int i = 0; i < 8; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/golden/configs/%s", names[i]);
        kd_config *c = config(path);
        kd_params *ps = params_of(c);
        const json_t *want = json_object_get(json_object_get(all, names[i]), "state_dict");
        const char *name;
        json_t *shape;
        assert_int_equal(ps->n, json_object_size(want));
        assert_int_equal(ps->n_trained, json_integer_value(json_object_get(json_object_get(all, names[i]), "n_params")));
        json_object_foreach((json_t *)want, name, shape) {
            const kd_param_info *p = kd_params_find(ps, name);
            if (!p)
                fail_msg("%s: no %s", names[i], name);
            assert_int_equal(p->shape.n, json_array_size(shape));
            for (int d = 0; d < p->shape.n; d++)
                assert_int_equal(p->shape.d[d], json_integer_value(json_array_get(shape, d)));
        }
        check_layout(ps);
        kd_params_free(ps);
        kd_config_free(c);
    }
    json_decref(all);
}

static void check_groups(const kd_params *ps, const json_t *groups)
{
    int i = 0;
    for (size_t g = 0; g < json_array_size(groups); g++) {
        const json_t *names = json_array_get(groups, g);
        for (size_t k = 0; k < json_array_size(names); k++, i++) {
            assert_true(i < ps->n);
            assert_string_equal(ps->p[i].name, json_string_value(json_array_get(names, k)));
            assert_int_equal(ps->p[i].group, g);
        }
    }
    for (; i < ps->n; i++)
        assert_int_equal(ps->p[i].group, -1);
    check_layout(ps);
}

/// Groups with their parameters in the optimizer's order, of all models that the file has.
static void test_groups(void **state)
{
    (void)state;
    json_t *all = golden("tests/golden/param_groups.json"), *entry;
    const char *model;
    assert_true(json_object_size(all) >= 6);
    json_object_foreach(all, model, entry) {
        char path[128];
        snprintf(path, sizeof path, "tests/golden/%s.config.json", model);
        kd_config *c = config(path);
        kd_params *ps = params_of(c);
        check_groups(ps, json_object_get(entry, "names"));
        kd_params_free(ps);
        kd_config_free(c);
    }
    json_decref(all);
}

/// Names and shapes of weights files of networks that no shipped config has; those of skipped stages too.
static void test_golden_shapes(void **state)
{
    (void)state;
    static const char *const names[] = { "unet_full", "unet_patch2_var", "unet_skip_stage", "v1t_plain", "v1t_classes" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        kd_frame *f;
        kd_err err = {0};
        snprintf(path, sizeof path, "tests/golden/%s.config.json", names[i]);
        kd_config *c = config(path);
        kd_params *ps = params_of(c);
        snprintf(path, sizeof path, "tests/golden/%s.weights.safetensors", names[i]);
        assert_int_equal(kd_safetensors_load(path, &f, &err), 0);
        assert_int_equal(f->n, ps->n);
        for (int k = 0; k < f->n; k++) {
            const kd_param_info *p = kd_params_find(ps, f->t[k].name);
            if (!p || !kd_shape_same(&p->shape, &f->t[k].shape))
                fail_msg("%s: %s", names[i], f->t[k].name);
        }
        kd_frame_free(f);
        kd_params_free(ps);
        kd_config_free(c);
    }
}

// First values -----------------------------------------------------------------------------------------------------

static float *fresh(const kd_params *ps, uint64_t seed)
{
    float *w = kd_alloc((size_t)ps->total * sizeof *w);
    assert_non_null(w);
    kd_params_init(ps, seed, w);
    return w;
}

static bool ends(const char *name, const char *suffix)
{
    const size_t n = strlen(name), k = strlen(suffix);
    return n >= k && !strcmp(name + n - k, suffix);
}

static void check_constant(const kd_param_info *p, const float *w, float value)
{
    for (int64_t i = 0; i < p->count; i++)
        if (w[i] != value)
            fail_msg("%s[%d] is %g, not %g", p->name, (int)i, (double)w[i], (double)value);
}

/// Mean, variance and fourth moment within 6 deviations of theirs; kurtosis is m4 / m2^2: 9/5 uniform, 3 normal.
static void check_moments(const kd_param_info *p, const float *w, double m2, double kurtosis)
{
    double s1 = 0, s2 = 0, s4 = 0;
    const double n = (double)p->count;
    for (int64_t i = 0; i < p->count; i++)
        s1 += w[i], s2 += (double)w[i] * w[i], s4 += pow(w[i], 4);
    const double m4 = kurtosis * m2 * m2, m8 = kurtosis == 3 ? 105 * pow(m2, 4) : pow(3 * m2, 4) / 9;
    if (fabs(s1 / n) > 6 * sqrt(m2 / n) || fabs(s2 / n - m2) > 6 * sqrt((m4 - m2 * m2) / n) ||
        fabs(s4 / n - m4) > 6 * sqrt((m8 - m4 * m4) / n))
        fail_msg("%s: moments %g %g %g, expected 0 %g %g", p->name, s1 / n, s2 / n, s4 / n, m2, m4);
}

static void check_uniform(const kd_param_info *p, const float *w)
{
    const double bound = 1 / sqrt((double)p->count / (double)p->shape.d[0]);
    float least = 0, most = 0;
    for (int64_t i = 0; i < p->count; i++)
        least = fminf(least, w[i]), most = fmaxf(most, w[i]);
    assert_true(least >= -bound * (1 + 1e-6) && most <= bound * (1 + 1e-6));
    if (p->count > 1000)
        assert_true(most > bound * 0.98 && least < -bound * 0.98);
    check_moments(p, w, bound * bound / 3, 9.0 / 5);
}

/// The list of the peer's first values, written once more.
static void test_init(void **state)
{
    (void)state;
    kd_config *c = config("tests/golden/configs/config_cifar10_transformer.json");
    kd_params *ps = params_of(c);
    float *w = fresh(ps, 7);
    for (int i = 0; i < ps->n; i++) {
        const kd_param_info *p = &ps->p[i];
        const float *at = w + p->offset;
        if (ends(p->name, "out_proj.weight") || ends(p->name, "down_proj.weight") || ends(p->name, "norm.linear.weight") ||
            !strcmp(p->name, "patch_out.proj.weight"))
            check_constant(p, at, 0);
        else if (ends(p->name, "self_attn.scale"))
            check_constant(p, at, 10);
        else if (ends(p->name, "norm.scale"))
            check_constant(p, at, 1);
        else if (ends(p->name, ".fac"))
            check_constant(p, at, 0.5f);
        else if (ends(p->name, "_emb.weight"))                              // class_emb, time_emb, aug_emb
            check_moments(p, at, 1, 3);
        else if (!ends(p->name, "pos_emb.freqs"))
            check_uniform(p, at);
        for (int64_t k = p->count; k < (p->count + 15) / 16 * 16; k++)
            assert_true(at[k] == 0);
    }
    kd_free(w);
    kd_params_free(ps);
    kd_config_free(c);
}

/// Rows, or columns if they are fewer, orthonormal; and not the same twice.
static void check_orthogonal(const kd_param_info *p, const float *w)
{
    const int64_t rows = p->shape.d[0], cols = p->count / rows, n = rows < cols ? rows : cols, m = rows < cols ? cols : rows;
    const int64_t across = rows < cols ? cols : 1, along = rows < cols ? 1 : cols;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double dot = 0;
            for (int64_t k = 0; k < m; k++)
                dot += (double)w[i * across + k * along] * w[j * across + k * along];
            if (fabs(dot - (i == j)) > 1e-6)
                fail_msg("%s: vectors %d and %d have the product %g", p->name, (int)i, (int)j, dot);
        }
    for (int64_t i = 0; i < p->count; i++)
        sum += w[i];
    assert_true(fabs(sum) < 6 * sqrt((double)n));          // no preferred direction
}

static void check_bias(const kd_param_info *p, const float *w, const kd_params *ps)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s.weight", (int)(strlen(p->name) - 5), p->name);
    const kd_param_info *weight = kd_params_find(ps, name);
    assert_non_null(weight);
    const double bound = sqrt((double)weight->shape.d[0] / (double)weight->count);
    float most = 0;
    for (int64_t i = 0; i < p->count; i++)
        most = fmaxf(most, fabsf(w[i]));
    assert_true(most <= bound * (1 + 1e-6) && most > bound / 2);
}

/// The peer's first values of an image_v1 (the rule is at kd_params_init), written once more.
static void test_init_image_v1(void **state)
{
    (void)state;
    kd_config *c = config("tests/golden/unet_full.config.json");
    kd_params *ps = params_of(c);
    float *w = fresh(ps, 7);
    int orthogonal = 0;
    for (int i = 0; i < ps->n; i++) {
        const kd_param_info *p = &ps->p[i];
        const float *at = w + p->offset;
        if (ends(p->name, ".kernel"))
            for (int k = 0; k < 16; k++)
                assert_true(at[k] == (strstr(p->name, "u_blocks") ? 4 : 1) * (k / 4 % 3 ? 3 : 1) * (k % 4 % 3 ? 3 : 1) / 64.0f);
        else if (strstr(p->name, "mapper.") || strstr(p->name, "main.6.") || strstr(p->name, "out_proj.") || strstr(p->name, "proj_out.") ||
                 ends(p->name, "norm_enc.bias"))
            check_constant(p, at, 0);
        else if (ends(p->name, "norm_enc.weight"))
            check_constant(p, at, 1);
        else if (ends(p->name, "skip.weight") || (strstr(p->name, ".mapping.") && ends(p->name, ".weight")))
            check_orthogonal(p, at), orthogonal++;
        else if (ends(p->name, "timestep_embed.weight"))
            check_moments(p, at, 1, 3);
        else if (ends(p->name, ".bias"))
            check_bias(p, at, ps);
        else
            check_uniform(p, at);
    }
    assert_true(orthogonal > 4);
    kd_free(w);
    kd_params_free(ps);
    kd_config_free(c);
}

static void test_init_v1(void **state)
{
    (void)state;
    kd_config *c = config("tests/golden/v1t_classes.config.json");
    kd_params *ps = params_of(c);
    float *w = fresh(ps, 7);
    for (int i = 0; i < ps->n; i++) {
        const kd_param_info *p = &ps->p[i];
        const float *at = w + p->offset;
        const bool scale = ends(p->name, "qk_norm.scale");
        assert_true(scale ? p->most == (float)log(100) : isinf(p->most));
        if (scale)
            check_constant(p, at, (float)log(10));
        else if (strstr(p->name, "freqs_"))
            for (int64_t k = 0; k < p->count; k++)
                assert_true(fabs(at[k] - (log(M_PI) + (double)(k % 16) / 15 * log(5))) < 1e-6);
        else if (ends(p->name, "out_proj.weight") || ends(p->name, "down_proj.weight") || ends(p->name, "norm.linear.weight"))
            check_constant(p, at, 0);
        else if (ends(p->name, ".scale"))
            check_constant(p, at, 1);
        else if (ends(p->name, "_emb.weight"))
            check_moments(p, at, 1, 3);
        else
            check_uniform(p, at);
    }
    kd_free(w);
    kd_params_free(ps);
    kd_config_free(c);
}

/// freqs[h][j] = pi 10^((j heads + h) / (heads d_head/8)), here with 8 heads of 64.
static void test_rope(void **state)
{
    (void)state;
    kd_config *c = config("tests/golden/configs/config_cifar10_transformer.json");
    kd_params *ps = params_of(c);
    float *w = fresh(ps, 7);
    const kd_param_info *p = kd_params_find(ps, "mid_level.3.self_attn.pos_emb.freqs");
    assert_non_null(p);
    assert_int_equal(p->shape.d[0], 8);
    assert_int_equal(p->shape.d[1], 8);
    for (int h = 0; h < 8; h++)
        for (int j = 0; j < 8; j++)
            assert_true(fabs(w[p->offset + 8 * h + j] / (M_PI * pow(10, (8 * j + h) / 64.0)) - 1) < 1e-7);
    kd_free(w);
    kd_params_free(ps);
    kd_config_free(c);
}

static int64_t hash_free_difference(const float *a, const float *b, int64_t n)
{
    int64_t different = 0;
    for (int64_t i = 0; i < n; i++)
        different += memcmp(&a[i], &b[i], sizeof *a) != 0;
    return different;
}

/// The same seed gives the same bytes, another one others; and a parameter's values depend on its name alone, not on
/// which other parameters the model has.
static void test_seed(void **state)
{
    (void)state;
    kd_config *c = config("tests/golden/v2_global.config.json"), *d = config("tests/golden/v2_shifted_window.config.json");
    kd_params *ps = params_of(c), *qs = params_of(d);
    float *a = fresh(ps, 1), *b = fresh(ps, 1), *other = fresh(ps, 2), *e = fresh(qs, 1);
    assert_memory_equal(a, b, (size_t)ps->total * sizeof *a);
    const kd_param_info *p = kd_params_find(ps, "patch_in.proj.weight"), *up = kd_params_find(ps, "mid_level.0.ff.up_proj.weight"),
                        *next = kd_params_find(ps, "mid_level.1.ff.up_proj.weight");
    assert_true(hash_free_difference(a + p->offset, other + p->offset, p->count) > p->count * 9 / 10);
    assert_int_equal(up->count, next->count);
    assert_true(hash_free_difference(a + up->offset, a + next->offset, up->count) > up->count * 9 / 10);
    int shared = 0;
    for (int i = 0; i < ps->n; i++) {
        const kd_param_info *q = kd_params_find(qs, ps->p[i].name);
        if (!q || !kd_shape_same(&q->shape, &ps->p[i].shape))
            continue;
        assert_memory_equal(a + ps->p[i].offset, e + q->offset, (size_t)q->count * sizeof *a);
        shared += q->init == KD_INIT_FAN_IN || q->init == KD_INIT_NORMAL;
    }
    assert_true(shared > 0);
    kd_free(a);
    kd_free(b);
    kd_free(other);
    kd_free(e);
    kd_params_free(ps);
    kd_params_free(qs);
    kd_config_free(c);
    kd_config_free(d);
}

/// KD_FAIL_ALLOC is read once a process, so this program calls itself, with an argument: 0 if the parameters were all there.
static int declare_once(void)
{
    kd_config *c;
    kd_params *ps = NULL;
    kd_err err = {0};
    int code = kd_config_load(&c, "tests/golden/v2_none_mapcond.config.json", &err);
    if (!code && !(code = kd_params_of(&ps, c, &err)) && (ps->n != 37 || ps->n_trained != 25140))
        code = 98;
    kd_params_free(ps);
    kd_config_free(c);
    return code;
}

/// Memory that runs out at any point is an error, never a parameter less.
static void test_no_memory(void **state)
{
    (void)state;
    const int n = fault_each_allocation("params", "declare");
    assert_true(n > 100 && n < 10000);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return declare_once();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes), cmocka_unit_test(test_groups), cmocka_unit_test(test_golden_shapes), cmocka_unit_test(test_init),
        cmocka_unit_test(test_init_image_v1), cmocka_unit_test(test_init_v1), cmocka_unit_test(test_rope), cmocka_unit_test(test_seed),
        cmocka_unit_test(test_no_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
