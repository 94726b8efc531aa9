// A plug-in that needs a function which the program does not have.
#include "op/backend.h"

int kd_nowhere(kd_backend **be, const char *which, kd_err *err);

extern const struct kd_plugin kd_plugin;
const struct kd_plugin kd_plugin = { KD_BACKEND_ABI, kd_ops_hash, kd_nowhere };
