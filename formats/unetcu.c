// Reading unet.cu's weights. Page: formats/unetcu.md. Peer: clu0/unet.cu, train_unet.cu save_unet_states.
#include "formats/unetcu.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = 12345678, HEADER = 256 * 4, GENERATOR = 48,          // GENERATOR: bytes of a curandState
       MOST = 1 << 16, BLOCKS_MAX = 4 };

// Parameters in the order of the modules -------------------------------------------------------------------------

typedef struct walk {
    const kd_unetcu_arch *a;
    int (*see)(void *, const char *, kd_shape, kd_err *);
    void *arg;
    kd_err *err;
    char at[40];               // the module's name
} walk;

static int see(walk *w, const char *layer, const char *what, kd_shape shape)
{
    char name[120];
    snprintf(name, sizeof name, "%s.%s%s", w->at, layer, what);
    return w->see(w->arg, name, shape, w->err);
}

// A weight of this shape, and a bias for its first size.
static int both(walk *w, const char *layer, kd_shape weight)
{
    KD_TRY(see(w, layer, "weight", weight));
    return see(w, layer, "bias", KD_SHAPE(weight.d[0]));
}

static int norm(walk *w, const char *layer, int64_t c) { return both(w, layer, KD_SHAPE(c)); }
static int conv(walk *w, const char *layer, int64_t to, int64_t from, int64_t k) { return both(w, layer, KD_SHAPE(to, from, k, k)); }
static int linear(walk *w, const char *layer, int64_t to, int64_t from) { return both(w, layer, KD_SHAPE(to, from)); }

static int resblock(walk *w, int64_t from, int64_t to)
{
    KD_TRY(norm(w, "in_layers.0.", from));
    KD_TRY(conv(w, "in_layers.2.", to, from, 3));
    KD_TRY(linear(w, "emb_layers.1.", to, 4 * w->a->model_channels));
    KD_TRY(norm(w, "out_layers.0.", to));
    KD_TRY(conv(w, "out_layers.3.", to, to, 3));
    return from == to ? 0 : conv(w, "skip_connection.", to, from, 1);
}

static int attention(walk *w, int64_t c)
{
    KD_TRY(norm(w, "norm.", c));
    KD_TRY(both(w, "qkv.", KD_SHAPE(3 * c, c, 1)));
    return both(w, "proj_out.", KD_SHAPE(c, c, 1));
}

static void go(walk *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void go(walk *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->at, sizeof w->at, fmt, ap);
    va_end(ap);
}

static int64_t width(const walk *w, int level) { return (level + 1) * w->a->model_channels; }

// One block of a level, and its attention.
static int block(walk *w, const char *list, int number, int level, int64_t from)
{
    go(w, "%s.%d.0", list, number);
    KD_TRY(resblock(w, from, width(w, level)));
    if (level < w->a->attention_from)
        return 0;
    go(w, "%s.%d.1", list, number);
    return attention(w, width(w, level));
}

enum { SKIPS = KD_UNETCU_LEVELS * (BLOCKS_MAX + 1) };

// skip: features of all that the way up will join again.
static int way_down(walk *w, int64_t skip[SKIPS], int *n)
{
    int64_t c = w->a->model_channels;
    go(w, "input_blocks.0");
    KD_TRY(conv(w, "0.", c, w->a->in_channels, 3));
    skip[(*n)++] = c;
    for (int l = 0; l < w->a->levels; l++) {
        for (int i = 0; i < w->a->blocks; i++) {
            KD_TRY(block(w, "input_blocks", *n, l, c));
            skip[(*n)++] = c = width(w, l);
        }
        if (l + 1 < w->a->levels)
            skip[(*n)++] = c;                            // the pool, which has a number and no parameters
    }
    return 0;
}

static int middle(walk *w, int64_t c)
{
    go(w, "middle_block.0");
    KD_TRY(resblock(w, c, c));
    go(w, "middle_block.1");
    KD_TRY(attention(w, c));
    go(w, "middle_block.2");
    return resblock(w, c, c);
}

