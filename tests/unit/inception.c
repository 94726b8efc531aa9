// The Inception network with weights by the rule: features and every block's mean against PyTorch in double (golden inception).
// timeout: 600
#include "base/memory.h"
#include "cpu/cpu.h"
#include "formats/safetensors.h"
#include "model/feature_net.h"
#include "op/program.h"
#include "op/unet.h"
#include "tests/support/golden.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

enum { SIDE = 299 };

// pixel(c, y, x) of a rule image: top byte of the hash that the weights' rule uses.
static int pixel(const char *name, int c, int y, int x, int block)
{
    uint32_t h = (uint32_t)((c * 1000 + y / block) * 1000 + x / block) * 2654435761u;
    h += (uint32_t)crc32(0, (const unsigned char *)name, (unsigned)strlen(name));
    h ^= h >> 16, h *= 0x85ebca6b;
    h ^= h >> 13, h *= 0xc2b2ae35;
    h ^= h >> 16;
    return (int)(h >> 24);
}

static void test_rule(void **state)
{
    (void)state;
    kd_frame *f = golden_load("inception");
    int seen = 0;
    json_t *names = json_load_file("tests/golden/inception_names.json", 0, NULL), *shape;
    assert_non_null(names);
    const char *name;
    json_object_foreach(json_object_get(names, "tensors"), name, shape) {
        char key[160];
        int64_t d[KD_MAX_DIMS], n = 1;
        for (size_t i = 0; i < json_array_size(shape); i++) n *= d[i] = json_integer_value(json_array_get(shape, i));
        snprintf(key, sizeof key, "sample.%s", name);
        if (!kd_frame_get(f, key) || !strcmp(name, "fc.bias")) continue;
        float *want = golden_f32(f, key, NULL), *got = malloc((size_t)n * sizeof *got);
        kd_inception_rule(name, kd_shape_of((int)json_array_size(shape), d), got);
        const float sample[4] = { got[0], got[1], got[n / 2], got[n - 1] };
        assert_memory_equal(sample, want, sizeof sample);
        free(want), free(got);
        seen++;
    }
    assert_int_equal(seen, 94 * 5 + 1);
    json_decref(names), kd_frame_free(f);
}

// A state dict as pytorch-fid's file has it, written as encoder/1 and read again: the same network, under the same hash.
static void test_import(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_feature_net *rule, *read;
    kd_frame *f = kd_frame_new(), *to;
    kd_out *out;
    json_t *names = json_load_file("tests/golden/inception_names.json", 0, NULL), *shape;
    const char *name;
    char *said, path[] = "/tmp/kd-inception-XXXXXX";
    json_object_foreach(json_object_get(names, "tensors"), name, shape) {
        int64_t d[KD_MAX_DIMS];
        kd_tensor *t;
        for (size_t i = 0; i < json_array_size(shape); i++) d[i] = json_integer_value(json_array_get(shape, i));
        const bool count = strstr(name, "num_batches_tracked");
        const kd_shape s = kd_shape_of((int)json_array_size(shape), d);
        assert_int_equal(kd_frame_add(f, name, count ? KD_I64 : KD_F32, s, NULL, &t, &err), 0);
        if (!count) kd_inception_rule(name, s, t->data);
    }
    assert_true(kd_feature_knows(f));
    if (kd_feature_frame(&to, f, "x.pth", NULL, &said, &err)) fail_msg("%s", err.msg);
    assert_string_equal(said, "x.pth: inception");
    assert_int_equal(to->n, 94 * 5 + 1);
    close(mkstemp(path));
    assert_int_equal(kd_out_open(&out, path, true, &err) || kd_safetensors_write(out, to, &err) || kd_out_commit(out, &err), 0);
    kd_out_close(out);
    if (kd_feature_load(&read, path, &err)) fail_msg("%s", err.msg);
    unlink(path);
    assert_int_equal(kd_inception_random(&rule, &err), 0);
    assert_string_equal(read->name, "inception");
    assert_string_equal(read->hash, rule->hash);
    assert_memory_equal(read->w, rule->w, (size_t)rule->params->total * sizeof *rule->w);
    free(said);
    json_decref(names), kd_frame_free(f), kd_frame_free(to);
    kd_feature_net_free(read), kd_feature_net_free(rule);
}

