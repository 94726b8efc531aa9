// Scores of what the EMA weights draw during training, against a reference: in the log and in NAME_metrics.csv.
#ifndef KD_EVAL_H
#define KD_EVAL_H
#include "metric/score.h"
#include "train/trainer.h"

typedef struct kd_eval_opts {
    const char *reference;             // images, features or statistics (metric/open.h)
    const char *features;              // weights of their network, "random", or NULL: in $KD_HOME
    kd_score_options score;            // metrics 0: fid, and kid if the reference has features
    int64_t n;                         // images drawn each time
} kd_eval_opts;

typedef struct kd_eval kd_eval;
/// Reads the reference and opens the network, so that what is missing or does not fit is known before the first step. o is copied.
/// The network runs on be, which stays the caller's.
int kd_eval_open(kd_eval **e, const kd_eval_opts *o, kd_backend *be, kd_err *err);
void kd_eval_close(kd_eval *e);

/// Draws n images (draws.h: the same noise each time) and scores them. The trainer is untouched.
/// errors  KD_EINT, KD_ETERM if a signal came; those of drawing and of scores
int kd_eval_run(kd_eval *e, kd_trainer *t, kd_err *err);
/// The latest scores (n 0: none yet); their text, as kd-fid tells it; whether the features are random.
const kd_scores *kd_eval_scores(const kd_eval *e);
int kd_eval_text(kd_str *to, const kd_eval *e, kd_err *err);
bool kd_eval_random(const kd_eval *e);

/// Opens the table of a run: columns step, time (seconds in steps), loss (running average), then a column a metric, as k-diffusion's.
/// Lines after `step` are dropped, as in the log (-1: all of them). errors KD_EUSAGE if it has other columns
int kd_eval_table(kd_eval *e, const char *path, int64_t step, kd_err *err);
/// Is the line of that step its last one?
bool kd_eval_has(const kd_eval *e, int64_t step);
/// Adds a line with the latest scores. The file is written anew and appears whole.
int kd_eval_record(kd_eval *e, int64_t step, double elapsed, double loss, kd_err *err);
#endif
