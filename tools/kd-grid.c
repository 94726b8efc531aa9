// kd-grid: look at any image stream, as one PNG or a PNG an image.
#include "base/memory.h"
#include "base/opt.h"
#include "base/talk.h"
#include "data/grid.h"
#include "formats/images.h"
#include "formats/png.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *input, *each, *quantize;
    int64_t cols, rows, pad, scale, limit;
    bool by_class;
    kd_common common;
};

static int parse(struct args *a, int argc, char **argv, kd_err *err)
{
    const kd_opt opts[] = {
        KD_OPT_ARG("IMAGES", &a->input, 0, "Stream of images (default -, standard input)"),
        KD_OPT_INT('c', "cols", &a->cols, 1, 65536, "Images per row (default: the square root of the number of images, rounded up)"),
        KD_OPT_INT('r', "rows", &a->rows, 1, 65536, "Number of rows (default: as many as needed)"),
        KD_OPT_FLAG(0, "by-class", &a->by_class, "Draw one row per class; the images need labels"),
        KD_OPT_INT(0, "pad", &a->pad, 0, 4096, "Width of the white gap between images, in pixels (default 2)"),
        KD_OPT_INT(0, "scale", &a->scale, 1, 256, "Size at which each pixel is drawn, as NxN pixels (default 1)"),
        KD_OPT_INT('n', "limit", &a->limit, 1, 1 << 30, "Largest number of images to read (default: no limit)"),
        KD_OPT_STR(0, "each", &a->each, "PATTERN", "Write one file per image instead of a grid, for example out_%05d.png"),
        KD_OPT_CHOICE(0, "quantize", &a->quantize, "round|trunc",
                      "Conversion of floating-point images to 8 bits (default round; k-diffusion uses trunc)"),
        KD_OPT_END };
    return kd_cli_parse("kd-grid", "Arrange images in a grid", opts, KD_WITH_OUT, argc, argv, &a->common, err);
}

// --each ----------------------------------------------------------------------------------------------------------

/// A file name with a number in it: "out_", 5 digits, ".png". `%%` is a percent sign.
struct pattern { kd_str before, after; int digits; bool zeros; };

static int parse_pattern(const char *s, struct pattern *p, kd_err *err)
{
    int numbers = 0;
    const char *at = s;
    while (*at) {
        if (*at != '%' || at[1] == '%') {
            KD_TRY(kd_str_add(numbers ? &p->after : &p->before, at, 1, err));
            at += *at == '%' ? 2 : 1;
            continue;
        }
        p->zeros = *++at == '0';
        for (p->digits = 0; isdigit((unsigned char)*at) && p->digits < 100; at++) p->digits = 10 * p->digits + *at - '0';
        if (*at++ != 'd' || p->digits > 20 || ++numbers > 1) break;
    }
    if (numbers == 1 && !*at) return 0;
    return kd_fail(err, KD_EUSAGE, "--each: expected a file name with one %%d in it, like out_%%05d.png, got '%s'", s);
}

static int write_png(kd_out *out, const kd_grid *g, const char *history, kd_err *err)
{
    KD_TRY(kd_png_write(out, g->p, g->h, g->w, g->c, history, err));
    return kd_out_commit(out, err);
}

static int write_each(const struct args *a, const struct pattern *p, int64_t number, const kd_images_info *info,
                      const uint8_t *image, const char *history, kd_err *err)
{
    kd_str path = {0};
    kd_grid g = {0};
    kd_out *out = NULL;
    int code = kd_str_printf(&path, err, p->zeros ? "%s%0*lld%s" : "%s%*lld%s", p->before.p ? p->before.p : "", p->digits,
                             (long long)number, p->after.p ? p->after.p : "");
    if (!code) code = kd_grid_make(&g, image, 1, info->h, info->w, (int)info->c, 1, 0, a->scale, err);
    if (!code) code = kd_out_open(&out, path.p, true, err);
    if (!code) code = write_png(out, &g, history, err);
    kd_out_close(out);
    kd_grid_free(&g);
    free(path.p);
    return code;
}

// Reading ---------------------------------------------------------------------------------------------------------

/// The images so far, in 8 bits; with --each only those of one run.
struct images { uint8_t *p; int64_t *label; size_t room; int64_t n; };

static int take_run(const struct args *a, struct images *to, const kd_images_info *info, const kd_images *run, kd_err *err)
{
    const size_t size = (size_t)(info->h * info->w * info->c), need = size * (size_t)(to->n + run->n);
    if (need > to->room) {
        uint8_t *more = kd_realloc(to->p, need > 2 * to->room ? need : 2 * to->room);
        if (!more) return kd_fail_memory(err, "images");
        to->room = need > 2 * to->room ? need : 2 * to->room;
        to->p = more;
    }
    if (run->label) {
        int64_t *more = kd_realloc(to->label, (size_t)(to->n + run->n) * sizeof *more);
        if (!more) return kd_fail_memory(err, "labels");
        to->label = more;
        memcpy(to->label + to->n, run->label, (size_t)run->n * sizeof *more);
    }
    uint8_t *at = to->p + size * (size_t)to->n;
    if (info->dtype == KD_U8) memcpy(at, run->image, size * (size_t)run->n);
    else kd_images_quantize(at, run->image, run->n * (int64_t)size, !strcmp(a->quantize, "trunc"));
    to->n += run->n;
    return 0;
}

