// A plug-in for a later version of the interface: only its version may be read.
#include "op/backend.h"

extern const struct kd_plugin kd_plugin;
const struct kd_plugin kd_plugin = { KD_BACKEND_ABI + 1, NULL, NULL };
