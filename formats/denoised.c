// Reading the inputs of a denoiser's call and writing its images. Read denoised.md first.
#include "formats/denoised.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

static int check_finite(const float *v, int64_t n, int64_t count, const char *file, const char *name, kd_err *err)
{
    const int64_t bad = kd_find_not_finite(v, count);
    return bad < 0 ? 0 : kd_fail(err, KD_EFORMAT, "%s: %s: image %lld has the value %g, expected finite numbers", file, name,
                                 (long long)(bad / (count / n)), (double)v[bad]);
}

static bool is_float(kd_dtype t) { return t == KD_F32 || t == KD_F64 || t == KD_F16 || t == KD_BF16; }

// The tensor of a name, converted to `to` (F32 or I64); *values is NULL if there is none. Its shape must be `want`.
static int take(void **values, kd_dtype to, const kd_frame *f, const char *file, const char *name, kd_shape want, kd_err *err)
{
    const kd_tensor *t = kd_frame_get(f, name);
    if (!t) return 0;
    if (!kd_shape_same(&t->shape, &want)) {
        char expected[128], got[128];
        return kd_fail(err, KD_EUSAGE, "%s: %s: expected the shape %s, got %s", file, name, kd_shape_str(expected, sizeof expected, &want),
                       kd_shape_str(got, sizeof got, &t->shape));
    }
    if (to == KD_F32 ? !is_float(t->dtype) : is_float(t->dtype) || t->dtype == KD_BOOL)
        return kd_fail(err, KD_EUSAGE, "%s: %s: expected %s, got %s", file, name, to == KD_F32 ? "a float type" : "integers",
                       kd_dtype_name(t->dtype));
    *values = kd_alloc((size_t)(kd_tensor_count(t) + 1) * kd_dtype_size(to));
    if (!*values) return kd_fail_memory(err, name);
    kd_convert(*values, to, t->data, t->dtype, kd_tensor_count(t));
    return 0;
}

static void nhwc_of(float *to, const float *from, int64_t n, int64_t pixels, int64_t c)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t p = 0; p < pixels; p++)
            for (int64_t k = 0; k < c; k++) to[(i * pixels + p) * c + k] = from[(i * c + k) * pixels + p];
}

static void nchw_of(float *to, const float *from, int64_t n, int64_t pixels, int64_t c)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < c; k++)
            for (int64_t p = 0; p < pixels; p++) to[(i * c + k) * pixels + p] = from[(i * pixels + p) * c + k];
}

static int take_images(float **images, int64_t n, int64_t c, kd_call_shape s, const kd_frame *f, const char *file, const char *name,
                       kd_err *err)
{
    void *nchw = NULL;
    if (!c) return 0;
    KD_TRY(take(&nchw, KD_F32, f, file, name, KD_SHAPE(n, c, s.h, s.w), err));
    if (!nchw) return 0;
    if (check_finite(nchw, n, n * c * s.h * s.w, file, name, err)) {
        kd_free(nchw);
        return err->code;
    }
    *images = kd_alloc((size_t)(n * c * s.h * s.w + 1) * sizeof **images);
    if (*images) nhwc_of(*images, nchw, n, s.h * s.w, c);
    kd_free(nchw);
    return *images ? 0 : kd_fail_memory(err, name);
}

// Float values of any other shape, its first size n.
static int take_floats(float **values, kd_shape want, const kd_frame *f, const char *file, const char *name, kd_err *err)
{
    void *v = NULL;
    int64_t count = 1;
    KD_TRY(take(&v, KD_F32, f, file, name, want, err));
    *values = v;
    for (int i = 0; i < want.n; i++) count *= want.d[i];
    return v ? check_finite(v, want.d[0], count, file, name, err) : 0;
}

// Levels: a number for each image, which has a range of its own.
static int take_numbers(float **values, int64_t n, const kd_frame *f, const char *file, const char *name, kd_err *err)
{
    void *v = NULL;
    KD_TRY(take(&v, KD_F32, f, file, name, KD_SHAPE(n), err));
    *values = v;
    return 0;
}

