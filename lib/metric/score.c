#include "metric/score.h"
#include "base/opt.h"
#include "metric/fid.h"
#include "metric/kid.h"
#include "metric/neighbours.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = { "fid", "kid", "kid-parts", "fid-infinite", "sfid", "precision", "recall", "density", "coverage",
                                     "is" };
enum { NAMES = sizeof names / sizeof *names };

static const char *name_of(unsigned bit)
{
    int i = 0;
    while (!(bit >> i & 1)) i++;
    return names[i];
}

int kd_score_parse(unsigned *metrics, const char *list, kd_err *err)
{
    *metrics = 0;
    for (const char *at = list;; at++) {
        const size_t n = strcspn(at, ",");
        char word[32];
        int i = 0;
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        while (i < NAMES && strcmp(word, names[i])) i++;
        if (i == NAMES) {
            const char *near = kd_nearest(word, names, NAMES);
            if (near) return kd_fail(err, KD_EUSAGE, "--metrics: unknown '%s' (did you mean %s?)", word, near);
            return kd_fail(err, KD_EUSAGE, "--metrics: unknown '%s': expected some of " KD_SCORE_NAMES, word);
        }
        *metrics |= 1u << i;
        at += n;
        if (!*at) return 0;
    }
}

// The order of the names is that of the bits, and kd_scores_of keeps it.
int kd_score_names(kd_str *to, unsigned metrics, kd_err *err)
{
    for (int i = 0; i < NAMES; i++)
        if (metrics >> i & 1) KD_TRY(kd_str_printf(to, err, ",%s", names[i]));
    return 0;
}

kd_score_options kd_score_defaults(void)
{
    return (kd_score_options){ .kid_subsets = 100, .kid_size = 1000, .kid_part = 5000, .neighbours = 5, .splits = 10, .points = 15 };
}

void kd_score_wants(kd_extract_options *e, const kd_score_options *o)
{
    const unsigned m = o->metrics;
    e->keep = !m || o->bootstrap || (m & ~(unsigned)(KD_SCORE_FID | KD_SCORE_SFID | KD_SCORE_IS));
    e->spatial = m & KD_SCORE_SFID;
    e->logits = m & KD_SCORE_IS;
}

