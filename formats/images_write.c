// Image streams: writing. A pipe gets frames of a fixed number of images; a file gets one frame, whose header is written
// last into room kept for it, because the number of images is known only then.
#include "base/memory.h"
#include "formats/images_private.h"
#include "formats/safetensors_header.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = KD_IMAGES_VALUES };

struct kd_images_writer {
    kd_out *out;
    kd_frame *meta;              // metadata of every frame; the tensors are added to write one
    int64_t h, w, c;
    kd_dtype dtype;
    size_t bytes;                // of an image
    bool has[VALUES];
    kd_str values[VALUES];       // 8 bytes an image: of the frame (pipe), of all (file)
    bool whole;                  // a file: one frame
    // pipe
    char *pixels;                // [frame_images] images
    int64_t frame_images, n;     // n: images held (pipe), written (file)
    int64_t part;
    // file
    uint64_t start;              // where the frame begins
    size_t room;                 // bytes kept for length and header
    kd_hash *hash;               // of the data so far
};

// The frame's tensors with n images, borrowing `pixels` and the values.
static int add_tensors(kd_images_writer *w, int64_t n, void *pixels, kd_err *err)
{
    static char nothing[8];      // an empty tensor needs an address too
    KD_TRY(kd_frame_add(w->meta, "image", w->dtype, KD_SHAPE(n, w->h, w->w, w->c), pixels, NULL, err));
    for (int i = 0; i < VALUES; i++)
        if (w->has[i])
            KD_TRY(kd_frame_add(w->meta, kd_images_values[i].name, kd_images_values[i].dtype, KD_SHAPE(n),
                                w->values[i].p ? w->values[i].p : nothing, NULL, err));
    return 0;
}

static void drop_tensors(kd_images_writer *w)
{
    for (int i = 0; i < w->meta->n; i++)
        free(w->meta->t[i].name);
    w->meta->n = 0;
}

// Creating -----------------------------------------------------------------------------------------------------

// Room for the header with as many images as memory addresses could count: longer numbers cannot come.
static int reserve_header(kd_images_writer *w, kd_err *err)
{
    static char nothing;
    kd_str header = {0};
    size_t at;
    const int64_t per_image = (int64_t)w->bytes > 8 ? (int64_t)w->bytes : 8, most = INT64_MAX / per_image / (1 + VALUES);
    w->start = kd_out_offset(w->out);
    w->hash = kd_hash_new();
    if (!w->hash)
        return kd_fail_memory(err, "a checksum");
    if (!add_tensors(w, most, &nothing, err) && !kd_header_build(&header, w->meta, 0, &at, err)) {
        w->room = header.n;
        memset(header.p, 0, header.n);
        kd_out_write(w->out, header.p, header.n, err);
    }
    drop_tensors(w);
    free(header.p);
    return err->code;
}

static int make_buffer(kd_images_writer *w, kd_err *err)
{
    w->frame_images = kd_images_per_run(w->bytes);
    w->pixels = kd_alloc((size_t)w->frame_images * w->bytes);
    return w->pixels ? 0 : kd_fail_memory(err, "a frame of images");
}

static int start(kd_images_writer *w, const kd_images_info *info, const char *history, kd_err *err)
{
    const bool has[VALUES] = { info->has_label, info->has_index, info->has_seed, info->has_calls };
    memcpy(w->has, has, sizeof has);
    KD_TRY(kd_images_copy_meta(&w->meta, info->meta, err));
    KD_TRY(kd_frame_set_meta(w->meta, "kd", "images/1", err));
    KD_TRY(kd_frame_add_history(w->meta, history, err));
    return w->whole ? reserve_header(w, err) : make_buffer(w, err);
}

int kd_images_create(kd_images_writer **to, kd_out *out, const kd_images_info *info, const char *history, kd_err *err)
{
    *to = NULL;
    int64_t pixels;
    if (info->h < 1 || info->w < 1 || info->c < 1 || !kd_mul(info->h, info->w, &pixels) || !kd_mul(pixels, info->c * 4, &pixels) ||
        pixels > INT64_MAX / 64)
        return kd_fail(err, KD_EUSAGE, "images of %lldx%lldx%lld", (long long)info->h, (long long)info->w, (long long)info->c);
    kd_images_writer *w = kd_alloc(sizeof *w);
    if (!w)
        return kd_fail_memory(err, "an image stream");
    w->out = out;
    w->h = info->h, w->w = info->w, w->c = info->c;
    w->dtype = info->dtype;
    w->bytes = (size_t)(w->h * w->w * w->c) * kd_dtype_size(w->dtype);
    w->whole = kd_out_is_file(out);
    if (start(w, info, history, err)) {
        kd_images_writer_free(w);
        return err->code;
    }
    *to = w;
    return 0;
}

