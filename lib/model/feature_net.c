// Weights of feature networks: from files or by a rule, batch norms folded.
#include "model/feature_net.h"
#include "base/io.h"
#include "base/memory.h"
#include "formats/safetensors.h"
#include "formats/torch.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { ALIGN = 16 };

void kd_feature_net_free(kd_feature_net *f)
{
    if (!f) return;
    kd_params_free(f->params);
    kd_free(f->w);
    kd_free(f);
}

// Where raw tensors come from: a file, or (frame NULL) the rule.
typedef struct source { const char *path; kd_frame *frame; kd_torch *torch; kd_hash *hash; } source;

static int source_open(source *s, const char *path, kd_err *err)
{
    kd_in *in = NULL;
    const void *bytes;
    s->path = path;
    KD_TRY(kd_in_open(&in, path, err));
    const size_t n = kd_in_peek(in, &bytes, 64);
    const bool torch = kd_torch_knows(bytes, n);
    int code = torch ? kd_torch_read(&s->torch, in, err) : kd_safetensors_read(in, &s->frame, err);
    kd_in_close(in);
    if (!code && torch) s->frame = s->torch->tensors;
    return !code && !s->frame ? kd_fail(err, KD_EFORMAT, "%s: empty", path) : code;
}

static void source_close(source *s)
{
    if (s->torch) kd_torch_free(s->torch);
    else kd_frame_free(s->frame);
    kd_hash_free(s->hash);
}

static int get(source *s, const char *name, kd_shape shape, float *to, kd_err *err)
{
    const int64_t n = kd_shape_count(&shape);
    if (!s->frame) kd_inception_rule(name, shape, to);
    else {
        char want[128], got[128];
        const kd_tensor *t = kd_frame_get(s->frame, name);
        if (!t) return kd_fail(err, KD_EUSAGE, "%s: no tensor %s: not the weights of FID's Inception network", s->path, name);
        if (!kd_shape_same(&t->shape, &shape) || t->dtype > KD_BF16)
            return kd_fail(err, KD_EUSAGE, "%s: tensor %s: expected %s of a floating type, got %s %s", s->path, name,
                           kd_shape_str(want, sizeof want, &shape), kd_dtype_name(t->dtype), kd_shape_str(got, sizeof got, &t->shape));
        kd_convert(to, KD_F32, t->data, t->dtype, n);
    }
    kd_hash_add(s->hash, name, strlen(name) + 1);
    kd_hash_add(s->hash, to, (size_t)n * sizeof *to);
    return 0;
}

// Batch norm of a convolution's result y is (y - mean) g / sqrt(var + 0.001) + beta.
static int fold(source *s, const char *layer, kd_shape shape, float *weight, float *bias, kd_err *err)
{
    static const char *const parts[] = { "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var" };
    const int64_t co = shape.d[0], each = kd_shape_count(&shape) / co;
    char name[160];
    snprintf(name, sizeof name, "%.120s.conv.weight", layer);
    float *bn = kd_alloc((size_t)(4 * co) * sizeof *bn);
    int code = bn ? get(s, name, shape, weight, err) : kd_fail_memory(err, "a feature network");
    for (int i = 0; !code && i < 4; i++) {
        snprintf(name, sizeof name, "%.120s.%s", layer, parts[i]);
        code = get(s, name, KD_SHAPE(co), bn + i * co, err);
    }
    for (int64_t o = 0; !code && o < co; o++) {
        const double f = (double)bn[o] / sqrt((double)bn[3 * co + o] + 0.001);
        for (int64_t k = 0; k < each; k++) weight[o * each + k] = (float)(weight[o * each + k] * f);
        bias[o] = (float)((double)bn[co + o] - (double)bn[2 * co + o] * f);
    }
    kd_free(bn);
    return code;
}

