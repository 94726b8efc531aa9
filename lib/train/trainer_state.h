// What a trainer holds. Private to lib/train: trainer.c makes it, step.c steps it, checkpoint.c saves and restores it.
#ifndef KD_TRAINER_STATE_H
#define KD_TRAINER_STATE_H
#include "train/batch.h"
#include "train/gns.h"
#include "train/trainer.h"

struct kd_trainer {
    kd_config *c;
    kd_train_opts o;
    kd_backend *be;
    kd_params *ps;

    // State: all that a checkpoint holds. Numbers are those of the last step that was read, arrays those of the last one queued
    kd_opt_state s;                        // on the backend
    int64_t step, seen;                    // optimizer steps done, images seen
    int64_t lr_step, ema_step, opt_step;   // counts of the schedules and of the optimizer's moments
    double ema_loss; bool has_loss;
    kd_gns gns;                            // if o.gns

    // What steps leave to be read
    int queued, room;                      // steps queued and not read; most of them
    char *results;                         // theirs, on the backend: kd_result_bytes for each of `room` steps
    char *read;                            // the same on the host
    kd_step_stats done[KD_STEPS_QUEUED]; int n_done;     // of steps that were read, for kd_trainer_results
    float *losses;                         // with accumulation: of the step under way, [accum,N] on the backend

    // The programs, and what they run on
    kd_loss_graph lg;                      // its graph is the program's: lg.g is NULL then
    kd_program *p;                         // a micro-batch; without accumulation the optimizer's step too
    kd_program *update;                    // with accumulation: the optimizer's step
    kd_val *flat;                          // output of p: the gradient [ps->trained], divided by accum
    kd_val *square;                        // output of p with gns: its squared norm, F64
    float *sum;                            // with accumulation: the gradients' sum, on the backend
    kd_opt_step opt;
    float *sigma; int64_t *class_cond;     // [N] on the host: of the batch that is filled
    const kd_dataset *filled;              // the program's inputs hold a micro-batch of this that was not run yet; or NULL
    int64_t filled_step, filled_part;      // which one
    double flops_forward;                  // per image
};

/// Bytes that a step leaves to be read: its clip F64 [2], with gns its squares F64 [accum], its losses F32 [accum,N].
size_t kd_result_bytes(const kd_trainer *t);

/// Reads what is queued. kd_trainer_results gives it.
/// errors  those of kd_trainer_results
int kd_trainer_finish(kd_trainer *t, kd_err *err);

#endif
