// The log of a training run, one JSON object a line. The page is formats/log.md.
#ifndef KD_LOG_H
#define KD_LOG_H
#include "metric/score.h"
#include "train/trainer.h"

typedef struct kd_log kd_log;

/// Opens the log for the steps after `step`. A regular file keeps its lines up to there and loses the others (those of
/// steps that are to be done again, and a half written one). It stays locked until it is closed: two processes must not
/// train one run.
/// *elapsed   seconds of training that the kept lines tell of
/// errors     KD_EUSAGE if it cannot be opened, or another process has it
int kd_log_open(kd_log **log, const char *path, int64_t step, double *elapsed, kd_err *err);
int kd_log_step(kd_log *log, int64_t step, const kd_step_stats *s, double images_per_s, double elapsed, kd_err *err);
/// A line with the text `note`: what was changed when a run was resumed.
int kd_log_note(kd_log *log, int64_t step, const char *note, kd_err *err);
/// A line with `scores`, by name, and whether their features are random.
int kd_log_scores(kd_log *log, int64_t step, const kd_scores *s, bool random, kd_err *err);
/// On disk: before a checkpoint that says these steps are done.
int kd_log_sync(kd_log *log, kd_err *err);
/// NULL is fine. Lines that were not synced go to the file; a failure at this point is not told.
void kd_log_close(kd_log *log);
#endif
