// The files of a run called NAME ("runs/faces"): NAME_00018000.safetensors, NAME_demo_00018000.png, NAME_log.jsonl,
// NAME_metrics.csv.
#ifndef KD_RUN_FILES_H
#define KD_RUN_FILES_H
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

/// Paths, to free().
char *kd_run_checkpoint(const char *name, int64_t step);
char *kd_run_demo(const char *name, int64_t step);
char *kd_run_log(const char *name);
char *kd_run_metrics(const char *name);

/// One process at a time trains a run, whatever its log is: .NAME.lock, which is gone when it is let go.
/// errors  KD_EUSAGE "NAME: another process is training this run", or if the folder does not exist
typedef struct kd_run_lock kd_run_lock;
int kd_run_lock_take(kd_run_lock **l, const char *name, kd_err *err);
void kd_run_lock_free(kd_run_lock *l);               // NULL is fine

/// The checkpoints of a run by the names of its folder, newest step first.
typedef struct kd_run_files { char **path; int64_t *step; int n; } kd_run_files;
int kd_run_list(kd_run_files *l, const char *name, kd_err *err);
void kd_run_list_free(kd_run_files *l);
/// Which of them the file at path is, whatever it is called there; -1: none.
int kd_run_list_find(const kd_run_files *l, const char *path);
/// Keeps the first n.
void kd_run_list_cut(kd_run_files *l, int n);

/// Is there anything of this name that a new run would write over? *found: the path (to free) or NULL. An empty log is nothing.
/// errors  KD_EUSAGE if the folder does not exist
int kd_run_exists(char **found, const char *name, kd_err *err);

/// Deletes all but the `keep` newest checkpoints with steps up to `step`, which must be on disk; keep 0 deletes none.
int kd_run_prune(const char *name, int64_t step, int64_t keep, kd_err *err);

/// Deletes what a killed run has left half written: .NAME_00018000.safetensors.XXXXXX.
int kd_run_sweep(const char *name, kd_err *err);

/// Deletes another run's or branch's checkpoints listed in l but not the one at `step` (the first of the run that replaces it).
int kd_run_replace(const kd_run_files *l, int64_t step, kd_err *err);
#endif
