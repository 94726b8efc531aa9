// What a trainer holds. Private to lib/train: trainer.c makes and steps it, checkpoint.c saves and restores it.
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

    // State: all that a checkpoint holds
    kd_opt_state s;                        // on the backend
    int64_t step, seen;                    // optimizer steps done, images seen
    int64_t lr_step, ema_step, opt_step;   // counts of the schedules and of the optimizer's moments
    double ema_loss; bool has_loss;
    kd_gns gns;                            // if o.gns

    // The means
    kd_loss_graph lg;                      // its graph is the program's: lg.g is NULL then
    kd_program *p;                         // a micro-batch; without accumulation the optimizer's step too
    kd_program *update;                    // with accumulation: the optimizer's step
    kd_val *flat;                          // output of p: the gradient [ps->trained], divided by accum
    kd_val *square;                        // output of p with gns: its squared norm, F64
    float *sum;                            // with accumulation: the gradients' sum, on the backend
    kd_opt_step opt;
    float *sigma, *loss;                   // [N] on the host: of the batch that is filled, of the last one run
    const kd_dataset *filled;              // the program's inputs hold a micro-batch of this that was not run yet; or NULL
    int64_t filled_step, filled_part;      // which one
    double flops_forward;                  // per image
};

#endif