// A pipe -------------------------------------------------------------------------------------------------------

// Writes the images held as one frame.
static int write_frame(kd_images_writer *w, bool last, kd_err *err)
{
    char part[24];
    snprintf(part, sizeof part, "%" PRId64, w->part++);
    KD_TRY(kd_frame_set_meta(w->meta, "kd_part", part, err));
    if (last)
        KD_TRY(kd_frame_set_meta(w->meta, "kd_last", "1", err));
    if (!add_tensors(w, w->n, w->pixels, err) && !kd_safetensors_write(w->out, w->meta, err))
        kd_out_flush(w->out, err);
    drop_tensors(w);
    for (int i = 0; i < VALUES; i++)
        w->values[i].n = 0;
    w->n = 0;
    return err->code;
}

static int add_values(kd_images_writer *w, const kd_images *run, int64_t first, int64_t n, kd_err *err)
{
    const void *from[VALUES] = { run->label, run->index, run->seed, run->calls };
    for (int i = 0; i < VALUES; i++)
        if (w->has[i])
            KD_TRY(kd_str_add(&w->values[i], (const char *)from[i] + 8 * first, (size_t)n * 8, err));
    return 0;
}

// A full frame is written when the next image comes, so that the last one is known to be the last.
static int put_pipe(kd_images_writer *w, const kd_images *run, kd_err *err)
{
    for (int64_t i = 0; i < run->n;) {
        if (w->n == w->frame_images)
            KD_TRY(write_frame(w, false, err));
        const int64_t room = w->frame_images - w->n, take = run->n - i < room ? run->n - i : room;
        memcpy(w->pixels + (size_t)w->n * w->bytes, (const char *)run->image + (size_t)i * w->bytes, (size_t)take * w->bytes);
        KD_TRY(add_values(w, run, i, take, err));
        w->n += take;
        i += take;
    }
    return 0;
}

// A file -------------------------------------------------------------------------------------------------------

static int write_data(kd_images_writer *w, const void *bytes, size_t n, kd_err *err)
{
    kd_hash_add(w->hash, bytes, n);
    return kd_out_write(w->out, bytes, n, err);
}

static int put_file(kd_images_writer *w, const kd_images *run, kd_err *err)
{
    KD_TRY(write_data(w, run->image, (size_t)run->n * w->bytes, err));
    KD_TRY(add_values(w, run, 0, run->n, err));
    w->n += run->n;
    return 0;
}

static int finish_file(kd_images_writer *w, kd_err *err)
{
    static char nothing;
    kd_str header = {0};
    size_t at;
    char sum[17];
    for (int i = 0; i < VALUES; i++)
        KD_TRY(write_data(w, w->values[i].p, w->values[i].n, err));
    if (!add_tensors(w, w->n, &nothing, err) && !kd_header_build(&header, w->meta, w->room, &at, err)) {
        kd_hash_add(w->hash, header.p + 8, header.n - 8);
        snprintf(sum, sizeof sum, "%016" PRIx64, kd_hash_get(w->hash));
        memcpy(header.p + at, sum, 16);
        kd_out_patch(w->out, w->start, header.p, header.n, err);
    }
    drop_tensors(w);
    free(header.p);
    return err->code;
}

// --------------------------------------------------------------------------------------------------------------

int kd_images_put(kd_images_writer *w, const kd_images *run, kd_err *err)
{
    if (run->n <= 0)
        return 0;
    return w->whole ? put_file(w, run, err) : put_pipe(w, run, err);
}

int kd_images_finish(kd_images_writer *w, kd_err *err)
{
    return w->whole ? finish_file(w, err) : write_frame(w, true, err);
}

void kd_images_writer_free(kd_images_writer *w)
{
    if (!w)
        return;
    for (int i = 0; i < VALUES; i++)
        free(w->values[i].p);
    kd_frame_free(w->meta);
    kd_hash_free(w->hash);
    kd_free(w->pixels);
    kd_free(w);
}
