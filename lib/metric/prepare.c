#include "metric/prepare.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "data/picture.h"
#include "data/resize_float.h"
#include "formats/images.h"
#include <string.h>

static const char *const names[] = { [KD_RESIZE_USUAL] = "usual", [KD_RESIZE_CLEAN] = "clean", [KD_RESIZE_TORCH] = "torch",
                                     [KD_RESIZE_PIL] = "pil" };

const char *kd_resize_name(kd_resize_mode mode) { return names[mode]; }

kd_resize_mode kd_resize_of(const char *name)
{
    for (int i = KD_RESIZE_CLEAN; i <= KD_RESIZE_PIL; i++)
        if (!strcmp(names[i], name)) return (kd_resize_mode)i;
    return KD_RESIZE_USUAL;
}

kd_resize_mode kd_resize_usual(const kd_feature_net *net) { return net->classes ? KD_RESIZE_CLEAN : KD_RESIZE_PIL; }

static uint8_t byte_of(const kd_pictures *p, int64_t at)
{
    uint8_t b = 0;
    if (p->dtype == KD_U8) b = ((const uint8_t *)p->image)[at];
    else kd_images_quantize(&b, (const float *)p->image + at, 1, false);
    return b;
}

// Pixels of picture i at 0..255 for clean, at [-1, 1] for torch.
static void pixels(float *to, const kd_pictures *p, int64_t i, kd_resize_mode mode)
{
    const int64_t size = p->h * p->w * p->c, at = i * size;
    if (mode == KD_RESIZE_TORCH && p->dtype == KD_U8) kd_images_float(to, (const uint8_t *)p->image + at, size);
    else if (mode == KD_RESIZE_TORCH) memcpy(to, (const float *)p->image + at, (size_t)size * sizeof *to);
    else
        for (int64_t k = 0; k < size; k++) to[k] = byte_of(p, at + k);
}

/// r: not for pil. failed: a picture of the thread was without memory
struct prepare {
    const kd_pictures *p; const kd_feature_net *net; kd_resize_mode mode; kd_resizer *r;
    float *to, *scratch; int64_t room; bool *failed;
};

static void float_tile(void *arg, int64_t i, int thread)
{
    const struct prepare *j = arg;
    const kd_pictures *p = j->p;
    const int64_t area = j->net->size * j->net->size, c = p->c;
    float *plain = j->scratch + thread * j->room, *passes = plain + p->h * p->w * c, *sized = passes + kd_resizer_scratch(j->r);
    float *to = j->to + i * area * 3;
    pixels(plain, p, i, j->mode);
    kd_resizer_run(j->r, sized, plain, passes);
    for (int64_t k = 0; k < 3 * area; k++) {
        float v = sized[c == 1 ? k / 3 : k];
        if (j->mode == KD_RESIZE_TORCH) v = v * 127.5f + 127.5f;
        v = v < 0 ? 0 : v > 255 ? 255 : v;
        to[k] = (v - j->net->mean[k % 3]) / j->net->scale[k % 3];
    }
}

static void byte_tile(void *arg, int64_t i, int thread)
{
    const struct prepare *j = arg;
    const kd_pictures *p = j->p;
    const int64_t size = p->h * p->w * p->c, side = j->net->size;
    float *to = j->to + i * side * side * 3;
    kd_picture sized = { .p = kd_alloc((size_t)size), .h = p->h, .w = p->w, .c = (int)p->c };
    kd_err err = {0};
    for (int64_t k = 0; sized.p && k < size; k++) sized.p[k] = byte_of(p, i * size + k);
    const bool ok = sized.p && !kd_picture_resize(&sized, side, side, KD_BICUBIC, &err);
    for (int64_t k = 0; ok && k < 3 * side * side; k++)
        to[k] = ((float)sized.p[p->c == 1 ? k / 3 : k] - j->net->mean[k % 3]) / j->net->scale[k % 3];
    kd_picture_free(&sized);
    j->failed[thread] |= !ok;
}

static int run_float(struct prepare *j, kd_err *err)
{
    const kd_pictures *p = j->p;
    const int64_t side = j->net->size;
    KD_TRY(kd_resizer_new(&j->r, p->h, p->w, side, side, p->c, err));
    j->room = p->h * p->w * p->c + kd_resizer_scratch(j->r) + side * side * p->c;
    j->scratch = kd_alloc((size_t)(kd_threads() * j->room) * sizeof *j->scratch);
    const int code = j->scratch ? 0 : kd_fail_memory(err, "resizing");
    if (!code) kd_parallel(p->n, float_tile, j);
    kd_resizer_free(j->r);
    kd_free(j->scratch);
    return code;
}

static int run_bytes(struct prepare *j, kd_err *err)
{
    bool failed = false;
    j->failed = kd_alloc((size_t)kd_threads() * sizeof *j->failed);
    if (!j->failed) return kd_fail_memory(err, "resizing");
    kd_parallel(j->p->n, byte_tile, j);
    for (int i = 0; i < kd_threads(); i++) failed |= j->failed[i];
    kd_free(j->failed);
    return failed ? kd_fail_memory(err, "resizing") : 0;
}

int kd_extract_prepare(float *to, const kd_pictures *p, const kd_feature_net *net, kd_resize_mode mode, kd_err *err)
{
    struct prepare j = { .p = p, .net = net, .mode = mode, .to = to };
    if (p->c != 1 && p->c != 3)
        return kd_fail(err, KD_EUSAGE, "images of %lld channels: the network of the features takes 1 or 3", (long long)p->c);
    return (mode == KD_RESIZE_PIL ? run_bytes : run_float)(&j, err);
}
