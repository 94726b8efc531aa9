// Image streams: reading. Page: formats/images.md. Writing: images_write.c
#include "formats/images.h"
#include "base/memory.h"
#include "formats/images_private.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kd_images_reader {
    kd_in *in;
    kd_images_info info;
    kd_frame *frame;             // the frame whose images were given last, or, before the first call, is to be given
    bool given;                  // frame was given
    int64_t seen;                // images so far
    int64_t part;                // of the frame; -1: a whole record
    bool open_record;            // its last frame has not come
    bool labels, index, seed, calls;      // what the current record has
};

// One frame ----------------------------------------------------------------------------------------------------

static int fail_tensor(const kd_images_reader *r, const kd_tensor *t, const char *want, kd_err *err)
{
    char shape[200];
    return kd_fail(err, KD_EFORMAT, "%s: %s: expected %s, got %s %s", kd_in_name(r->in), t->name, want, kd_dtype_name(t->dtype),
                   kd_shape_str(shape, sizeof shape, &t->shape));
}

// image [n,h,w,c], U8 or F32, with 1 to 4 channels and at least one pixel.
static int check_image(const kd_images_reader *r, const kd_tensor *t, kd_err *err)
{
    const kd_shape *s = &t->shape;
    const bool right = (t->dtype == KD_U8 || t->dtype == KD_F32) && s->n == 4 && s->d[1] > 0 && s->d[2] > 0 && s->d[3] > 0 &&
                       s->d[3] <= 4;
    return right ? 0 : fail_tensor(r, t, "U8 or F32 [n,h,w,c]", err);
}

// A per-image tensor as `want` (I64 or U64): other integer types are converted in place.
static int check_values(const kd_images_reader *r, const char *name, kd_dtype want, int64_t n, bool *has, kd_err *err)
{
    kd_tensor *t = kd_frame_get(r->frame, name);
    char expected[32];
    *has = t != NULL;
    if (!t)
        return 0;
    snprintf(expected, sizeof expected, "%s [%lld]", kd_dtype_name(want), (long long)n);
    if (t->dtype < KD_I64 || t->dtype == KD_BOOL || t->shape.n != 1 || t->shape.d[0] != n)
        return fail_tensor(r, t, expected, err);
    if (t->dtype == want)
        return 0;
    void *data = kd_alloc((size_t)n * 8);
    if (!data)
        return kd_fail_memory(err, name);
    kd_convert(data, want, t->data, t->dtype, n);
    kd_free(t->data);
    t->data = data;
    t->dtype = want;
    return 0;
}

// kd_part as a number; -1 if there is none.
static int take_part(kd_images_reader *r, kd_err *err)
{
    const char *part = kd_frame_meta(r->frame, "kd_part");
    r->part = -1;
    if (!part)
        return 0;
    if (!*part || strlen(part) > 15 || part[strspn(part, "0123456789")])
        return kd_fail(err, KD_EFORMAT, "%s: kd_part: expected a number, got \"%.20s\"", kd_in_name(r->in), part);
    r->part = atoll(part);
    return 0;
}

static int check_order(kd_images_reader *r, int64_t before, kd_err *err)
{
    KD_TRY(take_part(r, err));
    const int64_t want = r->open_record ? before + 1 : 0;
    char got[40] = "a frame of another record";
    if (r->part >= 0)
        snprintf(got, sizeof got, "part %" PRId64, r->part);
    if (r->open_record ? r->part != want : r->part > 0)
        return kd_fail(err, KD_EFORMAT, "%s: after image %" PRId64 ": expected part %" PRId64 " of a record, got %s",
                       kd_in_name(r->in), r->seen, want, got);
    r->open_record = r->part >= 0 && !kd_frame_meta(r->frame, "kd_last");
    return 0;
}

static int check_frame(kd_images_reader *r, bool first_of_record, kd_err *err)
{
    const char *file = kd_in_name(r->in);
    kd_tensor *image = kd_frame_get(r->frame, "image");
    if (!image)
        return kd_fail(err, KD_EFORMAT, "%s: no tensor named image: not images", file);
    KD_TRY(check_image(r, image, err));
    const int64_t n = image->shape.d[0];
    const bool labels = r->labels, index = r->index, seed = r->seed, calls = r->calls;
    KD_TRY(check_values(r, "label", KD_I64, n, &r->labels, err));
    KD_TRY(check_values(r, "index", KD_I64, n, &r->index, err));
    KD_TRY(check_values(r, "seed", KD_U64, n, &r->seed, err));
    KD_TRY(check_values(r, "calls", KD_I64, n, &r->calls, err));
    if (!first_of_record && (labels != r->labels || index != r->index || seed != r->seed || calls != r->calls))
        return kd_fail(err, KD_EFORMAT, "%s: after image %" PRId64 ": other tensors than the record's first frame", file, r->seen);
    return 0;
}

// Records of one stream must be alike: whoever trains or scores on it takes them as one set.
static int check_alike(const kd_images_reader *r, kd_err *err)
{
    const kd_images_info *a = &r->info;
    const kd_tensor *t = kd_frame_get(r->frame, "image");
    const int64_t *d = t->shape.d;
    if (d[1] != a->h || d[2] != a->w || d[3] != a->c || t->dtype != a->dtype)
        return kd_fail(err, r->part > 0 ? KD_EFORMAT : KD_EUSAGE, "%s: images after number %" PRId64 " are %s of %lldx%lldx%lld, those "
                       "before %s of %lldx%lldx%lld", kd_in_name(r->in), r->seen, kd_dtype_name(t->dtype), (long long)d[1],
                       (long long)d[2], (long long)d[3], kd_dtype_name(a->dtype), (long long)a->h, (long long)a->w, (long long)a->c);
    if (r->labels != a->has_label)
        return kd_fail(err, KD_EUSAGE, "%s: images after number %" PRId64 " have %slabels, those before %s", kd_in_name(r->in), r->seen,
                       r->labels ? "" : "no ", r->labels ? "none" : "have");
    return 0;
}