static double allowed(const char *name) { return fmax(1e-6, 3 * golden_tolerance("inception", name)); }

static void test_features(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_feature_net *f;
    kd_backend *be;
    kd_program *p;
    kd_feature_out out;
    kd_frame *golden = golden_load("inception");
    float *x = malloc(2 * SIDE * SIDE * 3 * sizeof *x), *w;
    for (int64_t i = 0; i < 2 * SIDE * SIDE * 3; i++) {
        const int image = (int)(i / (SIDE * SIDE * 3)), y = (int)(i / (SIDE * 3) % SIDE), col = (int)(i / 3 % SIDE), c = (int)(i % 3);
        x[i] = (float)(pixel(image ? "image1" : "image0", c, y, col, image ? 5 : 13) - 128) / 128;
    }
    const kd_tensor *corner = kd_frame_get(golden, "image1.corner");
    for (int i = 0; i < 300; i++)
        assert_int_equal(((uint8_t *)corner->data)[i], pixel("image1", i / 100, i / 10 % 10 * 3, i % 10 * 3, 5));

    if (kd_inception_random(&f, &err)) fail_msg("%s", err.msg);
    assert_int_equal(kd_cpu_open(&be, &err), 0);
    assert_int_equal(be->alloc(be, (void **)&w, (size_t)f->params->total * sizeof *w, &err), 0);
    assert_int_equal(be->upload(be, w, f->w, (size_t)f->params->total * sizeof *w, &err), 0);
    kd_graph *g = kd_graph_new();
    kd_net m = { .g = g, .params = f->params, .leaf = calloc((size_t)f->params->n, sizeof *m.leaf) };
    kd_val *in = kd_input(g, "x", KD_F32, KD_SHAPE(2, SIDE, SIDE, 3)), *outs[20];
    kd_feature_forward(&m, f, in, &out);
    for (int i = 0; i < out.modules; i++) outs[i] = kd_image_mean(g, out.module[i]);
    outs[out.modules] = out.pool;
    if (kd_graph_error(g, &err)) fail_msg("%s", err.msg);
    for (int i = 0; i < f->params->n; i++)
        if (m.leaf[i]) kd_bind(m.leaf[i], w + f->params->p[i].offset);
    if (kd_program_new(&p, g, be, outs, out.modules + 1, &err)) fail_msg("%s", err.msg);
    assert_int_equal(kd_program_set(p, in, x, &err), 0);
    assert_int_equal(kd_program_run(p, &err), 0);
    float *got = malloc(2 * 2048 * sizeof *got);
    for (int i = 0; i <= out.modules; i++) {
        const char *name = i < out.modules ? out.module_name[i] : "features";
        char key[64];
        int64_t n;
        snprintf(key, sizeof key, i < out.modules ? "channel_mean.%s" : "%s", name);
        double *want = golden_f64(golden, key, &n);
        assert_int_equal(n, kd_count(outs[i]));
        assert_int_equal(kd_program_get(p, outs[i], got, &err), 0);
        const double error = golden_error(got, want, n);
        if (!(error <= allowed(name))) fail_msg("%s: error %.2g, allowed %.2g", name, error, allowed(name));
        free(want);
    }
    kd_program_free(p);
    be->free(be, w);
    kd_backend_close(be);
    kd_feature_net_free(f), kd_frame_free(golden);
    free(x), free(got), free(m.leaf);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rule), cmocka_unit_test(test_import), cmocka_unit_test(test_features) };
    return cmocka_run_group_tests_name("inception", tests, NULL, NULL);
}
