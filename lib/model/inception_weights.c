// Inception's weights: of a state dict or by the rule, batch norms folded into the convolutions before them.
#include "base/memory.h"
#include "model/feature_private.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

static int shape(kd_feature_net *f, const kd_raw *raw, kd_err *err)
{
    (void)raw, (void)err;
    f->size = 299, f->d = 2048, f->spatial = 17 * 17 * 7, f->classes = 1008;
    for (int c = 0; c < 3; c++) f->mean[c] = f->scale[c] = 128;
    snprintf(f->name, sizeof f->name, "inception");
    return 0;
}

// Batch norm of a convolution's result y is (y - mean) g / sqrt(var + 0.001) + beta.
static int fold(kd_raw *r, const char *layer, kd_shape shape, float *weight, float *bias, kd_err *err)
{
    static const char *const parts[] = { "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var" };
    const int64_t co = shape.d[0], each = kd_shape_count(&shape) / co;
    char name[160];
    snprintf(name, sizeof name, "%.120s.conv.weight", layer);
    float *bn = kd_alloc((size_t)(4 * co) * sizeof *bn);
    int code = bn ? kd_raw_get(r, name, shape, weight, err) : kd_fail_memory(err, "a feature network");
    for (int i = 0; !code && i < 4; i++) {
        snprintf(name, sizeof name, "%.120s.%s", layer, parts[i]);
        code = kd_raw_get(r, name, KD_SHAPE(co), bn + i * co, err);
    }
    for (int64_t o = 0; !code && o < co; o++) {
        const double f = (double)bn[o] / sqrt((double)bn[3 * co + o] + 0.001);
        for (int64_t k = 0; k < each; k++) weight[o * each + k] = (float)(weight[o * each + k] * f);
        bias[o] = (float)((double)bn[co + o] - (double)bn[2 * co + o] * f);
    }
    kd_free(bn);
    return code;
}

static int fill(kd_feature_net *f, kd_raw *r, kd_err *err)
{
    for (int i = 0; i < f->params->n; i++) {
        const kd_param_info *p = &f->params->p[i], *next = p + 1;          // a bias is declared after its weight
        char layer[128];
        if (!strcmp(p->name, "fc.weight")) KD_TRY(kd_raw_get(r, p->name, p->shape, f->w + p->offset, err));
        else if (p->shape.n == 4) {
            snprintf(layer, sizeof layer, "%.*s", (int)(strlen(p->name) - strlen(".weight")), p->name);
            KD_TRY(fold(r, layer, p->shape, f->w + p->offset, f->w + next->offset, err));
        }
    }
    return 0;
}

static bool ends(const char *s, const char *end)
{
    const size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

static bool passes(const char *name) { return !strcmp(name, "fc.bias") || ends(name, ".bn.num_batches_tracked"); }

static void forward(kd_net *m, const kd_feature_net *f, kd_val *x, kd_feature_out *out)
{
    (void)f;
    kd_inception(m, x, out);
}

const kd_feature_kind kd_feature_inception = { "inception", "FID's Inception network", "Conv2d_1a_3x3.conv.weight", shape, forward, fill,
                                               passes };

// The rule --------------------------------------------------------------------------------------------------------------

// The rule: a hash of (index, name) as a uniform in [-0.5, 0.5), scaled by what the tensor is.
static double uniform(uint32_t crc, uint64_t i)
{
    uint32_t h = (uint32_t)(i * 2654435761u) + crc;
    h ^= h >> 16, h *= 0x85ebca6b;
    h ^= h >> 13, h *= 0xc2b2ae35;
    h ^= h >> 16;
    return h / 4294967296.0 - 0.5;
}

void kd_inception_rule(const char *name, kd_shape shape, float *to)
{
    const int64_t n = kd_shape_count(&shape);
    const uint32_t crc = (uint32_t)crc32(0, (const unsigned char *)name, (unsigned)strlen(name));
    double offset = 0, factor = 2 * sqrt(6 / ((double)n / (double)shape.d[0]));          // He's bound for a weight
    if (ends(name, ".bn.weight")) offset = 1, factor = 0.4;
    else if (ends(name, ".bn.bias")) factor = 0.4;
    else if (ends(name, ".running_mean")) factor = 0.2;
    else if (ends(name, ".running_var")) offset = 1, factor = 0.5;
    for (int64_t i = 0; i < n; i++) to[i] = (float)(offset + factor * uniform(crc, (uint64_t)i));
}
