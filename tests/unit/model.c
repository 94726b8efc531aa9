// Models: the peer's files load, bad ones are refused with their reason, what is written comes back, and the network
// computes what the peer's does.
#include "device/device.h"
#include "model/model.h"
#include "base/memory.h"
#include "formats/safetensors.h"
#include "op/program.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define GOLDEN "tests/golden/"

static kd_model *load(const char *path)
{
    kd_model *m;
    kd_err err = {0};
    if (kd_model_load(&m, path, false, &err))
        fail_msg("%s", err.msg);
    return m;
}

static kd_frame *load_frame(const char *path)
{
    kd_frame *f;
    kd_err err = {0};
    if (kd_safetensors_load(path, &f, &err))
        fail_msg("%s", err.msg);
    return f;
}

static void save(const kd_frame *f, const char *path)
{
    kd_out *out = NULL;
    kd_err err = {0};
    if (kd_out_open(&out, path, true, &err) || kd_safetensors_write(out, f, &err) || kd_out_commit(out, &err))
        fail_msg("%s", err.msg);
    kd_out_close(out);
}

// Loading and writing ----------------------------------------------------------------------------------------------

static void test_peer_files(void **state)
{
    (void)state;
    static const char *const names[] = { "fp32", "fp16", "bf16" };
    kd_model *m[3];
    for (int i = 0; i < 3; i++) {
        char path[96];
        snprintf(path, sizeof path, GOLDEN "checkpoints/kdiff_inference.%s.safetensors", names[i]);
        m[i] = load(path);
        assert_null(m[i]->warning);
        assert_int_equal(strlen(m[i]->hash), 16);
        assert_int_equal(m[i]->params->total, m[0]->params->total);
    }
    for (int64_t k = 0; k < m[0]->params->total; k++) {
        const float w = m[0]->w[k], size = fabsf(w);
        assert_true(fabsf(m[1]->w[k] - w) <= fmaxf(size * 0x1p-11f, 0x1p-25f));       // half a unit, also of denormals
        assert_true(fabsf(m[2]->w[k] - w) <= size * 0x1p-8f);
    }
    assert_string_not_equal(m[0]->hash, m[1]->hash);
    for (int i = 0; i < 3; i++)
        kd_model_free(m[i]);
    kd_model *digits = load(GOLDEN "digits_run/digits.fp16.safetensors");
    assert_int_equal(digits->params->n_trained, 2432904);
    kd_model_free(digits);
}

/// Each dtype: written, loaded, written again: the same bytes. In F32 the same weights and the same name.
static void test_round_trip(void **state)
{
    (void)state;
    static const kd_dtype dtypes[] = { KD_F32, KD_F16, KD_BF16 };
    char path[] = "/tmp/kd-test-model-XXXXXX";
    close(mkstemp(path));
    kd_model *m = load(GOLDEN "v2_none_mapcond.weights.safetensors");
    for (int i = 0; i < 3; i++) {
        kd_frame *a, *b;
        kd_err err = {0};
        assert_int_equal(kd_model_frame(&a, m, dtypes[i], &err), 0);
        save(a, path);
        kd_model *back = load(path);
        assert_int_equal(kd_model_frame(&b, back, dtypes[i], &err), 0);
        assert_string_equal(kd_frame_meta(b, "kd"), "model/1");
        assert_string_equal(kd_frame_meta(b, "config"), m->config->json);
        assert_int_equal(a->n, b->n);
        for (int k = 0; k < a->n; k++) {
            assert_string_equal(a->t[k].name, b->t[k].name);
            assert_int_equal(a->t[k].dtype, dtypes[i]);
            assert_memory_equal(a->t[k].data, b->t[k].data, kd_tensor_bytes(&a->t[k]));
        }
        if (i == 0) {
            assert_memory_equal(m->w, back->w, (size_t)m->params->total * sizeof *m->w);
            assert_string_equal(m->hash, back->hash);
        }
        kd_frame_free(a);
        kd_frame_free(b);
        kd_model_free(back);
    }
    kd_model_free(m);
    unlink(path);
}