// How many images are wanted: what --limit and --rows times --cols allow. 0: all
static int64_t wanted(const struct args *a)
{
    const int64_t cells = a->rows * a->cols;
    return a->limit && (!cells || a->limit < cells) ? a->limit : cells;
}

static int work(const struct args *a, kd_images_reader *in, kd_out *out, struct images *all, const struct pattern *each,
                const char *history, kd_err *err)
{
    const kd_images_info *info = kd_images_info_of(in);
    if (info->c != 1 && info->c != 3)
        return kd_fail(err, KD_EUSAGE, "images of %lld channels: expected 1 or 3", (long long)info->c);
    if (a->by_class && !info->has_label) return kd_fail(err, KD_EUSAGE, "--by-class: the images have no labels");
    if (info->dtype == KD_U8 && kd_given(&a->common, &a->quantize))
        return kd_fail(err, KD_EUSAGE, "--quantize: the images are in 8 bits already");
    const int64_t most = wanted(a);
    const size_t size = (size_t)(info->h * info->w * info->c);
    int64_t seen = 0;
    for (kd_images run; !most || seen < most;) {
        if (kd_interrupted()) return kd_fail_interrupted(err);
        KD_TRY(kd_images_next(in, &run, err));
        if (!run.n) break;
        if (most && run.n > most - seen) run.n = most - seen;
        KD_TRY(take_run(a, all, info, &run, err));
        for (int64_t i = 0; a->each && i < run.n; i++)
            KD_TRY(write_each(a, each, seen + i, info, all->p + size * (size_t)i, history, err));
        if (a->each) all->n = 0;
        seen += run.n;
    }
    if (a->each) return 0;
    if (!seen) return kd_fail(err, KD_EUSAGE, "no images: a PNG cannot be empty");
    kd_grid g = {0};
    const int64_t cols = a->cols || !a->rows ? a->cols : (seen + a->rows - 1) / a->rows;
    int code = a->by_class ? kd_grid_by_class(&g, all->p, all->label, seen, info->h, info->w, (int)info->c, a->pad, a->scale, err)
                           : kd_grid_make(&g, all->p, seen, info->h, info->w, (int)info->c, cols, a->pad, a->scale, err);
    if (!code) code = write_png(out, &g, history, err);
    kd_grid_free(&g);
    return code;
}

static int check(const struct args *a, struct pattern *each, kd_err *err)
{
    if (a->by_class && (a->cols || a->rows)) return kd_fail(err, KD_EUSAGE, "--by-class decides the rows and columns itself");
    if (!a->each) return 0;
    const char *useless = a->cols ? "--cols" : a->rows ? "--rows" : a->by_class ? "--by-class" : kd_given(&a->common, &a->pad) ? "--pad"
                        : strcmp(a->common.out, "-") ? "-o" : NULL;
    if (useless) return kd_fail(err, KD_EUSAGE, "%s has no use with --each", useless);
    return parse_pattern(a->each, each, err);
}

// The lines of the stream's history, then ours.
static int add_history(kd_str *s, const kd_images_info *info, const char *line, kd_err *err)
{
    const char *before = kd_frame_meta(info->meta, "kd_history");
    if (!line) return 0;
    return kd_str_printf(s, err, "%s%s%s", before ? before : "", before && *before ? "\n" : "", line);
}

int main(int argc, char **argv)
{
    struct args a = { .input = "-", .quantize = "round", .pad = 2, .scale = 1 };
    struct pattern each = {0};
    struct images all = {0};
    kd_images_reader *in = NULL;
    kd_out *out = NULL;
    kd_str history = {0};
    kd_err err = {0};
    if (parse(&a, argc, argv, &err) || check(&a, &each, &err)) goto done;
    kd_talk_init("kd-grid", a.common.quiet);
    kd_catch_signals();
    if (!a.each && kd_out_open(&out, a.common.out, true, &err)) goto done;
    if (kd_images_open(&in, a.input, &err)) goto done;
    if (add_history(&history, kd_images_info_of(in), a.common.history, &err)) goto done;
    work(&a, in, out, &all, &each, history.p, &err);
done:
    kd_images_close(in);
    kd_out_close(out);
    free(all.p);
    free(all.label);
    free(history.p);
    free(each.before.p);
    free(each.after.p);
    kd_cli_free(&a.common);
    return kd_tool_exit("kd-grid", &err);
}