// The noise levels, or what the network itself is told in their place.
static int take_levels(kd_call_inputs *in, const kd_frame *f, const char *file, kd_err *err)
{
    const kd_tensor *sigma = kd_frame_get(f, "sigma"), *t = kd_frame_get(f, "t"), *level = sigma ? sigma : t;
    if (!level) return kd_fail(err, KD_EUSAGE, "%s: no tensor sigma", file);
    if (sigma && t)
        return kd_fail(err, KD_EUSAGE, "%s: sigma is for a denoiser, t for the network alone: expected one of them, got both", file);
    const int64_t n = in->n = level->shape.n > 0 ? level->shape.d[0] : 1;
    KD_TRY(take_numbers(t ? &in->t : &in->sigma, n, f, file, t ? "t" : "sigma", err));
    for (int64_t i = 0; i < n; i++) {
        const double v = t ? in->t[i] : in->sigma[i];
        if (!isfinite(v) || (sigma && v <= 0))
            return kd_fail(err, KD_EUSAGE, "%s: %s[%lld]: expected a number%s, got %g", file, t ? "t" : "sigma", (long long)i,
                           t ? "" : " above 0", v);
    }
    return 0;
}

static int take_conditions(kd_call_inputs *in, const kd_frame *f, const char *file, kd_call_shape s, kd_err *err)
{
    const int64_t n = in->n;
    const kd_tensor *cross = s.cross_cond_dim ? kd_frame_get(f, "cross_cond") : NULL;
    void *classes = NULL;
    KD_TRY(take_floats(&in->aug_cond, KD_SHAPE(n, 9), f, file, "aug_cond", err));
    if (s.mapping_cond_dim) KD_TRY(take_floats(&in->mapping_cond, KD_SHAPE(n, s.mapping_cond_dim), f, file, "mapping_cond", err));
    KD_TRY(take_images(&in->unet_cond, n, s.unet_cond_dim, s, f, file, "unet_cond", err));
    if (cross) {
        in->cross_len = cross->shape.n == 3 ? cross->shape.d[1] : 1;
        KD_TRY(take_floats(&in->cross_cond, KD_SHAPE(n, in->cross_len, s.cross_cond_dim), f, file, "cross_cond", err));
        KD_TRY(take_floats(&in->cross_padding, KD_SHAPE(n, in->cross_len), f, file, "cross_cond_padding", err));
    }
    const char *name = in->t && !kd_frame_get(f, "class_cond") ? "y" : "class_cond";
    if (kd_frame_get(f, "y") && kd_frame_get(f, "class_cond"))
        return kd_fail(err, KD_EUSAGE, "%s: y and class_cond are the same: expected one of them, got both", file);
    KD_TRY(take(&classes, KD_I64, f, file, name, KD_SHAPE(n), err));
    in->class_cond = classes;
    return 0;
}

static int take_all(kd_call_inputs *in, const kd_frame *f, const char *file, kd_call_shape s, kd_err *err)
{
    KD_TRY(take_levels(in, f, file, err));
    const int64_t n = in->n;
    KD_TRY(take_images(&in->x, n, s.c, s, f, file, "x", err));
    if (in->t) KD_TRY(take_images(&in->target, n, s.out, s, f, file, "target", err));
    if (!in->t) KD_TRY(take_images(&in->x0, n, s.c, s, f, file, "x0", err));
    if (!in->t) KD_TRY(take_images(&in->noise, n, s.c, s, f, file, "noise", err));
    if (!in->t) KD_TRY(take_images(&in->v, n, s.c, s, f, file, "v", err));
    return take_conditions(in, f, file, s, err);
}

int kd_call_inputs_read(kd_call_inputs *in, const kd_frame *f, const char *file, kd_call_shape shape, kd_err *err)
{
    *in = (kd_call_inputs){ 0 };
    const int code = take_all(in, f, file, shape, err);
    if (code) kd_call_inputs_free(in);
    return code;
}

void kd_call_inputs_free(kd_call_inputs *in)
{
    void *blocks[] = { in->sigma, in->t, in->x, in->x0, in->noise, in->v, in->target, in->class_cond, in->aug_cond, in->mapping_cond,
                       in->unet_cond, in->cross_cond, in->cross_padding };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) kd_free(blocks[i]);
    *in = (kd_call_inputs){ 0 };
}

int kd_frame_add_nchw(kd_frame *f, const char *name, const float *images, int64_t n, int64_t channels, kd_call_shape s, kd_err *err)
{
    kd_tensor *t;
    KD_TRY(kd_frame_add(f, name, KD_F32, KD_SHAPE(n, channels, s.h, s.w), NULL, &t, err));
    nchw_of(t->data, images, n, s.h * s.w, channels);
    return 0;
}