static void test_new(void **state)
{
    (void)state;
    kd_config *c[3];
    kd_model *m[3];
    char path[] = "/tmp/kd-test-model-XXXXXX";
    close(mkstemp(path));
    for (int i = 0; i < 3; i++) {
        kd_err err = {0};
        assert_int_equal(kd_config_load(&c[i], GOLDEN "v2_neighborhood_k7.config.json", &err), 0);
        assert_int_equal(kd_model_new(&m[i], c[i], i < 2 ? 5 : 6, &err), 0);
    }
    assert_memory_equal(m[0]->w, m[1]->w, (size_t)m[0]->params->total * sizeof(float));
    assert_string_equal(m[0]->hash, m[1]->hash);
    assert_string_not_equal(m[0]->hash, m[2]->hash);
    kd_frame *f;
    kd_err err = {0};
    assert_int_equal(kd_model_frame(&f, m[0], KD_F32, &err), 0);
    assert_string_equal(kd_frame_meta(f, "kd_seed"), "5");
    save(f, path);
    kd_model *back = load(path);
    assert_string_equal(back->hash, m[0]->hash);
    assert_string_equal(kd_frame_meta(back->meta, "kd_seed"), "5");
    kd_model_free(back);
    kd_frame_free(f);
    for (int i = 0; i < 3; i++)
        kd_model_free(m[i]);
    unlink(path);
}

static void test_too_large(void **state)
{
    (void)state;
    kd_model *m = load(GOLDEN "v2_global.weights.safetensors");
    kd_frame *f;
    kd_err err = {0};
    m->w[3] = 65519;                                        // rounds to 65504, the largest
    assert_int_equal(kd_model_frame(&f, m, KD_F16, &err), 0);
    kd_frame_free(f);
    m->w[3] = 70000;
    assert_int_equal(kd_model_frame(&f, m, KD_F16, &err), KD_EFAIL);
    assert_null(f);
    assert_string_equal(err.msg, "patch_in.proj.weight: its value 70000 does not fit F16");
    kd_model_free(m);
}

/// A checkpoint of these weights: the EMA is they, the trained ones are twice as large, one moment is there too.
static void save_checkpoint(const kd_frame *weights, const char *path)
{
    kd_frame *f = kd_frame_new();
    kd_err err = {0};
    for (int i = 0; i < weights->n; i++) {
        const kd_tensor *t = &weights->t[i];
        kd_tensor *copy;
        char name[128];
        for (int raw = 0; raw < 2; raw++) {
            snprintf(name, sizeof name, "%s%s", raw ? "model." : "ema.", t->name);
            assert_int_equal(kd_frame_add(f, name, t->dtype, t->shape, NULL, &copy, &err), 0);
            for (int64_t k = 0; k < kd_tensor_count(t); k++)
                ((float *)copy->data)[k] = ((const float *)t->data)[k] * (float)(1 + raw);
        }
        snprintf(name, sizeof name, "opt.m.%s", t->name);
        assert_int_equal(kd_frame_add(f, name, t->dtype, t->shape, NULL, &copy, &err), 0);
    }
    assert_int_equal(kd_frame_set_meta(f, "kd", "checkpoint/1", &err), 0);
    assert_int_equal(kd_frame_set_meta(f, "config", kd_frame_meta(weights, "config"), &err), 0);
    assert_int_equal(kd_frame_set_meta(f, "kd_step", "17", &err), 0);
    assert_int_equal(kd_frame_set_meta(f, "lr_step", "34", &err), 0);
    save(f, path);
    kd_frame_free(f);
}

static void test_checkpoint(void **state)
{
    (void)state;
    char path[] = "/tmp/kd-test-model-XXXXXX";
    close(mkstemp(path));
    kd_frame *weights = load_frame(GOLDEN "v2_global.weights.safetensors"), *f;
    save_checkpoint(weights, path);
    kd_model *plain = load(GOLDEN "v2_global.weights.safetensors"), *ema = load(path), *raw, *none;
    kd_err err = {0};
    assert_int_equal(kd_model_load(&raw, path, true, &err), 0);
    assert_string_equal(ema->hash, plain->hash);
    for (int64_t i = 0; i < plain->params->total; i++) {
        assert_true(ema->w[i] == plain->w[i]);
        assert_true(raw->w[i] == 2 * plain->w[i]);
    }
    assert_int_equal(kd_model_frame(&f, ema, KD_F32, &err), 0);
    assert_string_equal(kd_frame_meta(f, "kd"), "model/1");
    assert_string_equal(kd_frame_meta(f, "kd_step"), "17");
    assert_null(kd_frame_meta(f, "lr_step"));
    assert_int_equal(f->n, plain->params->n);
    kd_config *c;
    assert_int_equal(kd_config_load(&c, path, &err), 0);                    // a checkpoint is a config too
    assert_string_equal(c->json, plain->config->json);
    kd_config_free(c);
    assert_int_equal(kd_config_load(&c, GOLDEN "v2_global.config.json", &err), 0);
    assert_int_equal(kd_model_load_as(&none, path, c, &err), KD_EUSAGE);
    assert_non_null(strstr(err.msg, "a checkpoint has its own config"));
    kd_frame_free(f);
    kd_frame_free(weights);
    kd_model_free(plain);
    kd_model_free(ema);
    kd_model_free(raw);
    unlink(path);
}

