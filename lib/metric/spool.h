// Bytes put aside in an unlinked file and mapped back: nothing is left behind, however the program ends.
#ifndef KD_SPOOL_H
#define KD_SPOOL_H
#include "base/err.h"
#include <stddef.h>

typedef struct kd_spool kd_spool;
/// In $TMPDIR, or /tmp. errors KD_EFAIL with the folder
int kd_spool_new(kd_spool **s, kd_err *err);
int kd_spool_add(kd_spool *s, const void *bytes, size_t n, kd_err *err);
/// All bytes, until the spool is freed. Adds nothing after.
int kd_spool_map(kd_spool *s, const void **bytes, kd_err *err);
void kd_spool_free(kd_spool *s);

#endif
