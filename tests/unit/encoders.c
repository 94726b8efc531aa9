// CLIP's and DINOv2's image encoders against the public PyTorch code in double precision (golden encoders: torch 2.15, openai/CLIP
// d05afc4 with LayerNorm left in the input's precision, open_clip 3.3.0, facebookresearch/dinov2 b8931f7 with the positions'
// .float() left out), and files as others write them.
//   golden:  weights by the rule below of networks of 2 layers, width 128; images of the Inception test, normalised.
//            clip: openai's VisionTransformer(24, 8, 128, 2, 2, 48); clip_gelu: open_clip's of these sizes;
//            dinov2, dinov2_same, dinov2_518: DinoVisionTransformer of 14x14 patches for images of 84, 224, 518, given 224.
//            metadata float32_error: what PyTorch's own single precision makes on them
//   clip_small.pt: state_dict of OpenAI's CLIP with VisionTransformer(16, 8, 16, 2, 1, 8), matrices in half precision;
//   clip_script.pt: its visual tower by torch.jit.trace in a module that has input_resolution too, single precision, without code;
//   dinov2_small.pth: of DinoVisionTransformer(70, 14, embed_dim 16, depth 2); torch.manual_seed(0). Both by torch.save.
#include "base/memory.h"
#include "cpu/cpu.h"
#include "formats/safetensors.h"
#include "formats/torch.h"
#include "model/feature_net.h"
#include "op/program.h"
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

static uint32_t mix(uint32_t h)
{
    h ^= h >> 16, h *= 0x85ebca6b;
    h ^= h >> 13, h *= 0xc2b2ae35;
    return h ^ h >> 16;
}

static uint32_t crc(const char *name) { return (uint32_t)crc32(0, (const unsigned char *)name, (unsigned)strlen(name)); }

static bool ends(const char *s, const char *end)
{
    const size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

// Adds a tensor by the rule: norms about 1, small biases, embeddings, and matrices within He's bound.
static void add(kd_frame *f, const char *prefix, const char *name, kd_shape shape)
{
    kd_err err = {0};
    kd_tensor *t;
    char whole[160];
    const int64_t n = kd_shape_count(&shape);
    double offset = 0, factor = 2 * sqrt(6 / ((double)n / (double)shape.d[0]));
    if (shape.n == 1 && ends(name, ".weight")) offset = 1, factor = 0.4;
    else if (ends(name, ".gamma")) offset = 0.5, factor = 0.4;
    else if (ends(name, "bias")) factor = 0.4;
    else if (ends(name, "_embedding") || ends(name, "_token") || ends(name, "pos_embed")) factor = 1;
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    assert_int_equal(kd_frame_add(f, whole, KD_F32, shape, NULL, &t, &err), 0);
    for (int64_t i = 0; i < n; i++)
        ((float *)t->data)[i] = (float)(offset + factor * (mix((uint32_t)(i * 2654435761u) + crc(name)) / 4294967296.0 - 0.5));
}

static void add_block(kd_frame *f, const char *prefix, int i, const char *format, const char *what, kd_shape shape)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%d.%s", format, i, what);
    add(f, prefix, name, shape);
}

enum { C = 128 };

static kd_frame *clip_frame(const char *prefix)
{
    static const char block[] = "transformer.resblocks";
    kd_frame *f = kd_frame_new();
    add(f, prefix, "class_embedding", KD_SHAPE(C));
    add(f, prefix, "positional_embedding", KD_SHAPE(10, C));
    add(f, prefix, "proj", KD_SHAPE(C, 48));
    add(f, prefix, "conv1.weight", KD_SHAPE(C, 3, 8, 8));
    add(f, prefix, "ln_pre.weight", KD_SHAPE(C)), add(f, prefix, "ln_pre.bias", KD_SHAPE(C));
    for (int i = 0; i < 2; i++) {
        add_block(f, prefix, i, block, "attn.in_proj_weight", KD_SHAPE(3 * C, C));
        add_block(f, prefix, i, block, "attn.in_proj_bias", KD_SHAPE(3 * C));
        add_block(f, prefix, i, block, "attn.out_proj.weight", KD_SHAPE(C, C));
        add_block(f, prefix, i, block, "attn.out_proj.bias", KD_SHAPE(C));
        add_block(f, prefix, i, block, "ln_1.weight", KD_SHAPE(C)), add_block(f, prefix, i, block, "ln_1.bias", KD_SHAPE(C));
        add_block(f, prefix, i, block, "mlp.c_fc.weight", KD_SHAPE(4 * C, C));
        add_block(f, prefix, i, block, "mlp.c_fc.bias", KD_SHAPE(4 * C));
        add_block(f, prefix, i, block, "mlp.c_proj.weight", KD_SHAPE(C, 4 * C));
        add_block(f, prefix, i, block, "mlp.c_proj.bias", KD_SHAPE(C));
        add_block(f, prefix, i, block, "ln_2.weight", KD_SHAPE(C)), add_block(f, prefix, i, block, "ln_2.bias", KD_SHAPE(C));
    }
    add(f, prefix, "ln_post.weight", KD_SHAPE(C)), add(f, prefix, "ln_post.bias", KD_SHAPE(C));
    return f;
}