// Bad files --------------------------------------------------------------------------------------------------------

static const char *damage(kd_frame *f, int how)
{
    kd_tensor *fac = kd_frame_get(f, "splits.0.fac"), *norm = kd_frame_get(f, "out_norm.scale");
    assert_non_null(fac);
    assert_non_null(norm);
    switch (how) {
    case 0:
        strcpy(fac->name, "splits.0.fae");
        return "1 missing: splits.0.fac; 1 unknown: splits.0.fae";
    case 1:
        norm->shape = KD_SHAPE(4, 8);
        return "1 of another shape or type: out_norm.scale [4,8], not [32]";
    case 2:
        norm->dtype = KD_I32;
        return "1 of another shape or type: out_norm.scale is I32";
    default:
        for (int i = 0; i < f->n; i++)
            f->t[i].name[0] = 'Z';
        return NULL;
    }
}

static void test_bad_files(void **state)
{
    (void)state;
    char path[] = "/tmp/kd-test-model-XXXXXX", want[256];
    close(mkstemp(path));
    for (int how = 0; how < 4; how++) {
        kd_frame *f = load_frame(GOLDEN "v2_neighborhood_k7.weights.safetensors");
        const char *message = damage(f, how);
        kd_model *m;
        kd_err err = {0};
        save(f, path);
        assert_int_equal(kd_model_load(&m, path, false, &err), KD_EUSAGE);
        assert_null(m);
        if (message) {
            snprintf(want, sizeof want, "%s: parameters do not fit its config: %s", path, message);
            assert_string_equal(err.msg, want);
        } else {
            assert_non_null(strstr(err.msg, " missing: "));
            assert_non_null(strstr(err.msg, " more; "));
        }
        kd_frame_free(f);
    }
    unlink(path);
}

static void set_config(kd_frame *f, const char *json)
{
    kd_err err = {0};
    assert_int_equal(kd_frame_set_meta(f, "config", json, &err), 0);
}

/// A model file of some weights with another config.
static int load_with(const char *json, kd_model **m, kd_err *err)
{
    char path[] = "/tmp/kd-test-model-XXXXXX";
    close(mkstemp(path));
    kd_frame *f = load_frame(GOLDEN "v2_global.weights.safetensors");
    set_config(f, json);
    save(f, path);
    const int code = kd_model_load(m, path, false, err);
    kd_frame_free(f);
    unlink(path);
    return code;
}

static void test_config_of_file(void **state)
{
    (void)state;
    kd_model *good = load(GOLDEN "v2_global.weights.safetensors"), *m;
    kd_err err = {0};
    assert_int_equal(load_with(NULL, &m, &err), KD_EFORMAT);
    assert_non_null(strstr(err.msg, "no config in its metadata"));
    err = (kd_err){0};
    assert_int_equal(load_with("{", &m, &err), KD_EFORMAT);
    err = (kd_err){0};
    assert_int_equal(load_with("{\"model\": {\"type\": \"image_v3\"}}", &m, &err), KD_EUSAGE);
    assert_non_null(strstr(err.msg, "model.type: expected image_transformer_v2, "));

    // A key that we do not know is only said, and stays in what we write.
    kd_str json = {0};
    err = (kd_err){0};
    assert_int_equal(kd_str_printf(&json, &err, "{\"extra\": 1, %s", good->config->json + 1), 0);
    assert_int_equal(load_with(json.p, &m, &err), 0);
    assert_non_null(strstr(m->warning, "unknown keys in its config: extra"));
    kd_model_free(m);
    free(json.p);
    kd_model_free(good);
}

