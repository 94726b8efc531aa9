// A plug-in that cannot open a device. Its error is KD_EFAIL, or KD_EUSAGE for `:7`; for `:silent` it gives no message.
#include "op/backend.h"
#include <string.h>

static int open_none(kd_backend **be, const char *which, kd_err *err)
{
    (void)be;
    if (!strcmp(which, "silent")) return 1;
    if (*which) return kd_fail(err, KD_EUSAGE, "--device: no device %s", which);
    return kd_fail(err, KD_EFAIL, "no device here");
}

extern const struct kd_plugin kd_plugin;
const struct kd_plugin kd_plugin = { KD_BACKEND_ABI, kd_ops_hash, open_none };