static int fill(kd_feature_net *f, source *s, kd_err *err)
{
    s->hash = kd_hash_new();
    f->w = kd_alloc((size_t)f->params->total * sizeof *f->w);
    if (!s->hash || !f->w) return kd_fail_memory(err, "a feature network");
    for (int i = 0; i < f->params->n; i++) {
        const kd_param_info *p = &f->params->p[i], *next = p + 1;          // a bias is declared after its weight
        char layer[128];
        if (!strcmp(p->name, "fc.weight")) KD_TRY(get(s, p->name, p->shape, f->w + p->offset, err));
        else if (p->shape.n == 4) {
            snprintf(layer, sizeof layer, "%.*s", (int)(strlen(p->name) - strlen(".weight")), p->name);
            KD_TRY(fold(s, layer, p->shape, f->w + p->offset, f->w + next->offset, err));
        }
    }
    snprintf(f->hash, sizeof f->hash, "%016llx", (unsigned long long)kd_hash_get(s->hash));
    return 0;
}

// Every tensor of the file must be one of a layer.
static int check_names(const kd_feature_net *f, const source *s, kd_err *err)
{
    for (int i = 0; s->frame && i < s->frame->n; i++) {
        const char *name = s->frame->t[i].name, *end = strstr(name, ".conv.weight");
        char weight[160];
        if (!end) end = strstr(name, ".bn.");
        snprintf(weight, sizeof weight, "%.*s.weight", end ? (int)(end - name) : 100, name);
        if (strcmp(name, "fc.weight") && strcmp(name, "fc.bias") && !(end && kd_params_find(f->params, weight)))
            return kd_fail(err, KD_EUSAGE, "%s: tensor %.100s: FID's Inception network has none of this name", s->path, name);
    }
    return 0;
}

static int declare(kd_feature_net *f, kd_err *err)
{
    kd_graph *g = kd_graph_new();
    f->params = kd_alloc(sizeof *f->params);
    if (!g || !f->params) {
        kd_graph_free(g);
        return kd_fail_memory(err, "a feature network");
    }
    kd_net m = { .g = g, .params = f->params, .declare = true };
    kd_feature_out out;
    kd_inception(&m, kd_input(g, "x", KD_F32, KD_SHAPE(1, f->size, f->size, 3)), &out);
    int code = kd_graph_error(g, err);
    if (!code && (!out.logits || m.out_of_memory)) code = kd_fail_memory(err, "a feature network");
    kd_graph_free(g);
    for (int i = 0; i < f->params->n; i++) {
        kd_param_info *p = &f->params->p[i];
        p->offset = f->params->total;
        f->params->total += (p->count + ALIGN - 1) / ALIGN * ALIGN;
    }
    return code;
}

static int make(kd_feature_net **out, source *s, const char *name, kd_err *err)
{
    kd_feature_net *f = kd_alloc(sizeof *f);
    if (!f) return kd_fail_memory(err, "a feature network");
    *f = (kd_feature_net){ .size = 299, .d = 2048, .spatial = 17 * 17 * 7, .classes = 1008 };
    for (int c = 0; c < 3; c++) f->mean[c] = f->scale[c] = 128;
    snprintf(f->name, sizeof f->name, "%s", name);
    int code = declare(f, err);
    if (!code) code = check_names(f, s, err);
    if (!code) code = fill(f, s, err);
    if (code) kd_feature_net_free(f);
    else *out = f;
    return code;
}

int kd_inception_load(kd_feature_net **f, const char *path, kd_err *err)
{
    source s = {0};
    int code = source_open(&s, path, err);
    if (!code) code = make(f, &s, "inception", err);
    source_close(&s);
    return code;
}

int kd_inception_random(kd_feature_net **f, kd_err *err)
{
    source s = {0};
    const int code = make(f, &s, "random features (inception)", err);
    source_close(&s);
    return code;
}

// The rule: a hash of (index, name) as a uniform in [-0.5, 0.5), scaled by what the tensor is.
static double uniform(uint32_t crc, uint64_t i)
{
    uint32_t h = (uint32_t)(i * 2654435761u) + crc;
    h ^= h >> 16, h *= 0x85ebca6b;
    h ^= h >> 13, h *= 0xc2b2ae35;
    h ^= h >> 16;
    return h / 4294967296.0 - 0.5;
}

static bool ends(const char *s, const char *end)
{
    const size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
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
