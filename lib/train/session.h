// What comes before the first step: which checkpoint, which config, which data; do they fit; what changed on resuming.
#ifndef KD_SESSION_H
#define KD_SESSION_H
#include "train/log.h"
#include "train/run_files.h"
#include "train/trainer.h"

/// What the user asked. Numbers not given are -1 (lr 0).
typedef struct kd_session_opts {
    const char *config, *images;           // NULL if not given; images "-": stdin
    const char *name, *log;                // of the run's files; log NULL: NAME_log.jsonl
    const char *resume, *init;             // FILE or "auto"; MODEL
    bool force, reset_ema, checkpointing, gns, no_gns;
    int64_t batch, accum; double clip, lr;
    bool has_seed; uint64_t seed;
    int64_t data_mem;                      // bytes of pixels in ordinary memory
    bool plan;                             // only planned: files of the name do not matter, data need not be there
    bool evaluate;                         // nothing is trained: files of the name do not matter, data are not read
    void (*say)(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
} kd_session_opts;

enum { KD_SESSION_NOTES = 40 };            // more than there are settings
typedef struct kd_session {
    kd_trainer *t;
    kd_dataset data;                       // n 0: planned without data
    int64_t memory;                        // the process's peak before there was a trainer, bytes, without the weights read
    kd_run_lock *lock; kd_log *log;        // held until kd_session_close; NULL with plan and evaluate
    bool anew;                             // files of the name are another run's
    kd_run_files replaced;                 // with force: its checkpoints, or those later than the one resumed from
    char *note[KD_SESSION_NOTES]; int n_notes;       // "lr 0.001, was 0.002": what a resumed run does differently
} kd_session;

/// Resolves it all, in this order: lock and log, files of the name, checkpoint, config, data, trainer. Nothing on disk is changed
/// but that the lock and the log are there. `auto` takes the newest whole checkpoint of the name; a damaged one is told and the
/// one before it taken; without any the run starts anew. A FILE that is a checkpoint of the name must be its newest one, and
/// beside one that is not there may be nothing of the name, unless `force`. Settings not given come from the checkpoint, else:
/// batch 64, accum 1, seed 0, clip 1, no gns, the config's lr.
/// errors  KD_EUSAGE for what does not fit, with the numbers; those of reading. kd_session_close frees in any case
int kd_session_open(kd_session *s, const kd_session_opts *o, kd_backend *be, kd_err *err);
void kd_session_close(kd_session *s);
#endif