static int check_next(kd_images_reader *r, int64_t before, kd_err *err)
{
    const bool first_of_record = !r->open_record;
    KD_TRY(kd_frame_want(r->frame, kd_in_name(r->in), "images/1", true, err));
    KD_TRY(check_order(r, before, err));
    return check_frame(r, first_of_record, err);
}

// Reads the next frame and checks all but its likeness to the first record's; frame NULL at a good end.
static int next_frame(kd_images_reader *r, kd_err *err)
{
    kd_frame_free(r->frame);
    r->frame = NULL;
    const int64_t before = r->part;
    KD_TRY(kd_safetensors_read(r->in, &r->frame, err));
    if (!r->frame && r->open_record)
        return kd_fail(err, KD_EFORMAT, "%s: stream ends after image %" PRId64 " without its end mark: the program before it failed",
                       kd_in_name(r->in), r->seen);
    return r->frame ? check_next(r, before, err) : 0;
}

// The reader ---------------------------------------------------------------------------------------------------

bool kd_images_own_key(const char *key)
{
    static const char *const own[] = { "kd", "kd_xxh3", "kd_part", "kd_last" };
    for (int i = 0; i < (int)(sizeof own / sizeof *own); i++)
        if (!strcmp(own[i], key))
            return true;
    return false;
}

int kd_images_copy_meta(kd_frame **to, const kd_frame *from, kd_err *err)
{
    *to = kd_frame_new();
    if (!*to)
        return kd_fail_memory(err, "metadata");
    for (int i = 0; from && i < from->n_meta; i++)
        if (!kd_images_own_key(from->key[i]))
            KD_TRY(kd_frame_set_meta(*to, from->key[i], from->value[i], err));
    return 0;
}

static int first_frame(kd_images_reader *r, kd_err *err)
{
    if (!r->frame)
        return kd_fail(err, KD_EFORMAT, "%s: empty: not even an end mark", kd_in_name(r->in));
    KD_TRY(check_next(r, -1, err));
    const kd_tensor *t = kd_frame_get(r->frame, "image");
    r->info = (kd_images_info){ .h = t->shape.d[1], .w = t->shape.d[2], .c = t->shape.d[3], .dtype = t->dtype,
                                .has_label = r->labels, .has_index = r->index, .has_seed = r->seed, .has_calls = r->calls };
    return kd_images_copy_meta(&r->info.meta, r->frame, err);
}

int kd_images_continue(kd_images_reader **out, kd_in *in, kd_frame *first, kd_err *err)
{
    *out = NULL;
    kd_images_reader *r = kd_alloc(sizeof *r);
    if (!r) {
        kd_fail_memory(err, kd_in_name(in));
        kd_in_close(in);
        kd_frame_free(first);
        return err->code;
    }
    r->in = in;
    r->frame = first;
    if (first_frame(r, err))
        kd_images_close(r);
    else
        *out = r;
    return err->code;
}

int kd_images_open(kd_images_reader **out, const char *path, kd_err *err)
{
    kd_in *in;
    kd_frame *first;
    *out = NULL;
    KD_TRY(kd_in_open(&in, path, err));
    if (kd_safetensors_read(in, &first, err)) {
        kd_in_close(in);
        return err->code;
    }
    return kd_images_continue(out, in, first, err);
}

const kd_images_info *kd_images_info_of(const kd_images_reader *r) { return &r->info; }

static void *values(const kd_frame *f, const char *name)
{
    const kd_tensor *t = kd_frame_get(f, name);
    return t ? t->data : NULL;
}

int kd_images_next(kd_images_reader *r, kd_images *run, kd_err *err)
{
    *run = (kd_images){0};
    for (;;) {
        if (r->given) {
            KD_TRY(next_frame(r, err));
            if (!r->frame)
                return 0;                             // given stays: a further call finds the end again
            KD_TRY(check_alike(r, err));
        }
        r->given = true;
        const kd_tensor *image = kd_frame_get(r->frame, "image");
        const int64_t n = image->shape.d[0];
        if (!n)
            continue;                                 // an empty record, or a last frame without images
        *run = (kd_images){ .n = n, .image = image->data, .label = values(r->frame, "label"), .index = values(r->frame, "index"),
                            .seed = values(r->frame, "seed"), .calls = values(r->frame, "calls") };
        r->seen += n;
        return 0;
    }
}

void kd_images_close(kd_images_reader *r)
{
    if (!r)
        return;
    kd_in_close(r->in);
    kd_frame_free(r->frame);
    kd_frame_free(r->info.meta);
    kd_free(r);
}

// Pixels -------------------------------------------------------------------------------------------------------

// In double, so that a half is a half. NaN becomes 0.
void kd_images_quantize(uint8_t *to, const float *from, int64_t n, bool trunc)
{
    if (trunc) {
        // k_diffusion.utils.to_pil_image: clamp((x + 1) / 2, 0, 1) in f32, then times 255 and cut off
        for (int64_t i = 0; i < n; i++) {
            const float x = (from[i] + 1.0f) / 2.0f;
            to[i] = (uint8_t)((x > 0 ? x < 1 ? x : 1 : 0) * 255.0f);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double x = ((double)from[i] + 1) / 2 * 255;
        to[i] = (uint8_t)((x > 0 ? x < 255 ? x : 255 : 0) + 0.5);
    }
}

void kd_images_float(float *to, const uint8_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)from[i] / 255.0f * 2.0f - 1.0f;
}