static int way_up(walk *w, const int64_t *skip, int n)
{
    int64_t c = width(w, w->a->levels - 1);
    int number = 0;
    for (int l = w->a->levels - 1; l >= 0; l--)
        for (int i = 0; i <= w->a->blocks; i++, number++) {
            KD_TRY(block(w, "output_blocks", number, l, c + skip[--n]));
            c = width(w, l);
        }
    return 0;
}

int kd_unetcu_each(const kd_unetcu_arch *a, int (*fn)(void *, const char *, kd_shape, kd_err *), void *arg, kd_err *err)
{
    walk w = { .a = a, .see = fn, .arg = arg, .err = err };
    int64_t skip[SKIPS];
    int n = 0;
    go(&w, "time_embed");
    KD_TRY(linear(&w, "0.", 4 * a->model_channels, a->model_channels));
    KD_TRY(linear(&w, "2.", 4 * a->model_channels, 4 * a->model_channels));
    KD_TRY(way_down(&w, skip, &n));
    KD_TRY(middle(&w, width(&w, a->levels - 1)));
    KD_TRY(way_up(&w, skip, n));
    go(&w, "out");
    KD_TRY(norm(&w, "0.", a->model_channels));
    return conv(&w, "2.", a->out_channels, a->model_channels, 3);
}

// Which network --------------------------------------------------------------------------------------------------

static int add_count(void *arg, const char *name, kd_shape shape, kd_err *err)
{
    (void)name, (void)err;
    *(int64_t *)arg += kd_shape_count(&shape);
    return 0;
}

static int64_t count_of(const kd_unetcu_arch *a)
{
    kd_err err = {0};
    int64_t n = 0;
    kd_unetcu_each(a, add_count, &n, &err);
    return n;
}

static int choose(kd_unetcu_arch *a, const char *file, int64_t count, kd_err *err)
{
    kd_unetcu_arch found = {0}, own = *a;
    int n = 0;
    own.levels = KD_UNETCU_LEVELS, own.blocks = 2, own.attention_from = 2;
    if (count_of(&own) == count) {
        *a = own;
        return 0;
    }
    for (a->levels = 1; a->levels <= KD_UNETCU_LEVELS; a->levels++)
        for (a->blocks = 1; a->blocks <= BLOCKS_MAX; a->blocks++)
            for (a->attention_from = 0; a->attention_from <= a->levels; a->attention_from++)
                if (count_of(a) == count)
                    found = *a, n++;
    if (n == 1) {
        *a = found;
        return 0;
    }
    return kd_fail(err, KD_EFORMAT, "%s: unet.cu: %" PRId64 " parameters: %s of up to %d levels and %d blocks with %" PRId64
                   " channels has as many; its own has %" PRId64, file, count, n ? "more than one network" : "no network",
                   KD_UNETCU_LEVELS, BLOCKS_MAX, a->model_channels, count_of(&own));
}

// The file -------------------------------------------------------------------------------------------------------

static int32_t word(const uint8_t *b, int i)
{
    int32_t x;
    memcpy(&x, b + 4 * i, 4);
    return x;
}

bool kd_unetcu_knows(const void *bytes, size_t n) { return n >= 4 && word(bytes, 0) == MAGIC; }

static int positive(const uint8_t *b, int i, const char *what, int64_t *to, const char *file, kd_err *err)
{
    *to = word(b, i);
    return *to >= 1 && *to <= MOST ? 0
         : kd_fail(err, KD_EFORMAT, "%s: unet.cu: %s: expected 1 to %d, got %" PRId64, file, what, MOST, *to);
}

