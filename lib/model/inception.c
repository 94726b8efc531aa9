// InceptionV3. Szegedy et al. 2015, arXiv:1512.00567, with the differences that TensorFlow's network of FID has: average pools do not
// count their padding, and the last block's pool is a maximum. Names as in torchvision's and pytorch-fid's state dicts.
// A convolution's batch norm is in its weight and bias (inception_weights.c).
#include "model/feature_private.h"
#include "op/unet.h"

/// Kernel h x w of layer `name` in the present scope, then ReLU.
static kd_val *conv(kd_net *m, kd_val *x, const char *name, int64_t co, int64_t h, int64_t w, int64_t stride, bool pad)
{
    if (!x) return NULL;
    kd_scope_push(m->g, name);
    kd_val *k = kd_net_param(m, "weight", KD_SHAPE(co, kd_last(x), h, w), KD_INIT_ZERO, 0, KD_TAG_BUFFER);
    kd_val *b = kd_net_param(m, "bias", KD_SHAPE(co), KD_INIT_ZERO, 0, KD_TAG_BUFFER);
    x = kd_conv2d(m->g, x, k, b, NULL, (kd_conv){ stride, pad ? h / 2 : 0, pad ? w / 2 : 0 });
    kd_scope_pop(m->g);
    return kd_activate(m->g, x, KD_ACT_RELU);
}

static kd_val *conv1(kd_net *m, kd_val *x, const char *name, int64_t co) { return conv(m, x, name, co, 1, 1, 1, false); }
static kd_val *conv3(kd_net *m, kd_val *x, const char *name, int64_t co) { return conv(m, x, name, co, 3, 3, 1, true); }
static kd_val *conv3_down(kd_net *m, kd_val *x, const char *name, int64_t co) { return conv(m, x, name, co, 3, 3, 2, false); }
static kd_val *row7(kd_net *m, kd_val *x, const char *name, int64_t co) { return conv(m, x, name, co, 1, 7, 1, true); }
static kd_val *column7(kd_net *m, kd_val *x, const char *name, int64_t co) { return conv(m, x, name, co, 7, 1, 1, true); }

static kd_val *max_down(kd_net *m, kd_val *x) { return kd_pool(m->g, x, (kd_pooling){ true, 3, 2, 0 }); }
static kd_val *pool_same(kd_net *m, kd_val *x, bool largest) { return kd_pool(m->g, x, (kd_pooling){ largest, 3, 1, 1 }); }
static kd_val *join(kd_net *m, kd_val *a, kd_val *b, kd_val *c, kd_val *d)
{
    kd_val *ab = kd_concat(m->g, a, b);
    return d ? kd_concat(m->g, ab, kd_concat(m->g, c, d)) : kd_concat(m->g, ab, c);
}

// 35 x 35
static kd_val *block_a(kd_net *m, kd_val *x, int64_t pool)
{
    kd_val *a = conv1(m, x, "branch1x1", 64);
    kd_val *b = conv(m, conv1(m, x, "branch5x5_1", 48), "branch5x5_2", 64, 5, 5, 1, true);
    kd_val *c = conv3(m, conv3(m, conv1(m, x, "branch3x3dbl_1", 64), "branch3x3dbl_2", 96), "branch3x3dbl_3", 96);
    return join(m, a, b, c, conv1(m, pool_same(m, x, false), "branch_pool", pool));
}

// 35 x 35 to 17 x 17
static kd_val *block_b(kd_net *m, kd_val *x)
{
    kd_val *a = conv3_down(m, x, "branch3x3", 384);
    kd_val *b = conv3_down(m, conv3(m, conv1(m, x, "branch3x3dbl_1", 64), "branch3x3dbl_2", 96), "branch3x3dbl_3", 96);
    return join(m, a, b, max_down(m, x), NULL);
}

// 17 x 17. first: NULL, or set to the first branch.
static kd_val *block_c(kd_net *m, kd_val *x, int64_t c7, kd_val **first)
{
    kd_val *a = conv1(m, x, "branch1x1", 192);
    kd_val *b = column7(m, row7(m, conv1(m, x, "branch7x7_1", c7), "branch7x7_2", c7), "branch7x7_3", 192);
    kd_val *c = row7(m, column7(m, conv1(m, x, "branch7x7dbl_1", c7), "branch7x7dbl_2", c7), "branch7x7dbl_3", c7);
    c = row7(m, column7(m, c, "branch7x7dbl_4", c7), "branch7x7dbl_5", 192);
    if (first) *first = a;
    return join(m, a, b, c, conv1(m, pool_same(m, x, false), "branch_pool", 192));
}

