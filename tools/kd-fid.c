// kd-fid: how far a set of images is from a reference: FID, KID and others, with how sure they are.
#include "base/memory.h"
#include "base/opt.h"
#include "base/talk.h"
#include "device/device.h"
#include "metric/find.h"
#include "metric/open.h"
#include "metric/score.h"
#include <stdlib.h>
#include <string.h>

struct args {
    const char *reference, *samples, *metrics, *write_ref, *resize;
    bool json, keep;
    kd_score_options score;
    kd_set_source source;
    kd_common common;
};

enum { BALLS = KD_SCORE_PRECISION | KD_SCORE_RECALL | KD_SCORE_DENSITY | KD_SCORE_COVERAGE };

// An option of scores that are not asked for would be without effect; with --write-ref none are.
static int check_used(const struct args *a, unsigned metrics, kd_err *err)
{
    const kd_score_options *s = &a->score;
    const unsigned drawn = KD_SCORE_KID | KD_SCORE_FID_INFINITE | (s->bootstrap ? KD_SCORE_FID : 0);
    const struct { const void *to; const char *name; unsigned of; const char *takes; } options[] = {
        { &a->metrics, "--metrics", ~0U, "scores" }, { &a->json, "--json", ~0U, "scores" }, { &a->common.out, "--out", ~0U, "scores" },
        { &s->bootstrap, "--bootstrap", KD_SCORE_FID, "fid" }, { &s->kid_subsets, "--kid-subsets", KD_SCORE_KID, "kid" },
        { &s->kid_size, "--kid-size", KD_SCORE_KID, "kid" }, { &s->kid_part, "--kid-part", KD_SCORE_KID_PARTS, "kid-parts" },
        { &s->neighbours, "--neighbours", BALLS, "precision, recall, density or coverage" },
        { &s->splits, "--splits", KD_SCORE_IS, "is" }, { &s->points, "--points", KD_SCORE_FID_INFINITE, "fid-infinite" },
        { &s->ridge, "--ridge", KD_SCORE_FID | KD_SCORE_SFID, "fid or sfid" },
        { &s->seed, "--seed", drawn, "kid, fid-infinite or --bootstrap" } };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (metrics & options[i].of || !kd_given(&a->common, options[i].to)) continue;
        return a->write_ref ? kd_fail(err, KD_EUSAGE, "%s has no use with --write-ref FILE, which computes no scores", options[i].name)
                            : kd_fail(err, KD_EUSAGE, "%s has no use without %s", options[i].name, options[i].takes);
    }
    return 0;
}

// The same for what only sets of images use.
static int check_images(const struct args *a, kd_err *err)
{
    if (a->source.extractor || (!a->source.options.features && !a->resize)) return 0;
    return kd_fail(err, KD_EUSAGE, "%s has no use without images", a->source.options.features ? "--features" : "--resize");
}

static int parse(struct args *a, int argc, char **argv, kd_err *err)
{
    kd_score_options *s = &a->score;
    kd_extract_options *e = &a->source.options;
    const char *resize = "";
    const kd_opt opts[] = {
        KD_OPT_ARG("REFERENCE", &a->reference, 0,
                   "Set to compare with: images, statistics, features, npz, pkl or FILE:NAME; - for standard input"),
        KD_OPT_ARG("SAMPLES", &a->samples, 0, "Set to compare, of the same kinds (default -, standard input)"),
        KD_OPT_STR('m', "metrics", &a->metrics, "LIST",
                   "Scores to compute: " KD_SCORE_NAMES " (default: fid, and kid if both sets have features)"),
        KD_OPT_STR('f', "features", &e->features, KD_FEATURES_TAKES,
                   "Network that computes features of images, by name or as a file of weights (default inception)"),
        KD_OPT_CHOICE(0, "resize", &resize, "clean|torch|pil",
                      "Way to bring images to the network's size (default clean for inception, pil for CLIP and DINOv2)"),
        KD_OPT_INT('b', "batch", &e->batch, 1, 4096, "Images per call of the network (default 8); affects memory only"),
        KD_OPT_FLAG(0, "json", &a->json, "Print one JSON object on one line instead of text"),
        KD_OPT_STR(0, "write-ref", &a->write_ref, "FILE", "Write the statistics of a set to FILE instead of comparing"),
        KD_OPT_FLAG(0, "keep-features", &a->keep, "Write feature vectors instead of statistics (with --write-ref)"),
        KD_OPT_FLAG(0, "force", &s->force, "Compare sets that were made differently"),
        KD_OPT_INT(0, "bootstrap", &s->bootstrap, 2, 100000,
                   "Number of resamplings to estimate the deviation of fid from (default: no estimate)"),
        KD_OPT_INT(0, "kid-subsets", &s->kid_subsets, 1, 100000, "Number of subsets that kid is averaged over (default 100)"),
        KD_OPT_INT(0, "kid-size", &s->kid_size, 2, 1 << 24, "Images per subset of kid (default 1000, or all if there are fewer)"),
        KD_OPT_INT(0, "kid-part", &s->kid_part, 2, 1 << 24, "Most images per part of kid-parts (default 5000)"),
        KD_OPT_INT('k', "neighbours", &s->neighbours, 1, 256, "The k of precision, recall, density and coverage (default 5)"),
        KD_OPT_INT(0, "splits", &s->splits, 1, 1000, "Number of splits of the Inception Score (default 10)"),
        KD_OPT_INT(0, "points", &s->points, 2, 1000, "Number of set sizes that fid-infinite is fitted to (default 15)"),
        KD_OPT_NUM(0, "ridge", &s->ridge, 0, 1, "Number to add to the variances of both sets for fid and sfid (default 0)"),
        KD_OPT_U64(0, "seed", &s->seed, "Seed for choosing subsets and resamplings (default 0)"),
        KD_OPT_END };
    KD_TRY(kd_cli_parse("kd-fid", "Compare two sets of images: FID, KID and other scores", opts,
                        KD_WITH_OUT | KD_WITH_THREADS | KD_WITH_DEVICE, argc, argv, &a->common, err));
    if (a->metrics) KD_TRY(kd_score_parse(&s->metrics, a->metrics, err));
    e->resize = kd_resize_of(resize);
    a->resize = *resize ? resize : NULL;
    a->source.open = kd_device_open, a->source.device = a->common.device;
    a->source.mixed = s->force;
    if (a->keep && !a->write_ref) return kd_fail(err, KD_EUSAGE, "--keep-features has no use without --write-ref");
    if (a->write_ref && a->samples) return kd_fail(err, KD_EUSAGE, "--write-ref takes one set: %s is too many", a->samples);
    KD_TRY(check_used(a, a->write_ref ? 0 : s->metrics ? s->metrics : KD_SCORE_FID | KD_SCORE_KID, err));
    if (!a->write_ref && !a->reference) return kd_fail(err, KD_EUSAGE, "expected a reference");
    if (!a->reference) a->reference = "-";
    if (!a->samples) a->samples = "-";
    if (!a->write_ref && !strcmp(a->reference, "-") && !strcmp(a->samples, "-"))
        return kd_fail(err, KD_EUSAGE, "REFERENCE and SAMPLES cannot both be stdin");
    return 0;
}