static void test_load_as(void **state)
{
    (void)state;
    char path[] = "/tmp/kd-test-model-XXXXXX";
    close(mkstemp(path));
    kd_frame *f = load_frame(GOLDEN "v2_global.weights.safetensors");
    kd_config *c;
    kd_model *m;
    kd_err err = {0};
    set_config(f, NULL);
    save(f, path);
    assert_int_equal(kd_config_load(&c, GOLDEN "v2_global.config.json", &err), 0);
    assert_int_equal(kd_model_load_as(&m, path, c, &err), 0);
    kd_model_free(m);
    assert_int_equal(kd_config_load(&c, GOLDEN "v2_none_mapcond.config.json", &err), 0);
    assert_int_equal(kd_model_load_as(&m, path, c, &err), KD_EUSAGE);
    assert_null(m);
    kd_frame_free(f);
    unlink(path);
}

// The network ------------------------------------------------------------------------------------------------------

typedef struct run { kd_backend *be; kd_graph *g; kd_program *p; kd_net net; kd_net_in in; kd_val *f; } run;

static kd_val *input(kd_graph *g, const kd_frame *io, const char *name, kd_dtype dtype)
{
    const kd_tensor *t = kd_frame_get(io, name);
    return t ? kd_input(g, name, dtype, t->shape) : NULL;
}

static void build(run *r, const kd_model *m, const kd_frame *io)
{
    const kd_shape x = kd_frame_get(io, "x")->shape;         // N C H W
    kd_graph *g = r->g = kd_graph_new();
    r->net = (kd_net){ .g = g, .params = m->params, .leaf = kd_alloc((size_t)m->params->n * sizeof(kd_val *)) };
    r->in = (kd_net_in){ .x = kd_input(g, "x", KD_F32, KD_SHAPE(x.d[0], x.d[2], x.d[3], x.d[1])),
                         .c_noise = kd_input(g, "c_noise", KD_F32, KD_SHAPE(x.d[0], 1)),
                         .class_cond = input(g, io, "class_cond", KD_I64), .aug_cond = input(g, io, "aug_cond", KD_F32),
                         .mapping_cond = input(g, io, "mapping_cond", KD_F32) };
    r->f = kd_net_forward(&r->net, m->config, &r->in).f;
    kd_err err = {0};
    if (kd_graph_error(g, &err))
        fail_msg("%s", err.msg);
    assert_non_null(r->f);
    for (int i = 0; i < m->params->n; i++)
        if (r->net.leaf[i])
            kd_bind(r->net.leaf[i], m->w + m->params->p[i].offset);
    if (kd_program_new(&r->p, g, r->be, &r->f, 1, &err))
        fail_msg("%s", err.msg);
}

static void set(run *r, kd_val *v, const void *data)
{
    kd_err err = {0};
    if (v && kd_program_set(r->p, v, data, &err))
        fail_msg("%s", err.msg);
}

static void set_all(run *r, const kd_frame *io, double sigma_data)
{
    const kd_tensor *x = kd_frame_get(io, "x"), *sigma = kd_frame_get(io, "sigma"), *aug = kd_frame_get(io, "aug_cond"),
                    *class = kd_frame_get(io, "class_cond"), *mapping = kd_frame_get(io, "mapping_cond");
    const int64_t *d = x->shape.d, n = d[0], area = d[2] * d[3];
    float *scaled = kd_alloc(kd_tensor_bytes(x)), *c_noise = kd_alloc((size_t)n * sizeof *c_noise);
    for (int64_t i = 0; i < n; i++) {
        const double s = ((const float *)sigma->data)[i], c_in = 1 / sqrt(s * s + sigma_data * sigma_data);
        c_noise[i] = (float)(log(s) / 4);
        for (int64_t c = 0; c < d[1]; c++)
            for (int64_t k = 0; k < area; k++)
                scaled[(i * area + k) * d[1] + c] = (float)(c_in * ((const float *)x->data)[(i * d[1] + c) * area + k]);
    }
    set(r, r->in.x, scaled);
    set(r, r->in.c_noise, c_noise);
    if (aug)
        set(r, r->in.aug_cond, aug->data);
    if (class)
        set(r, r->in.class_cond, class->data);
    if (mapping)
        set(r, r->in.mapping_cond, mapping->data);
    kd_free(scaled);
    kd_free(c_noise);
}