/// *count: parameters, once the states that may follow are taken off.
static int read_header(kd_unetcu_arch *a, int64_t *count, const uint8_t *b, size_t n, const char *file, kd_err *err)
{
    int64_t batch, states = 0, image;
    if (n < HEADER)
        return kd_fail(err, KD_EFORMAT, "%s: unet.cu: ends after %zu of the header's %d bytes", file, n, HEADER);
    KD_TRY(positive(b, 1, "batch", &batch, file, err));
    KD_TRY(positive(b, 2, "input channels", &a->in_channels, file, err));
    KD_TRY(positive(b, 3, "model channels", &a->model_channels, file, err));
    KD_TRY(positive(b, 4, "output channels", &a->out_channels, file, err));
    KD_TRY(positive(b, 5, "height", &a->h, file, err));
    KD_TRY(positive(b, 6, "width", &a->w, file, err));
    KD_TRY(positive(b, 7, "max_period", &a->max_period, file, err));
    const int64_t copies = word(b, 8) ? 3 : 1, left = (int64_t)n - HEADER;       // AdamW's moments are two more
    const bool fits = kd_mul(a->in_channels, a->h * a->w, &image) && kd_mul(image, batch, &image) && kd_mul(image, GENERATOR, &states);
    if (word(b, 9) && (!fits || states > left))
        return kd_fail(err, KD_EFORMAT, "%s: unet.cu: too short for the generator's states that it announces", file);
    states = word(b, 9) ? states : 0;
    *count = (left - states) / 4 / copies;
    return (left - states) % (4 * copies) == 0 ? 0
         : kd_fail(err, KD_EFORMAT, "%s: unet.cu: %" PRId64 " bytes of numbers are not %s", file, left - states,
                   copies > 1 ? "parameters and twice as many moments" : "a whole number of them");
}

static int put_config(kd_frame *f, const kd_unetcu_arch *a, kd_err *err)
{
    kd_str s = {0};
    int failed = kd_str_printf(&s, err, "{\"model\": {\"type\": \"guided_diffusion\", \"image_size\": %" PRId64 ", \"input_size\": "
                               "[%" PRId64 ", %" PRId64 "], \"in_channels\": %" PRId64 ", \"model_channels\": %" PRId64
                               ", \"out_channels\": %" PRId64 ", \"num_res_blocks\": %d, \"channel_mult\": [", a->h, a->h, a->w,
                               a->in_channels, a->model_channels, a->out_channels, a->blocks);
    for (int l = 0; !failed && l < a->levels; l++)
        failed = kd_str_printf(&s, err, "%s%d", l ? ", " : "", l + 1);
    if (!failed)
        failed = kd_str_printf(&s, err, "], \"attention_resolutions\": [");
    for (int l = a->attention_from; !failed && l < a->levels; l++)
        failed = kd_str_printf(&s, err, "%s%d", l > a->attention_from ? ", " : "", 1 << l);
    if (!failed)
        failed = kd_str_printf(&s, err, "], \"dropout\": 0.0, \"conv_resample\": false, \"num_classes\": null, \"num_heads\": 1, "
                               "\"num_head_channels\": 32, \"use_scale_shift_norm\": false, \"resblock_updown\": false, "
                               "\"use_new_attention_order\": true, \"max_period\": %" PRId64 "}}", a->max_period);
    if (!failed)
        kd_frame_set_meta(f, "config", s.p, err);
    free(s.p);
    return err->code;
}

typedef struct fill { kd_frame *f; const uint8_t *from; } fill;

static int add_tensor(void *arg, const char *name, kd_shape shape, kd_err *err)
{
    fill *to = arg;
    kd_tensor *t;
    KD_TRY(kd_frame_add(to->f, name, KD_F32, shape, NULL, &t, err));
    memcpy(t->data, to->from, kd_tensor_bytes(t));
    to->from += kd_tensor_bytes(t);
    return 0;
}

int kd_unetcu_read(kd_frame **out, kd_in *in, kd_err *err)
{
    kd_unetcu_arch a = {0};
    int64_t count = 0;
    void *bytes;
    size_t n;
    *out = NULL;
    KD_TRY(kd_in_read_rest(in, PTRDIFF_MAX, &bytes, &n, err));
    fill to = { .f = kd_frame_new(), .from = (const uint8_t *)bytes + HEADER };
    if (!to.f)
        kd_fail_memory(err, kd_in_name(in));
    else if (!kd_unetcu_knows(bytes, n))
        kd_fail(err, KD_EFORMAT, "%s: not unet.cu's weights", kd_in_name(in));
    else if (!read_header(&a, &count, bytes, n, kd_in_name(in), err) && !choose(&a, kd_in_name(in), count, err) &&
             !kd_unetcu_each(&a, add_tensor, &to, err))
        put_config(to.f, &a, err);
    if (err->code)
        kd_frame_free(to.f);
    else
        *out = to.f;
    free(bytes);
    return err->code;
}