static void progress(int64_t images) { kd_status("%lld images", (long long)images); }

static int write_reference(struct args *a, kd_err *err)
{
    kd_set *set = NULL;
    kd_out *out = NULL;
    int code = kd_out_open(&out, a->write_ref, true, err);
    kd_extract_options *e = &a->source.options;
    e->spatial = true, e->keep = a->keep;
    if (!code) code = kd_set_open(&set, a->reference, &a->source, err);
    if (!code) code = check_images(a, err);
    if (!code && a->keep && !set->feature.x) code = kd_fail(err, KD_EUSAGE, "%s: has no feature vectors to keep", set->name);
    if (!code) code = kd_set_write(out, set, a->keep, a->common.history, err);
    if (!code) code = kd_out_commit(out, err);
    kd_out_close(out);
    kd_set_free(set);
    return code;
}

static int tell(kd_str *to, const struct args *a, const kd_scores *s, const kd_set *reference, const kd_set *samples, kd_err *err)
{
    if (!a->json) return kd_scores_text(to, s, reference, samples, err);
    json_t *doc = NULL;
    KD_TRY(kd_scores_json(&doc, s, reference, samples, err));
    char *text = json_dumps(doc, 0);
    const int code = text ? kd_str_printf(to, err, "%s\n", text) : kd_fail_memory(err, "scores");
    free(text);
    json_decref(doc);
    return code;
}

static int compare(struct args *a, kd_err *err)
{
    kd_set *reference = NULL, *samples = NULL;
    kd_scores s;
    kd_str text = {0};
    kd_out *out = NULL;
    int code = kd_out_open(&out, a->common.out, false, err);
    kd_score_wants(&a->source.options, &a->score);
    if (!code) code = kd_set_open(&reference, a->reference, &a->source, err);
    if (!a->score.force) a->source.against = reference;
    if (!code) code = kd_set_open(&samples, a->samples, &a->source, err);
    kd_status_clear();
    if (!code) code = check_images(a, err);
    if (!code) code = check_used(a, kd_scores_chosen(reference, samples, &a->score), err);
    if (!code) code = kd_scores_of(&s, reference, samples, &a->score, err);
    if (!code) code = tell(&text, a, &s, reference, samples, err);
    if (!code) code = kd_out_write(out, text.p, text.n, err);
    if (!code) code = kd_out_commit(out, err);
    kd_out_close(out);
    free(text.p);
    kd_set_free(reference), kd_set_free(samples);
    return code;
}

int main(int argc, char **argv)
{
    struct args a = { .score = kd_score_defaults(), .source = { .options = { .batch = 8 }, .progress = progress } };
    kd_err err = {0};
    if (!parse(&a, argc, argv, &err)) {
        kd_talk_init("kd-fid", a.common.quiet);
        kd_catch_signals();
        if (a.write_ref) write_reference(&a, &err);
        else compare(&a, &err);
    }
    kd_set_source_close(&a.source);
    kd_cli_free(&a.common);
    return kd_tool_exit("kd-fid", &err);
}