static kd_frame *dinov2_frame(int side)
{
    static const char block[] = "blocks";
    kd_frame *f = kd_frame_new();
    add(f, "", "cls_token", KD_SHAPE(1, 1, C));
    add(f, "", "pos_embed", KD_SHAPE(1, 1 + side * side, C));
    add(f, "", "mask_token", KD_SHAPE(1, C));
    add(f, "", "patch_embed.proj.weight", KD_SHAPE(C, 3, 14, 14)), add(f, "", "patch_embed.proj.bias", KD_SHAPE(C));
    for (int i = 0; i < 2; i++) {
        add_block(f, "", i, block, "norm1.weight", KD_SHAPE(C)), add_block(f, "", i, block, "norm1.bias", KD_SHAPE(C));
        add_block(f, "", i, block, "attn.qkv.weight", KD_SHAPE(3 * C, C)), add_block(f, "", i, block, "attn.qkv.bias", KD_SHAPE(3 * C));
        add_block(f, "", i, block, "attn.proj.weight", KD_SHAPE(C, C)), add_block(f, "", i, block, "attn.proj.bias", KD_SHAPE(C));
        add_block(f, "", i, block, "ls1.gamma", KD_SHAPE(C));
        add_block(f, "", i, block, "norm2.weight", KD_SHAPE(C)), add_block(f, "", i, block, "norm2.bias", KD_SHAPE(C));
        add_block(f, "", i, block, "mlp.fc1.weight", KD_SHAPE(4 * C, C)), add_block(f, "", i, block, "mlp.fc1.bias", KD_SHAPE(4 * C));
        add_block(f, "", i, block, "mlp.fc2.weight", KD_SHAPE(C, 4 * C)), add_block(f, "", i, block, "mlp.fc2.bias", KD_SHAPE(C));
        add_block(f, "", i, block, "ls2.gamma", KD_SHAPE(C));
    }
    add(f, "", "norm.weight", KD_SHAPE(C)), add(f, "", "norm.bias", KD_SHAPE(C));
    return f;
}

// Files and networks ----------------------------------------------------------------------------------------------------

static void save(const char *path, const kd_frame *f)
{
    kd_err err = {0};
    kd_out *out = NULL;
    int code = kd_out_open(&out, path, true, &err);
    if (!code) code = kd_safetensors_write(out, f, &err);
    if (!code) code = kd_out_commit(out, &err);
    kd_out_close(out);
    if (code) fail_msg("%s", err.msg);
}

static kd_feature_net *load(const char *path)
{
    kd_err err = {0};
    kd_feature_net *f;
    if (kd_feature_load(&f, path, &err)) fail_msg("%s", err.msg);
    return f;
}

static char temporary[] = "/tmp/kd-encoders-XXXXXX";

// As encoder/1 and back: the same network.
static kd_feature_net *import(kd_frame *f, const char *activation)
{
    kd_err err = {0};
    kd_frame *to;
    char *said;
    if (kd_feature_frame(&to, f, "file", activation, &said, &err)) fail_msg("%s", err.msg);
    save(temporary, to);
    free(said);
    kd_frame_free(to), kd_frame_free(f);
    return load(temporary);
}

static float *images(const kd_feature_net *f)
{
    const int64_t side = f->size, n = side * side * 3;
    float *x = malloc((size_t)(2 * n) * sizeof *x);
    for (int64_t i = 0; i < 2 * n; i++) {
        const int64_t y = i % n / (side * 3), col = i / 3 % side, c = i % 3, block = i < n ? 13 : 5;
        const uint32_t h = mix((uint32_t)((c * 1000 + y / block) * 1000 + col / block) * 2654435761u + crc(i < n ? "image0" : "image1"));
        x[i] = ((float)(h >> 24) - f->mean[c]) / f->scale[c];
    }
    return x;
}

