// Training: the state, one step, saving and resuming. The loop with its options is loop.h; tools/kd-train.c parses.
#ifndef KD_TRAINER_H
#define KD_TRAINER_H
#include "data/dataset.h"
#include "diffusion/denoiser.h"
#include "train/optimizer.h"

typedef struct kd_train_opts {
    int64_t batch, accum;
    uint64_t seed;
    double clip;               // gradient norm limit; 0: none
    bool checkpointing;
    double lr;                 // base rate; 0: the config's
} kd_train_opts;

typedef struct kd_step_stats { double loss, ema_loss, lr, grad_norm; } kd_step_stats;

typedef struct kd_trainer kd_trainer;
/// Fresh from a seed (or from `init`'s weights). Takes config. The backend and data stay the caller's.
int kd_trainer_new(kd_trainer **t, kd_config *config, const kd_train_opts *o, const kd_model *init, kd_backend *be, kd_err *err);
/// One optimizer step of `accum` micro-batches. errors KD_EFAIL "step 18200: loss is NaN"; weights are then not to be saved.
int kd_trainer_step(kd_trainer *t, const kd_dataset *d, kd_step_stats *stats, kd_err *err);
int64_t kd_trainer_steps(const kd_trainer *t);               // optimizer steps done
int64_t kd_trainer_seen(const kd_trainer *t);                // images seen
int64_t kd_trainer_bytes(const kd_trainer *t);               // backend and host memory it will take, before the first step
/// checkpoint/1: everything resuming needs, and nothing that two equal runs could differ in.
int kd_trainer_save(kd_trainer *t, const char *path, kd_err *err);
int kd_trainer_load(kd_trainer *t, const char *path, const kd_dataset *d, kd_err *err);
/// The EMA model, in memory (a copy).
int kd_trainer_ema(kd_trainer *t, kd_model **m, kd_err *err);
void kd_trainer_free(kd_trainer *t);
#endif