/// Largest error over the largest value, as the tolerances of the golden files are defined.
static double error_of(const float *got, const kd_tensor *want)
{
    const int64_t *d = want->shape.d, area = d[2] * d[3];
    double worst = 0, most = 0;
    for (int64_t i = 0; i < d[0]; i++)
        for (int64_t c = 0; c < d[1]; c++)
            for (int64_t k = 0; k < area; k++) {
                const double w = ((const double *)want->data)[(i * d[1] + c) * area + k];
                worst = fmax(worst, fabs(got[(i * area + k) * d[1] + c] - w));
                most = fmax(most, fabs(w));
            }
    return worst / most;
}

/// Every kind of attention, level structure and condition against the float64 reference. tolerance: three times what
/// float32 PyTorch reaches.
static void test_forward(void **state)
{
    (void)state;
    static const struct { const char *name; double torch; } cases[] = {
        { "global", 9.8e-7 }, { "neighborhood_k3", 1.6e-5 }, { "neighborhood_k7", 6.3e-6 }, { "shifted_window", 9.9e-6 },
        { "shifted_window_mid", 3.0e-6 }, { "none_mapcond", 2.0e-6 }, { "loss_scales", 8.4e-7 }, { "simple_loss", 2.5e-6 } };
    kd_backend *be;
    kd_err err = {0};
    if (kd_device_open(&be, "cpu", &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[96];
        snprintf(path, sizeof path, GOLDEN "v2_%s.weights.safetensors", cases[i].name);
        kd_model *m = load(path);
        snprintf(path, sizeof path, GOLDEN "v2_%s.io.safetensors", cases[i].name);
        kd_frame *io = load_frame(path);
        const kd_tensor *want = kd_frame_get(io, "inner_out");
        float *got = kd_alloc((size_t)kd_tensor_count(want) * sizeof *got);
        run r = { .be = be };
        build(&r, m, io);
        set_all(&r, io, m->config->sigma_data);
        if (kd_program_run(r.p, &err) || kd_program_get(r.p, r.f, got, &err))
            fail_msg("%s", err.msg);
        const double error = error_of(got, want);
        if (!(error < 3 * cases[i].torch))
            fail_msg("%s: error %g, allowed %g", cases[i].name, error, 3 * cases[i].torch);
        kd_program_free(r.p);
        kd_free(r.net.leaf);
        kd_free(got);
        kd_frame_free(io);
        kd_model_free(m);
    }
    kd_backend_close(be);
}

/// Every parameter is used by the forward pass, in training with dropout and recomputation too.
static void test_all_used(void **state)
{
    (void)state;
    kd_model *m = load(GOLDEN "v2_shifted_window.weights.safetensors");
    for (int i = 0; i < m->config->v2.levels; i++)
        m->config->v2.level[i].dropout = 0.1;
    m->config->v2.mapping_dropout = 0.1;
    for (int checkpointing = 0; checkpointing < 2; checkpointing++) {
        kd_graph *g = kd_graph_new();
        kd_net net = { .g = g, .params = m->params, .train = true, .checkpointing = checkpointing,
                       .index = kd_input(g, "index", KD_I64, KD_SHAPE(2)), .rng = kd_input(g, "rng", KD_U64, KD_SHAPE(2)),
                       .leaf = kd_alloc((size_t)m->params->n * sizeof(kd_val *)) };
        const kd_net_in in = { .x = kd_input(g, "x", KD_F32, KD_SHAPE(2, m->config->size[0], m->config->size[1],
                                                                      m->config->channels)),
                               .c_noise = kd_input(g, "c_noise", KD_F32, KD_SHAPE(2, 1)) };
        kd_val *y = kd_net_forward(&net, m->config, &in).f;
        kd_err err = {0};
        if (kd_graph_error(g, &err))
            fail_msg("%s", err.msg);
        assert_true(kd_shape_same(&y->shape, &in.x->shape));
        for (int i = 0; i < m->params->n; i++)
            assert_non_null(net.leaf[i]);
        kd_free(net.leaf);
        kd_graph_free(g);
    }
    kd_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peer_files), cmocka_unit_test(test_round_trip), cmocka_unit_test(test_new),
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_too_large),  cmocka_unit_test(test_bad_files),  cmocka_unit_test(test_config_of_file),
        cmocka_unit_test(test_load_as),    cmocka_unit_test(test_forward),    cmocka_unit_test(test_all_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
