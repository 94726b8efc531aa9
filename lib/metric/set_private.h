// What a set's arrays lie in (set.c, collect.c).
#ifndef KD_SET_PRIVATE_H
#define KD_SET_PRIVATE_H
#include "metric/set.h"
#include "metric/spool.h"

struct kd_set_memory {
    kd_frame *frame;
    kd_spool *feature, *logit, *index;
    double *moments[4];        // mu, cov, mu_s, cov_s
    float *narrow;             // rows brought to single precision
    int64_t *at;               // order of the rows by index
    char *text[KD_MADE_FIELDS];            // of `made`
};

/// An empty set with a name and its memory.
int kd_set_new(kd_set **s, const char *name, kd_err *err);
/// Room for moments of d dimensions as arrays `first` and `first` + 1 of the memory.
int kd_set_room(kd_set *s, int first, int64_t d, kd_err *err);
/// Orders the rows by index, equal ones as they lie; nothing to do without an index or if they lie so.
int kd_set_order(kd_set *s, const int64_t *index, kd_err *err);
int kd_set_copy_made(kd_set *s, const kd_made *made, kd_err *err);

#endif
