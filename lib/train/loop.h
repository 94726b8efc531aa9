// The training loop: steps, log, progress, checkpoints, demos, and stopping when asked to.
#ifndef KD_LOOP_H
#define KD_LOOP_H
#include "train/eval.h"
#include "train/log.h"
#include "train/run_files.h"
#include "train/trainer.h"

typedef struct kd_loop {
    const char *name;              // of the run's files (run_files.h)
    kd_log *log;                   // the caller's, just opened
    bool anew;                     // files of the name are another run's: no line of the log and the table stays
    int64_t steps;                 // the last step, counted from the run's beginning; 0: until interrupted
    int64_t save_every, keep;      // keep: newest checkpoints that stay; 0: all
    int64_t demo_every, demo_n;    // demo_every 0: none
    int64_t eval_every;            // 0: none
    kd_eval *eval;                 // the caller's; NULL: none
    int64_t log_every;             // steps between plain lines where there is no terminal
    const char *const *notes; int n_notes;      // for the log: what was changed on resuming
    kd_run_files replaced;         // another run's or branch's checkpoints, deleted once the first new one is whole
    // Talk, the tool's: lines, and a status line where `terminal`.
    void (*say)(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
    void (*status)(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
    bool terminal;
} kd_loop;

/// Trains up to `steps` and saves the last step. A checkpoint is whole before an older one goes; SIGINT and SIGTERM
/// (kd_catch_signals) end it after the step under way (on a device that is asynchronous, after those of half a second), which is
/// saved. A demo or an evaluation that was due at the step that t begins at, and is not there, is made first; when one fails, the
/// step is saved before that is told.
/// The caller holds the run's lock.
/// errors  KD_EINT, KD_ETERM after saving; those of kd_trainer_step and kd_trainer_results, with the last good checkpoint
///         named; of writing files
int kd_train_loop(kd_trainer *t, const kd_dataset *d, const kd_loop *o, kd_err *err);
#endif