static void add(kd_scores *s, unsigned metric, double value, double deviation, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static void add(kd_scores *s, unsigned metric, double value, double deviation, const char *fmt, ...)
{
    kd_score *x = &s->score[s->n++];
    *x = (kd_score){ .name = name_of(metric), .value = value, .deviation = deviation };
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(x->of, sizeof x->of, fmt, ap);
    va_end(ap);
}

static void note(kd_scores *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(kd_scores *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->note[s->n_notes], sizeof s->note[0], fmt, ap);
    kd_plain(s->note[s->n_notes++]);
    va_end(ap);
}

static int frechet(kd_scores *s, const kd_set *a, const kd_set *b, const kd_score_options *o, kd_err *err)
{
    kd_fid f;
    double mean, deviation = NAN;
    KD_TRY(kd_fid_of(&f, &a->pool, &b->pool, o->ridge, err));
    if (o->bootstrap)
        KD_TRY(kd_fid_bootstrap(&mean, &deviation, &a->pool, a->feature.x ? &a->feature : NULL, &b->pool,
                                b->feature.x ? &b->feature : NULL, o->bootstrap, o->seed, err));
    if (!o->bootstrap) add(s, KD_SCORE_FID, f.value, NAN, "%s", "");
    else add(s, KD_SCORE_FID, f.value, deviation, "%lld resamplings of %s", (long long)o->bootstrap,
             a->feature.x && b->feature.x ? "both sets" : b->feature.x ? "the samples" : "the reference");
    return 0;
}

static int kernel(kd_scores *s, const kd_set *a, const kd_set *b, const kd_score_options *o, kd_err *err)
{
    double kid, deviation;
    int64_t size = o->kid_size;
    KD_TRY(kd_kid_subsets(&kid, &deviation, &a->feature, &b->feature, o->kid_subsets, &size, o->seed, err));
    const bool whole = size == a->n && size == b->n;
    if (whole) add(s, KD_SCORE_KID, kid, deviation, "all %lld images", (long long)size);
    else add(s, KD_SCORE_KID, kid, deviation, "%lld subsets of %lld", (long long)o->kid_subsets, (long long)size);
    return 0;
}

static int in_order(kd_scores *s, const kd_set *a, const kd_set *b, const kd_score_options *o, unsigned m, kd_err *err)
{
    double x, y;
    if (m & KD_SCORE_KID) KD_TRY(kernel(s, a, b, o, err));
    if (m & KD_SCORE_KID_PARTS) {
        KD_TRY(kd_kid_partitions(&x, &a->feature, &b->feature, o->kid_part, err));
        add(s, KD_SCORE_KID_PARTS, x, NAN, "parts of at most %lld", (long long)o->kid_part);
    }
    if (m & KD_SCORE_FID_INFINITE) {
        KD_TRY(kd_fid_infinite(&x, &y, &a->pool, &b->feature, o->points, o->seed, err));
        add(s, KD_SCORE_FID_INFINITE, x, NAN, "fitted to %lld sizes", (long long)o->points);
    }
    if (m & KD_SCORE_SFID) {
        kd_fid f;
        KD_TRY(kd_fid_of(&f, &a->spatial, &b->spatial, o->ridge, err));
        add(s, KD_SCORE_SFID, f.value, NAN, "%s", "");
    }
    if (m & (KD_SCORE_PRECISION | KD_SCORE_RECALL | KD_SCORE_DENSITY | KD_SCORE_COVERAGE)) {
        kd_coverage c;
        KD_TRY(kd_coverage_of(&c, &a->feature, &b->feature, o->neighbours, err));
        const struct { unsigned bit; double value; } part[] = { { KD_SCORE_PRECISION, c.precision }, { KD_SCORE_RECALL, c.recall },
            { KD_SCORE_DENSITY, c.density }, { KD_SCORE_COVERAGE, c.coverage } };
        for (int i = 0; i < 4; i++)
            if (m & part[i].bit) add(s, part[i].bit, part[i].value, NAN, "%lld neighbours", (long long)o->neighbours);
    }
    return 0;
}

static int needs(const kd_set *set, const void *what, unsigned metrics, const char *text, kd_err *err)
{
    if (!metrics || what) return 0;
    return kd_fail(err, KD_EUSAGE, "%s: %s needs %s", set->name, name_of(metrics), text);
}

static const char KEPT[] = "feature vectors, this has statistics only (--keep-features writes them)";
static const char SPATIAL[] = "spatial features, which there are none of";
enum { BOTH = KD_SCORE_KID | KD_SCORE_KID_PARTS | KD_SCORE_PRECISION | KD_SCORE_RECALL | KD_SCORE_DENSITY | KD_SCORE_COVERAGE };

int kd_scores_possible(const kd_set *a, const kd_score_options *o, kd_err *err)
{
    KD_TRY(needs(a, a->feature.x, o->metrics & BOTH, KEPT, err));
    return needs(a, a->spatial.mu, o->metrics & KD_SCORE_SFID, SPATIAL, err);
}

static int check_samples(const kd_set *b, unsigned m, kd_err *err)
{
    KD_TRY(needs(b, b->feature.x, m & (BOTH | KD_SCORE_FID_INFINITE), KEPT, err));
    KD_TRY(needs(b, b->spatial.mu, m & KD_SCORE_SFID, SPATIAL, err));
    return needs(b, b->logit.x, m & KD_SCORE_IS, "images, of which a network says the class", err);
}

static void warn(kd_scores *s, const kd_set *a, const kd_set *b, unsigned m)
{
    const kd_set *both[2] = { a, b };
    for (int i = 0; i < 2; i++) {
        const int64_t n = both[i]->n, d = both[i]->pool.d;
        if (m & KD_SCORE_FID && n && n <= d)
            note(s, "%.80s: %lld images are too few for a covariance of %lld dimensions; fid is biased upwards", both[i]->name,
                 (long long)n, (long long)d);
    }
    for (int i = 0; i < 2; i++)
        if (!both[i]->made.extractor && (both[1 - i]->made.extractor))
            note(s, "%.80s: does not say how its features were made", both[i]->name);
}

unsigned kd_scores_chosen(const kd_set *a, const kd_set *b, const kd_score_options *o)
{
    return o->metrics ? o->metrics : KD_SCORE_FID | (a->feature.x && b->feature.x ? KD_SCORE_KID : 0);
}

int kd_scores_of(kd_scores *s, const kd_set *a, const kd_set *b, const kd_score_options *o, kd_err *err)
{
    const unsigned m = kd_scores_chosen(a, b, o);
    kd_err differ = {0};
    *s = (kd_scores){0};
    if (kd_made_alike(&a->made, a->name, &b->made, b->name, &differ)) {
        if (!o->force) return kd_fail(err, differ.code, "%s (--force compares them)", differ.msg);
        note(s, "%.519s", differ.msg);
    }
    if (a->pool.d != b->pool.d)
        return kd_fail(err, KD_EUSAGE, "%s has %lld features an image, %s has %lld", a->name, (long long)a->pool.d, b->name,
                       (long long)b->pool.d);
    KD_TRY(kd_scores_possible(a, o, err));
    KD_TRY(check_samples(b, m, err));
    if (o->bootstrap && !a->feature.x && !b->feature.x)
        return kd_fail(err, KD_EUSAGE, "--bootstrap: neither set has feature vectors");
    warn(s, a, b, m);
    if (m & KD_SCORE_FID) KD_TRY(frechet(s, a, b, o, err));
    KD_TRY(in_order(s, a, b, o, m, err));
    if (m & KD_SCORE_IS) {
        double x, deviation;
        KD_TRY(kd_inception_score(&x, &deviation, &b->logit, o->splits, err));
        add(s, KD_SCORE_IS, x, deviation, "%lld splits", (long long)o->splits);
    }
    return 0;
}
