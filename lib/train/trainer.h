// Training: the state, one step, saving and resuming. The loop with its files is loop.h; tools/kd-train.c parses options.
#ifndef KD_TRAINER_H
#define KD_TRAINER_H
#include "data/dataset.h"
#include "diffusion/denoiser.h"
#include "train/optimizer.h"

enum { KD_MAX_STEP = (1 << 24) - 1 };      // the random streams count this far, and images up to
#define KD_MAX_SEEN ((int64_t)1 << 40)

typedef struct kd_train_opts {
    int64_t batch, accum;      // images of a micro-batch, micro-batches of a step
    uint64_t seed;
    double clip;               // gradient norm limit; 0: none
    bool checkpointing;        // recompute blocks in the backward pass: less memory, the same numbers
    double lr;                 // base rate; 0: the config's
    bool gns;                  // estimate the gradient noise scale (accum > 1); noise levels are then not stratified
    kd_dtype compute;          // of the network's activations; 0 is F32
    bool resumed;              // kd_trainer_load follows: no weights are drawn
} kd_train_opts;

/// step counts from 1. loss is the mean over the step's images, ema_loss its running average, grad_norm the norm before clipping;
/// gns the gradient noise scale, NaN if it is not estimated.
typedef struct kd_step_stats { int64_t step; double loss, ema_loss, lr, grad_norm, gns; } kd_step_stats;

typedef struct kd_trainer kd_trainer;

/// Can this config train on this data? Sizes, channels, a density, labels of a class model in range (all are looked at).
/// name    of the data, for messages
/// errors  KD_EUSAGE "digits: images are 28x28x1, config.json wants 32x32x3: kd-prep --size 32 --channels 3",
///         "digits: image 17: label 12 is not in 0..9", ...
int kd_train_fits(const kd_config *c, const kd_dataset *d, const char *name, kd_err *err);

/// Fresh from a seed (or from `init`'s weights; KD_EUSAGE if its network differs). Takes config, also on failure. The
/// backend stays the caller's. Weights, their average and the optimizer's arrays are then on the backend; the program,
/// where the gradient lies too, is planned, but its memory is taken at the first step.
int kd_trainer_new(kd_trainer **t, kd_config *config, const kd_train_opts *o, const kd_model *init, kd_backend *be, kd_err *err);
void kd_trainer_free(kd_trainer *t);

// On a device that works while the caller continues (kd_backend.async), up to KD_STEPS_QUEUED steps are queued, and their losses
// and norms are read together. On the CPU each step is done and read at once. In both cases call
//     kd_trainer_step(t, d, err), then kd_trainer_results(t, wait, stats, &n, err)
// The functions below that use the state (save, result, map_ema, reset_ema), and kd_draws_open, read all queued steps first. If one
// of these was not finite, they fail as kd_trainer_results does. The next kd_trainer_results gives the stats of the steps they read.
enum { KD_STEPS_QUEUED = 16 };

/// Queues one optimizer step of `accum` micro-batches. errors KD_EFAIL past KD_MAX_SEEN images. The steps queued before are
/// not affected: their results can still be read.
int kd_trainer_step(kd_trainer *t, const kd_dataset *d, kd_err *err);

/// Gives the stats of the steps read since the last call, in order. Before that it reads all queued steps if `wait`, or if no more
/// can be queued.
/// stats   [KD_STEPS_QUEUED]
/// n       how many there are, also on failure
/// errors  KD_EFAIL "step 18200: loss is NaN". Weights, average, moments and counts are then those of the step before it: the steps
///         queued after it changed nothing either, and are dropped. Errors of the device
int kd_trainer_results(kd_trainer *t, bool wait, kd_step_stats *stats, int *n, kd_err *err);

int64_t kd_trainer_steps(const kd_trainer *t);               // optimizer steps that were read
int64_t kd_trainer_seen(const kd_trainer *t);                // images seen by them
double kd_trainer_loss(const kd_trainer *t);                 // running average of their loss
const kd_config *kd_trainer_config(const kd_trainer *t);
const kd_train_opts *kd_trainer_opts(const kd_trainer *t);
int64_t kd_trainer_parameters(const kd_trainer *t);          // trained ones

/// Measures the time of each op of the following steps, and prints it (kd_program_profile).
void kd_trainer_profile(kd_trainer *t, bool on);
int kd_trainer_profile_print(const kd_trainer *t, FILE *to);

/// What a run takes, known before the first step.
typedef struct kd_train_plan {
    double flops_forward, flops;             // of an image; with gradient
    int64_t state;                           // weights, average, optimizer, a gradient summed over micro-batches: taken by
                                             // kd_trainer_new
    int64_t program;                         // activations, gradients and scratch: taken at the first step
    int64_t batch;                           // the host's copy of a program's inputs; 0 where the device shares memory with the
                                             // host. In either case noise levels, and what steps leave to be read
    int64_t save;                            // host copies while the state or the model is saved: none on the CPU
} kd_train_plan;
kd_train_plan kd_trainer_plan(const kd_trainer *t);

/// The trained weights become those of the running average, whose decay (and the loss's) starts again.
int kd_trainer_reset_ema(kd_trainer *t, kd_err *err);

/// The EMA model, for reading: on the CPU the trainer's own weights, elsewhere a copy. No step may be taken before
/// kd_trainer_unmap_ema, which frees it (NULL is fine).
int kd_trainer_map_ema(kd_trainer *t, kd_model **m, kd_err *err);
int kd_trainer_unmap_ema(kd_trainer *t, kd_model *m, kd_err *err);

// checkpoint.c: formats/checkpoint.md ----------------------------------------------------------------------------------

/// Everything resuming needs, and nothing that two equal runs could differ in: equal states are equal files.
/// d       the data trained on, for its hash
int kd_trainer_save(kd_trainer *t, const char *path, const kd_dataset *d, kd_err *err);

/// Writes the EMA model to path (formats/model.md) with kd_step, kd_seen, kd_seed, the class names and history of the data it
/// was trained on, and `history` (NULL: none of it).
int kd_trainer_result(kd_trainer *t, const kd_dataset *d, const char *history, const char *path, kd_err *err);

/// Reads a checkpoint file whole. errors KD_EFORMAT if it is damaged, KD_EUSAGE if it is another kind of file.
int kd_checkpoint_read(kd_frame **f, const char *path, kd_err *err);
/// What it was trained with: config (the caller's to free) and options (checkpointing and resumed are false: they are not stored).
int kd_checkpoint_setup(const kd_frame *f, const char *path, kd_config **c, kd_train_opts *o, kd_err *err);
/// Puts the state into a fresh trainer with the same model keys. Another optimizer type starts with empty moments. Data of f's
/// tensors are freed as they are read.
/// d       the data that training continues on, or NULL if it does not continue
/// errors  KD_EUSAGE if the model or the data differ; KD_EFORMAT if tensors are missing or misshapen
int kd_trainer_load(kd_trainer *t, const kd_frame *f, const char *path, const kd_dataset *d, kd_err *err);
#endif