static float *features(const kd_feature_net *f)
{
    kd_err err = {0};
    kd_backend *be;
    kd_program *p;
    kd_feature_out out;
    float *x = images(f), *w, *to = malloc((size_t)(2 * f->d) * sizeof *to);
    const size_t bytes = (size_t)f->params->total * sizeof *w;
    assert_int_equal(kd_cpu_open(&be, &err), 0);
    assert_int_equal(be->alloc(be, (void **)&w, bytes, &err), 0);
    assert_int_equal(be->upload(be, w, f->w, bytes, &err), 0);
    kd_graph *g = kd_graph_new();
    kd_net m = { .g = g, .params = f->params, .leaf = calloc((size_t)f->params->n, sizeof *m.leaf) };
    kd_val *in = kd_input(g, "x", KD_F32, KD_SHAPE(2, f->size, f->size, 3));
    kd_feature_forward(&m, f, in, &out);
    if (kd_graph_error(g, &err)) fail_msg("%s", err.msg);
    for (int i = 0; i < f->params->n; i++)
        if (m.leaf[i]) kd_bind(m.leaf[i], w + f->params->p[i].offset);
    if (kd_program_new(&p, g, be, &out.pool, 1, &err)) fail_msg("%s", err.msg);
    assert_int_equal(kd_program_set(p, in, x, &err), 0);
    assert_int_equal(kd_program_run(p, &err), 0);
    assert_int_equal(kd_count(out.pool), 2 * f->d);
    assert_int_equal(kd_program_get(p, out.pool, to, &err), 0);
    kd_program_free(p);
    be->free(be, w);
    kd_backend_close(be);
    free(x), free(m.leaf);
    return to;
}

// Its features are the golden ones; frees it.
static void check(kd_feature_net *f, const char *golden, const char *name)
{
    int64_t n;
    kd_frame *g = golden_load("encoders");
    json_t *peer = golden_json(g, "float32_error");
    assert_string_equal(f->name, name);
    double *want = golden_f64(g, golden, &n);
    assert_int_equal(n, 2 * f->d);
    float *got = features(f);
    const double error = golden_error(got, want, n), theirs = json_number_value(json_object_get(peer, golden));
    assert_int_equal(golden_judge(golden, "features", error, theirs, ""), 0);
    json_decref(peer);
    free(want), free(got);
    kd_frame_free(g);
    kd_feature_net_free(f);
}

static void test_golden(void **state)
{
    (void)state;
    check(import(clip_frame("visual."), "quick_gelu"), "clip", "clip-vit-w128x2-8-24");
    check(import(clip_frame(""), "gelu"), "clip_gelu", "clip-vit-w128x2-8-24 (gelu)");
    check(import(dinov2_frame(6), NULL), "dinov2", "dinov2-vit-w128x2-14");
    check(import(dinov2_frame(16), NULL), "dinov2_same", "dinov2-vit-w128x2-14");
    check(import(dinov2_frame(37), NULL), "dinov2_518", "dinov2-vit-w128x2-14");
}

// Others' files: as they are, and by way of encoder/1, under the same hash.
static void test_files(void **state)
{
    (void)state;
    kd_err err = {0};
    kd_torch *t;
    kd_frame *f;
    char *said;
    assert_int_equal(kd_torch_load(&t, "tests/golden/clip_small.pt", &err), 0);
    assert_true(kd_feature_knows(t->tensors));
    assert_int_equal(kd_feature_frame(&f, t->tensors, "x.pt", "quick_gelu", &said, &err), 0);
    assert_string_equal(said, "x.pt: clip-vit-w16x2-8-16; 18 tensors of other parts left out");
    assert_int_equal(kd_frame_get(f, "proj")->dtype, KD_F16);
    save(temporary, f);
    free(said), kd_frame_free(f), kd_torch_free(t);
    check(load(temporary), "clip_small", "clip-vit-w16x2-8-16");

    // the same weights in TorchScript, where OpenAI's number says the activation
    kd_feature_net *script = load("tests/golden/clip_script.pt"), *same = load(temporary);
    assert_string_equal(script->hash, same->hash);
    kd_feature_net_free(same);
    check(script, "clip_small", "clip-vit-w16x2-8-16");

    assert_int_equal(kd_torch_load(&t, "tests/golden/dinov2_small.pth", &err), 0);
    assert_int_equal(kd_feature_frame(&f, t->tensors, "x.pth", NULL, &said, &err), 0);
    assert_null(kd_frame_get(f, "mask_token"));
    save(temporary, f);
    free(said), kd_frame_free(f), kd_torch_free(t);
    kd_feature_net *a = load(temporary), *b = load("tests/golden/dinov2_small.pth");
    assert_string_equal(a->hash, b->hash);
    assert_memory_equal(a->w, b->w, (size_t)a->params->total * sizeof *a->w);
    kd_feature_net_free(a);
    check(b, "dinov2_small", "dinov2-vit-w16x2-14");
}

