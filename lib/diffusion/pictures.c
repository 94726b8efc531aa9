#include "diffusion/pictures.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

struct kd_pictures {
    kd_images_reader *r;
    const char *path;
    int64_t size, c, own_c;            // own_c: the stream's
    kd_images run; int64_t at;         // a frame, and the next image in it
    int64_t taken;
    bool ended;
    float *only; int64_t only_label;   // the first image, while it may be the only one
};

int kd_pictures_open(kd_pictures **out, const char *path, int64_t h, int64_t w, int64_t c, unsigned how, kd_err *err)
{
    kd_pictures *p = *out = kd_alloc(sizeof *p);
    if (!p) return kd_fail_memory(err, path);
    p->path = strcmp(path, "-") ? path : "stdin", p->size = h * w * c, p->c = c;
    int code = kd_images_open(&p->r, path, err);
    const kd_images_info *i = code ? NULL : kd_images_info_of(p->r);
    if (!code && (i->h != h || i->w != w || (i->c != c && !((how & KD_PICTURES_GREY) && i->c == 1))))
        code = kd_fail(err, KD_EUSAGE, "%s: images are %lldx%lldx%lld, the model's %lldx%lldx%lld", p->path, (long long)i->h,
                       (long long)i->w,
                       (long long)i->c, (long long)h, (long long)w, (long long)c);
    if (!code && (how & KD_PICTURES_REPEAT) && !(p->only = kd_alloc((size_t)p->size * sizeof *p->only))) code = kd_fail_memory(err, path);
    if (code) {
        kd_pictures_close(p);
        *out = NULL;
        return code;
    }
    p->own_c = i->c;
    return 0;
}

const kd_images_info *kd_pictures_info(const kd_pictures *p) { return kd_images_info_of(p->r); }

void kd_pictures_close(kd_pictures *p)
{
    if (!p) return;
    kd_images_close(p->r);
    kd_free(p->only);
    kd_free(p);
}

// Image p->at of the frame.
static void convert(const kd_pictures *p, float *to)
{
    const int64_t own = p->size / p->c * p->own_c;
    if (kd_images_info_of(p->r)->dtype == KD_U8) kd_images_float(to, (const uint8_t *)p->run.image + p->at * own, own);
    else memcpy(to, (const float *)p->run.image + p->at * own, (size_t)own * sizeof *to);
    for (int64_t i = p->size - 1; i >= 0 && p->own_c != p->c; i--) to[i] = to[i / p->c];
}

int kd_pictures_take(kd_pictures *p, int64_t n, float *to, int64_t *label, int64_t *got, kd_err *err)
{
    for (*got = 0; *got < n; ++*got, p->taken++) {
        float *image = to + *got * p->size;
        while (!p->ended && p->at == p->run.n) {
            KD_TRY(kd_images_next(p->r, &p->run, err));
            p->at = 0, p->ended = p->run.n == 0;
        }
        if (p->ended && !p->only) return 0;
        if (p->ended && p->taken == 0) return 0;                       // none at all
        if (p->ended) {
            memcpy(image, p->only, (size_t)p->size * sizeof *image);
            if (label) label[*got] = p->only_label;
            continue;
        }
        convert(p, image);
        const int64_t k = p->run.label ? p->run.label[p->at] : 0;
        if (label) label[*got] = k;
        p->at++;
        if (p->taken == 0 && p->only) memcpy(p->only, image, (size_t)p->size * sizeof *image), p->only_label = k;
        if (p->taken == 1) kd_free(p->only), p->only = NULL;
    }
    return 0;
}

static int check(const kd_frame *f, const kd_tensor *t, const char *file_name, const int64_t *want, int lead, kd_err *err)
{
    const kd_shape *s = &t->shape;
    char text[64];
    (void)f;
    if (t->dtype > KD_BF16)
        return kd_fail(err, KD_EUSAGE, "%s: expected floats, got %s", file_name, kd_dtype_name(t->dtype));
    if (s->n == 4 + lead && !memcmp(s->d + s->n - 3, want, 3 * sizeof *want)) return 0;
    return kd_fail(err, KD_EUSAGE, "%s: expected [%sn,%lld,%lld,%lld], got %s", file_name, lead ? "k," : "", (long long)want[0],
                   (long long)want[1], (long long)want[2], kd_shape_str(text, sizeof text, s));
}

int kd_tensor_images(const char *file_name, int64_t h, int64_t w, int64_t c, int lead, float **images, int64_t *n_lead, int64_t *n,
                     kd_err *err)
{
    kd_frame *f;
    const kd_tensor *t;
    float *flat = NULL;
    *images = NULL;
    KD_TRY(kd_safetensors_pick(file_name, &f, &t, err));
    const char *kind = kd_frame_kind(f);
    const bool nhwc = kind && !strcmp(kind, "images/1");
    const int64_t want_nhwc[] = { h, w, c }, want_nchw[] = { c, h, w };
    if (check(f, t, file_name, nhwc ? want_nhwc : want_nchw, lead, err)) goto done;
    const int64_t count = kd_tensor_count(t), pixels = h * w;
    flat = kd_alloc((size_t)(count + 1) * sizeof *flat), *images = kd_alloc((size_t)(count + 1) * sizeof *flat);
    if (!flat || !*images) {
        kd_fail_memory(err, file_name);
        goto done;
    }
    kd_convert(flat, KD_F32, t->data, t->dtype, count);
    const int64_t bad = kd_find_not_finite(flat, count);
    if (bad >= 0) {
        kd_fail(err, KD_EFORMAT, "%s: image %lld has the value %g, expected finite numbers", file_name,
                (long long)(bad / (pixels * c) % t->shape.d[lead]), (double)flat[bad]);
        goto done;
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = i % c, p = i / c % pixels, image = i / c / pixels;
        (*images)[i] = nhwc ? flat[i] : flat[(image * c + k) * pixels + p];
    }
    *n_lead = lead ? t->shape.d[0] : 1, *n = t->shape.d[lead];
done:
    kd_free(flat);
    if (err->code) kd_free(*images), *images = NULL;
    kd_frame_free(f);
    return err->code;
}
