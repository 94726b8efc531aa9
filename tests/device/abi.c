// A plug-in of a later interface: nothing but its number may be looked at.
#include "op/backend.h"

extern const struct kd_plugin kd_plugin;
const struct kd_plugin kd_plugin = { KD_BACKEND_ABI + 1, NULL, NULL };
