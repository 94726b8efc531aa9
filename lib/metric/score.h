// Scores of a set of samples against a reference, by name, and how they are told.
#ifndef KD_SCORE_H
#define KD_SCORE_H
#include "base/memory.h"
#include "metric/extract.h"
#include <jansson.h>

/// Bits of a list of metrics.
enum { KD_SCORE_FID = 1, KD_SCORE_KID = 2, KD_SCORE_KID_PARTS = 4, KD_SCORE_FID_INFINITE = 8, KD_SCORE_SFID = 16, KD_SCORE_PRECISION = 32,
       KD_SCORE_RECALL = 64, KD_SCORE_DENSITY = 128, KD_SCORE_COVERAGE = 256, KD_SCORE_IS = 512 };
#define KD_SCORE_NAMES "fid, kid, kid-parts, fid-infinite, sfid, precision, recall, density, coverage, is"
/// "fid,kid": sets *metrics. errors KD_EUSAGE "--metrics: unknown 'kad' (did you mean kid?)"
int kd_score_parse(unsigned *metrics, const char *list, kd_err *err);
/// Appends ",fid,kid": the names in the order in which kd_scores_of gives them.
int kd_score_names(kd_str *to, unsigned metrics, kd_err *err);

typedef struct kd_score_options {
    unsigned metrics;              // 0: fid, and kid if both sides have features
    int64_t kid_subsets, kid_size, kid_part, neighbours, splits, bootstrap, points;
    uint64_t seed;
    double ridge;                  // of fid and sfid; 1e-8 gives k-diffusion's numbers
    bool force;                    // compare what was made differently
} kd_score_options;

kd_score_options kd_score_defaults(void);
/// Sets what must be computed of images for these metrics: spatial, logits, keep.
void kd_score_wants(kd_extract_options *e, const kd_score_options *o);

typedef struct kd_score {
    const char *name;
    double value, deviation;       // deviation NaN: not estimated
    char of[64];                   // what the deviation, or the value, is over: "100 subsets of 1000"
} kd_score;
enum { KD_SCORES_MAX = 10, KD_NOTES_MAX = 6 };
typedef struct kd_scores {
    kd_score score[KD_SCORES_MAX]; int n;
    char note[KD_NOTES_MAX][520]; int n_notes;       // what a reader of the numbers must know
} kd_scores;

/// The metrics asked for, or the standard ones of these sets.
unsigned kd_scores_chosen(const kd_set *reference, const kd_set *samples, const kd_score_options *o);
/// errors  KD_EUSAGE if the sets were made differently (without force), or lack what a metric asked for needs, with what would help;
///         those of fid.h, kid.h, neighbours.h
int kd_scores_of(kd_scores *s, const kd_set *reference, const kd_set *samples, const kd_score_options *o, kd_err *err);

/// Has the reference what the metrics asked for need? So that this is known before the samples are there.
int kd_scores_possible(const kd_set *reference, const kd_score_options *o, kd_err *err);

bool kd_set_random(const kd_set *s);                               // made by random features: scores compare with nothing else

/// A line each: scores, both sets, notes. Sets of random features have "random features" in every line.
int kd_scores_text(kd_str *to, const kd_scores *s, const kd_set *reference, const kd_set *samples, kd_err *err);
/// The same as one JSON object; the caller's to json_decref.
int kd_scores_json(json_t **doc, const kd_scores *s, const kd_set *reference, const kd_set *samples, kd_err *err);

#endif
