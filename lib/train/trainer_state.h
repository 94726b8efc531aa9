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
    kd_val *dloss;                         // input [N]: gradient of the mean over the step with respect to each loss
    kd_program *p;
    float *micro;                          // gradient of the last micro-batch, in the program's memory. s.grad: the same, or,
                                           // with accum > 1, their sum, allocated
    kd_batch batch;
    float *ones, *loss;                    // [N] on the host: for dloss, from lg.loss
    double flops_forward;                  // of an image
};

#endif
