// Image streams: reading. Page: formats/images.md. Writing: images_write.c
#include "formats/images.h"
#include "base/memory.h"
#include "formats/images_private.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = KD_IMAGES_VALUES };
const kd_images_value kd_images_values[VALUES] = {
    { "label", KD_I64 }, { "index", KD_I64 }, { "seed", KD_U64 }, { "calls", KD_I64 } };
enum { LABEL, INDEX, SEED, CALLS };

struct kd_images_reader {
    kd_in *in;
    kd_images_info info;
    int64_t seen;                // images in the frames before this one
    int64_t part;                // of the frame; -1: a whole record
    bool open_record;            // its last frame has not come
    bool any;                    // also pixels that are not finite
    bool has[VALUES];            // what the current record has
    // The frame
    kd_frame_in *frame;          // NULL: the end was found
    const kd_tensor *image, *value[VALUES];
    bool in_memory;              // else its data are in the file, and images are read run by run
    int64_t n, given;            // its images, and how many of them were given
    // A run
    void *pixels;                // room for one, NULL before the first that needs it
    uint64_t values[VALUES][KD_IMAGES_RUN];
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

// A per-image tensor: its own type or another integer's, which is converted as it is given.
static int check_value(kd_images_reader *r, int i, kd_err *err)
{
    const kd_tensor *t = r->value[i] = kd_frame_get(kd_frame_in_frame(r->frame), kd_images_values[i].name);
    char want[32];
    r->has[i] = t != NULL;
    if (!t || (t->dtype >= KD_I64 && t->dtype != KD_BOOL && t->shape.n == 1 && t->shape.d[0] == r->n))
        return 0;
    snprintf(want, sizeof want, "%s [%" PRId64 "]", kd_dtype_name(kd_images_values[i].dtype), r->n);
    return fail_tensor(r, t, want, err);
}

// kd_part as a number; -1 if there is none.
static int take_part(kd_images_reader *r, kd_err *err)
{
    const char *part = kd_frame_meta(kd_frame_in_frame(r->frame), "kd_part");
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
    r->open_record = r->part >= 0 && !kd_frame_meta(kd_frame_in_frame(r->frame), "kd_last");
    return 0;
}

static int check_frame(kd_images_reader *r, bool first_of_record, kd_err *err)
{
    bool before[VALUES];
    memcpy(before, r->has, sizeof before);
    r->image = kd_frame_get(kd_frame_in_frame(r->frame), "image");
    if (!r->image)
        return kd_fail(err, KD_EFORMAT, "%s: no tensor named image: not images", kd_in_name(r->in));
    KD_TRY(check_image(r, r->image, err));
    r->n = r->image->shape.d[0];
    for (int i = 0; i < VALUES; i++)
        KD_TRY(check_value(r, i, err));
    if (!first_of_record && memcmp(before, r->has, sizeof before))
        return kd_fail(err, KD_EFORMAT, "%s: after image %" PRId64 ": other tensors than the record's first frame", kd_in_name(r->in),
                       r->seen);
    return 0;
}

// Records of one stream must be alike: whoever trains or scores on it takes them as one set.
static int check_alike(const kd_images_reader *r, kd_err *err)
{
    const kd_images_info *a = &r->info;
    const kd_tensor *t = r->image;
    const int64_t *d = t->shape.d;
    if (d[1] != a->h || d[2] != a->w || d[3] != a->c || t->dtype != a->dtype)
        return kd_fail(err, r->part > 0 ? KD_EFORMAT : KD_EUSAGE, "%s: images after number %" PRId64 " are %s of %lldx%lldx%lld, those "
                       "before %s of %lldx%lldx%lld", kd_in_name(r->in), r->seen, kd_dtype_name(t->dtype), (long long)d[1],
                       (long long)d[2], (long long)d[3], kd_dtype_name(a->dtype), (long long)a->h, (long long)a->w, (long long)a->c);
    if (r->has[LABEL] != a->has_label)
        return kd_fail(err, KD_EUSAGE, "%s: images after number %" PRId64 " have %slabels, those before %s", kd_in_name(r->in), r->seen,
                       r->has[LABEL] ? "" : "no ", r->has[LABEL] ? "none" : "have");
    return 0;
}

// A frame of which the header is read: all is checked but its likeness to the first record's.
static int start_frame(kd_images_reader *r, int64_t before, kd_err *err)
{
    const bool first_of_record = !r->open_record;
    r->in_memory = kd_in_left(r->in) < 0 || kd_frame_in_bytes(r->frame) <= KD_IMAGES_BYTES;
    r->given = 0;
    if (r->in_memory)
        KD_TRY(kd_frame_in_all(r->frame, NULL, NULL, err));
    KD_TRY(kd_frame_want(kd_frame_in_frame(r->frame), kd_in_name(r->in), "images/1", true, err));
    KD_TRY(check_order(r, before, err));
    KD_TRY(check_frame(r, first_of_record, err));
    if (r->in_memory)
        return 0;
    return r->n ? kd_frame_in_pass(r->frame, r->image, err) : kd_frame_in_end(r->frame, err);
}

// frame NULL at a good end.
static int next_frame(kd_images_reader *r, kd_err *err)
{
    const int64_t before = r->part;
    kd_frame_in_close(r->frame);
    r->seen += r->n;
    r->n = r->given = 0;
    KD_TRY(kd_frame_in_open(&r->frame, r->in, err));
    if (!r->frame && r->open_record)
        return kd_fail(err, KD_EFORMAT, "%s: stream ends after image %" PRId64 " without its end mark: the program before it failed",
                       kd_in_name(r->in), r->seen);
    if (!r->frame)
        return 0;
    KD_TRY(start_frame(r, before, err));
    return check_alike(r, err);
}

// A run --------------------------------------------------------------------------------------------------------

int64_t kd_images_per_run(size_t bytes)
{
    const size_t fit = KD_IMAGES_BYTES / bytes;
    return fit < 1 ? 1 : fit < KD_IMAGES_RUN ? (int64_t)fit : KD_IMAGES_RUN;
}

static int take_pixels(kd_images_reader *r, size_t bytes, kd_images *run, kd_err *err)
{
    run->image = r->in_memory ? (char *)r->image->data + (size_t)r->given * bytes : r->pixels;
    if (r->in_memory)
        return 0;
    if (!run->image && !(run->image = r->pixels = kd_alloc((size_t)kd_images_per_run(bytes) * bytes)))
        return kd_fail_memory(err, "a run of images");
    return kd_frame_in_read(r->frame, run->image, (size_t)run->n * bytes, err);
}

// They stand before or after all the pixels, so those of a run are looked up.
static int take_values(kd_images_reader *r, int i, int64_t n, kd_err *err)
{
    const kd_tensor *t = r->value[i];
    const size_t size = kd_dtype_size(t->dtype), at = (size_t)r->given * size;
    uint64_t there[KD_IMAGES_RUN];
    size_t got;
    if (!r->in_memory) {
        KD_TRY(kd_in_read_at(r->in, kd_frame_in_offset(r->frame, t) + at, there, (size_t)n * size, &got, err));
        if (got < (size_t)n * size)
            return kd_fail(err, KD_EFORMAT, "%s: tensor %s ends after %zu of %zu bytes", kd_in_name(r->in), t->name, at + got,
                           kd_tensor_bytes(t));
    }
    kd_convert(r->values[i], kd_images_values[i].dtype, r->in_memory ? (char *)t->data + at : (char *)there, t->dtype, n);
    return 0;
}

// Pixels that are no numbers would spread over a batch's loss, or become black, and nobody would know.
static int check_finite(const kd_images_reader *r, const kd_images *run, size_t bytes, kd_err *err)
{
    const int64_t size = (int64_t)(bytes / sizeof(float));
    const float *x = run->image;
    const int64_t bad = r->image->dtype != KD_F32 || r->any ? -1 : kd_find_not_finite(x, size * run->n);
    return bad < 0 ? 0 : kd_fail(err, KD_EFORMAT, "%s: image %" PRId64 " has a pixel of %g, expected finite numbers", kd_in_name(r->in),
                                 r->seen + r->given + bad / size, (double)x[bad]);
}

static int take_run(kd_images_reader *r, kd_images *run, kd_err *err)
{
    const size_t bytes = kd_tensor_bytes(r->image) / (size_t)r->n;
    const int64_t left = r->n - r->given, most = kd_images_per_run(bytes);
    run->n = left < most ? left : most;
    for (int i = 0; i < VALUES; i++)
        if (r->has[i])
            KD_TRY(take_values(r, i, run->n, err));
    KD_TRY(take_pixels(r, bytes, run, err));
    KD_TRY(check_finite(r, run, bytes, err));
    run->label = r->has[LABEL] ? (int64_t *)r->values[LABEL] : NULL;
    run->index = r->has[INDEX] ? (int64_t *)r->values[INDEX] : NULL;
    run->seed = r->has[SEED] ? r->values[SEED] : NULL;
    run->calls = r->has[CALLS] ? (int64_t *)r->values[CALLS] : NULL;
    r->given += run->n;
    return r->in_memory || r->given < r->n ? 0 : kd_frame_in_end(r->frame, err);
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
    KD_TRY(start_frame(r, -1, err));
    const int64_t *d = r->image->shape.d;
    r->info = (kd_images_info){ .h = d[1], .w = d[2], .c = d[3], .dtype = r->image->dtype, .has_label = r->has[LABEL],
                                .has_index = r->has[INDEX], .has_seed = r->has[SEED], .has_calls = r->has[CALLS] };
    return kd_images_copy_meta(&r->info.meta, kd_frame_in_frame(r->frame), err);
}

int kd_images_continue(kd_images_reader **out, kd_in *in, kd_frame_in *first, kd_err *err)
{
    *out = NULL;
    kd_images_reader *r = kd_alloc(sizeof *r);
    if (!r) {
        kd_fail_memory(err, kd_in_name(in));
        kd_frame_in_close(first);
        kd_in_close(in);
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
    kd_frame_in *first;
    *out = NULL;
    KD_TRY(kd_in_open(&in, path, err));
    if (kd_frame_in_open(&first, in, err)) {
        kd_in_close(in);
        return err->code;
    }
    return kd_images_continue(out, in, first, err);
}

void kd_images_take_any(kd_images_reader *r) { r->any = true; }

const kd_images_info *kd_images_info_of(const kd_images_reader *r) { return &r->info; }

int kd_images_next(kd_images_reader *r, kd_images *run, kd_err *err)
{
    *run = (kd_images){0};
    while (r->frame && r->given == r->n)              // an empty record, or a last frame without images, has none to give
        KD_TRY(next_frame(r, err));
    return r->frame ? take_run(r, run, err) : 0;
}

const kd_frame *kd_images_meta(const kd_images_reader *r) { return r->frame ? kd_frame_in_frame(r->frame) : r->info.meta; }

void kd_images_close(kd_images_reader *r)
{
    if (!r)
        return;
    kd_frame_in_close(r->frame);
    kd_in_close(r->in);
    kd_frame_free(r->info.meta);
    kd_free(r->pixels);
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
