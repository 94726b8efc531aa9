// The log of a training run, one JSON object a line. The page is formats/log.md.
#ifndef KD_LOG_H
#define KD_LOG_H
#include "metric/score.h"
#include "train/trainer.h"

typedef struct kd_log kd_log;

/// Opens and locks the log until it is closed: two processes must not write one. Nothing in it is changed.
/// errors     KD_EUSAGE if it cannot be opened, another process has it, or it is a file that is not a log
int kd_log_open(kd_log **log, const char *path, kd_err *err);
/// Before the first line: a regular file keeps its lines up to those of `step` (-1: none) and loses the others (those of steps
/// that are to be done again, and a half written one).
/// *elapsed   seconds of training that the kept lines tell of
/// errors     KD_EUSAGE if a line up to there is not a log's; nothing is changed then
int kd_log_resume(kd_log *log, int64_t step, double *elapsed, kd_err *err);
/// Are scores of that step in it, as its latest?
bool kd_log_scored(const kd_log *log, int64_t step);
int kd_log_step(kd_log *log, int64_t step, const kd_step_stats *s, double images_per_s, double elapsed, kd_err *err);
/// A line with the text `note`: what was changed when a run was resumed.
int kd_log_note(kd_log *log, int64_t step, const char *note, kd_err *err);
/// A line with `scores`, by name, and whether their features are random.
int kd_log_scores(kd_log *log, int64_t step, const kd_scores *s, bool random, kd_err *err);
/// On disk: before a checkpoint that says these steps are done.
int kd_log_sync(kd_log *log, kd_err *err);
/// NULL is fine. Lines that were not synced go to the file; a failure at this point is not told. A file that kd_log_open made is gone
/// if there is no line in it.
void kd_log_close(kd_log *log);
#endif
