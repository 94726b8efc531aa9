// kd-prep: folders of pictures and data set files to one stream of images. Output: formats/images.md on stdout.
#include "base/opt.h"
#include "base/talk.h"
#include "data/prep.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 16384 };                                   // largest side of --size

struct args {
    kd_args sources;
    const char *size, *crop, *resize, *background, *channels, *labels, *report;
    int64_t skip, limit;
    bool strict;
    kd_common common;
};

static int parse(struct args *a, int argc, char **argv, kd_err *err)
{
    const kd_opt opts[] = {
        KD_OPT_ARGS("SOURCE", &a->sources, 1,
                    "Folder, or file of PNG, JPEG, MNIST (IDX), CIFAR-10 (.bin) or unet.cu; - for standard input"),
        KD_OPT_STR('s', "size", &a->size, "N|WxH", "Size of all images, in pixels (default: the pictures' own size, the same for all)"),
        KD_OPT_CHOICE(0, "crop", &a->crop, "center|none",
                      "Way to fit a picture into --size: cover it and crop, or stretch (default center)"),
        KD_OPT_CHOICE(0, "resize", &a->resize, "bicubic|lanczos|box|bilinear", "Filter for resizing, as in Pillow (default bicubic)"),
        KD_OPT_STR(0, "background", &a->background, "COLOR",
                   "Color behind transparent pixels: white, black, 0 to 255 or #rrggbb (default white)"),
        KD_OPT_CHOICE(0, "channels", &a->channels, "auto|1|3",
                      "Number of channels, 1 for gray or 3 for color (default auto: 1 for MNIST, 3 for others)"),
        KD_OPT_CHOICE(0, "labels", &a->labels, "auto|dir|none",
                      "Source of labels: MNIST and CIFAR-10 files, names of folders, or none (default auto)"),
        KD_OPT_INT(0, "skip", &a->skip, 0, INFINITY, "Number of good images to leave out at the beginning (default 0)"),
        KD_OPT_INT('n', "limit", &a->limit, 1, INFINITY, "Largest number of images to write (default: no limit)"),
        KD_OPT_FLAG(0, "strict", &a->strict, "Treat a file that cannot be read, is damaged or has an unknown type as an error"),
        KD_OPT_STR(0, "report", &a->report, "FILE", "File for a report with one line of JSON per input file"),
        KD_OPT_END };
    return kd_cli_parse("kd-prep", "Convert pictures to a stream of images", opts, KD_WITH_OUT | KD_WITH_THREADS, argc, argv,
                        &a->common, err);
}

// A whole decimal number of 1 to 5 digits at *s, which moves behind it; -1 if there is none.
static int64_t number(const char **s)
{
    int64_t n = 0;
    const char *start = *s;
    while (**s >= '0' && **s <= '9' && *s - start < 5) n = 10 * n + *(*s)++ - '0';
    return *s == start ? -1 : n;
}

static int parse_size(const char *s, int64_t *w, int64_t *h, kd_err *err)
{
    const char *at = s;
    *w = *h = number(&at);
    if (*at == 'x') at++, *h = number(&at);
    if (!*at && *w >= 1 && *h >= 1 && *w <= SIDE && *h <= SIDE) return 0;
    return kd_fail(err, KD_EUSAGE, "--size: expected N or WxH, 1 to %d, got '%s'", SIDE, s);
}

static int parse_colour(const char *s, uint8_t colour[3], kd_err *err)
{
    const char *at = s;
    const int64_t level = !strcmp(s, "white") ? 255 : !strcmp(s, "black") ? 0 : number(&at);
    if (level >= 0 && level <= 255 && (at == s || !*at)) {
        memset(colour, (int)level, 3);
        return 0;
    }
    if (strlen(s) != 7 || *s != '#' || strspn(s + 1, "0123456789abcdefABCDEF") != 6)
        return kd_fail(err, KD_EUSAGE, "--background: expected white, black, 0 to 255 or #rrggbb, got '%s'", s);
    const unsigned long rgb = strtoul(s + 1, NULL, 16);
    for (int i = 0; i < 3; i++) colour[i] = (uint8_t)(rgb >> 8 * (2 - i));
    return 0;
}

static int check(const struct args *a, kd_prep *p, kd_err *err)
{
    const char *idle = a->size ? NULL : kd_given(&a->common, &a->crop) ? "--crop" : kd_given(&a->common, &a->resize) ? "--resize" : NULL;
    if (idle) return kd_fail(err, KD_EUSAGE, "%s: only with --size, which says what to make the pictures fit", idle);
    static const struct { const char *name; kd_filter filter; } filters[] = {
        { "bicubic", KD_BICUBIC }, { "lanczos", KD_LANCZOS }, { "box", KD_BOX }, { "bilinear", KD_BILINEAR } };
    for (int i = 0; i < 4; i++)
        if (!strcmp(a->resize, filters[i].name)) p->filter = filters[i].filter;
    p->filter_name = a->resize;
    p->crop = !strcmp(a->crop, "center");
    p->channels = !strcmp(a->channels, "auto") ? 0 : *a->channels - '0';
    p->labels = !strcmp(a->labels, "dir") ? KD_LABELS_DIR : !strcmp(a->labels, "none") ? KD_LABELS_NONE : KD_LABELS_AUTO;
    p->skip = a->skip, p->limit = a->limit, p->strict = a->strict, p->report = a->report;
    p->history = a->common.history;
    if (a->report && !strcmp(a->report, "-") && !strcmp(a->common.out, "-"))
        return kd_fail(err, KD_EUSAGE, "--report - needs -o FILE: the images go to stdout");
    if (a->size) KD_TRY(parse_size(a->size, &p->w, &p->h, err));
    return parse_colour(a->background, p->background, err);
}

static void say(const char *line) { kd_say("%s", line); }

static void show(const kd_prep_totals *t) { kd_status("%lld files, %lld images", (long long)t->files, (long long)t->images); }

static void say_totals(const kd_prep_totals *t)
{
    char images[64] = "";
    if (t->images != t->kept) snprintf(images, sizeof images, "; %lld images", (long long)t->images);
    kd_say("%lld files: %lld kept (%lld changed), %lld skipped%s%s", (long long)t->files, (long long)t->kept, (long long)t->changed,
           (long long)t->skipped, images, t->limited ? "; stopped at --limit" : "");
}

int main(int argc, char **argv)
{
    struct args a = { .crop = "center", .resize = "bicubic", .background = "white", .channels = "auto", .labels = "auto", .limit = -1 };
    kd_prep p = { .say = say, .progress = show };
    kd_prep_totals totals = {0};
    kd_out *out = NULL;
    kd_err err = {0};
    if (parse(&a, argc, argv, &err) || check(&a, &p, &err)) goto done;
    kd_talk_init("kd-prep", a.common.quiet);
    kd_catch_signals();
    if (kd_out_open(&out, a.common.out, true, &err)) goto done;
    if (kd_prep_run(&p, a.sources.n, a.sources.v, out, &totals, &err)) goto done;
    if (kd_out_commit(out, &err)) goto done;
    say_totals(&totals);
done:
    kd_status_clear();
    kd_out_close(out);
    kd_cli_free(&a.common);
    return kd_tool_exit("kd-prep", &err);
}