// 17 x 17 to 8 x 8
static kd_val *block_d(kd_net *m, kd_val *x)
{
    kd_val *a = conv3_down(m, conv1(m, x, "branch3x3_1", 192), "branch3x3_2", 320);
    kd_val *b = column7(m, row7(m, conv1(m, x, "branch7x7x3_1", 192), "branch7x7x3_2", 192), "branch7x7x3_3", 192);
    return join(m, a, conv3_down(m, b, "branch7x7x3_4", 192), max_down(m, x), NULL);
}

static kd_val *fork(kd_net *m, kd_val *x, const char *row, const char *column)
{
    return kd_concat(m->g, conv(m, x, row, 384, 1, 3, 1, true), conv(m, x, column, 384, 3, 1, 1, true));
}

// 8 x 8
static kd_val *block_e(kd_net *m, kd_val *x, bool largest)
{
    kd_val *a = conv1(m, x, "branch1x1", 320);
    kd_val *b = fork(m, conv1(m, x, "branch3x3_1", 384), "branch3x3_2a", "branch3x3_2b");
    kd_val *c = conv3(m, conv1(m, x, "branch3x3dbl_1", 448), "branch3x3dbl_2", 384);
    c = fork(m, c, "branch3x3dbl_3a", "branch3x3dbl_3b");
    return join(m, a, b, c, conv1(m, pool_same(m, x, largest), "branch_pool", 192));
}

static kd_val *note(kd_feature_out *out, const char *name, kd_val *x)
{
    out->module_name[out->modules] = name;
    return out->module[out->modules++] = x;
}

// A block in the scope of its name.
#define BLOCK(name, call) (kd_scope_push(m->g, name), x = note(out, name, call), kd_scope_pop(m->g))

void kd_inception(kd_net *m, kd_val *x, kd_feature_out *out)
{
    kd_val *branch = NULL;
    x = note(out, "Conv2d_1a_3x3", conv3_down(m, x, "Conv2d_1a_3x3", 32));
    x = note(out, "Conv2d_2a_3x3", conv(m, x, "Conv2d_2a_3x3", 32, 3, 3, 1, false));
    x = note(out, "Conv2d_2b_3x3", conv3(m, x, "Conv2d_2b_3x3", 64));
    x = note(out, "Conv2d_3b_1x1", conv1(m, max_down(m, x), "Conv2d_3b_1x1", 80));
    x = note(out, "Conv2d_4a_3x3", conv(m, x, "Conv2d_4a_3x3", 192, 3, 3, 1, false));
    x = max_down(m, x);
    BLOCK("Mixed_5b", block_a(m, x, 32));
    BLOCK("Mixed_5c", block_a(m, x, 64));
    BLOCK("Mixed_5d", block_a(m, x, 64));
    BLOCK("Mixed_6a", block_b(m, x));
    BLOCK("Mixed_6b", block_c(m, x, 128, NULL));
    BLOCK("Mixed_6c", block_c(m, x, 160, NULL));
    BLOCK("Mixed_6d", block_c(m, x, 160, &branch));        // TensorFlow's mixed_6; its first branch is mixed_6/conv
    BLOCK("Mixed_6e", block_c(m, x, 192, NULL));
    BLOCK("Mixed_7a", block_d(m, x));
    BLOCK("Mixed_7b", block_e(m, x, false));
    BLOCK("Mixed_7c", block_e(m, x, true));
    out->pool = kd_image_mean(m->g, x);
    out->spatial = kd_slice(m->g, branch, 0, 7);
    kd_scope_push(m->g, "fc");
    out->logits = kd_linear(m->g, out->pool, kd_net_param(m, "weight", KD_SHAPE(1008, 2048), KD_INIT_ZERO, 0, KD_TAG_BUFFER), NULL, NULL);
    kd_scope_pop(m->g);
}