// Wrong files -----------------------------------------------------------------------------------------------------------

static void drop(kd_frame *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->t[i].name, name)) f->t[i].name[0] = '~';
}

static void refused(kd_frame *f, const char *activation, const char *want)
{
    kd_err err = {0};
    kd_frame *to;
    char *said;
    assert_int_equal(kd_feature_frame(&to, f, "x", activation, &said, &err), KD_EUSAGE);
    assert_string_equal(err.msg, want);
    assert_null(to);
    assert_null(said);
    kd_frame_free(f);
}

static kd_frame *without(kd_frame *f, const char *name)
{
    drop(f, name);
    return f;
}

static kd_frame *with(kd_frame *f, const char *name, kd_shape shape)
{
    add(f, "", name, shape);
    return f;
}

static kd_frame *shaped(kd_frame *f, const char *name, kd_shape shape) { return with(without(f, name), name, shape); }

static void test_wrong(void **state)
{
    (void)state;
    static const char quick[] = "quick_gelu";
    refused(clip_frame("visual."), NULL,
            "x: CLIP's weights do not say their activation: kd-init --from x --activation quick_gelu (OpenAI's) or gelu (open_clip's own, "
            "as LAION's) makes a file that does");
    refused(without(clip_frame(""), "ln_post.bias"), quick, "x: no tensor ln_post.bias: not the weights of CLIP's image encoder");
    refused(without(clip_frame(""), "proj"), quick, "x: no matrix proj: not the weights of CLIP's image encoder");
    refused(shaped(clip_frame(""), "ln_post.bias", KD_SHAPE(2)), quick,
            "x: tensor ln_post.bias: expected [128] of a floating type, got F32 [2]");
    refused(with(clip_frame(""), "attnpool.weight", KD_SHAPE(2)), quick,
            "x: tensor attnpool.weight: CLIP's image encoder has none of this name");
    refused(with(clip_frame("visual."), "visual.odd", KD_SHAPE(2)), quick,
            "x: tensor visual.odd: CLIP's image encoder has none of this name");
    refused(shaped(clip_frame(""), "positional_embedding", KD_SHAPE(9, C)), quick,
            "x: sizes that CLIP's image encoder cannot have: width 128 (at most 64, or a multiple of that), 2 layers of 512 hidden "
            "features, 0x0 patches of 8x8 pixels");
    refused(without(clip_frame(""), "transformer.resblocks.1.ln_1.weight"), quick,
            "x: tensor transformer.resblocks.1.attn.in_proj_weight: CLIP's image encoder has none of this name");
    refused(with(kd_frame_new(), "visual.attnpool.positional_embedding", KD_SHAPE(2)), quick,
            "x: a ResNet of CLIP: only its vision transformers are known");
    refused(with(kd_frame_new(), "vision_model.pre_layrnorm.weight", KD_SHAPE(2)), quick,
            "x: CLIP under Hugging Face's names: take OpenAI's file, or open_clip's");
    refused(with(kd_frame_new(), "weight", KD_SHAPE(2)), NULL,
            "x: not the weights of a network for features: Inception, CLIP's image encoder, DINOv2");
    refused(dinov2_frame(4), quick, "x: --activation is for CLIP, this is DINOv2");
    refused(with(dinov2_frame(4), "register_tokens", KD_SHAPE(1, 4, C)), NULL,
            "x: DINOv2 with registers: the field's distances take the weights without");
    refused(with(dinov2_frame(4), "blocks.0.mlp.w12.weight", KD_SHAPE(2, C)), NULL,
            "x: DINOv2 with SwiGLU (vitg14): vits14, vitb14 and vitl14 are known");
    refused(without(dinov2_frame(4), "blocks.1.ls2.gamma"), NULL, "x: no tensor blocks.1.ls2.gamma: not the weights of DINOv2");
    refused(shaped(dinov2_frame(4), "pos_embed", KD_SHAPE(1, 12, C)), NULL, "x: pos_embed has 12 places: expected one and a square");
    refused(without(dinov2_frame(4), "pos_embed"), NULL, "x: no tensor pos_embed: not the weights of DINOv2");
    refused(with(dinov2_frame(4), "head.weight", KD_SHAPE(2)), NULL, "x: tensor head.weight: DINOv2 has none of this name");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_golden), cmocka_unit_test(test_files), cmocka_unit_test(test_wrong) };
    const int fd = mkstemp(temporary);
    if (fd < 0) return 1;
    close(fd);
    const int code = cmocka_run_group_tests_name("encoders", tests, NULL, NULL);
    unlink(temporary);
    return code;
}
