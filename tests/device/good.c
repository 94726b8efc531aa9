// A plug-in that opens the CPU: it shows that plug-ins are found, get the device's number, and can call the program's functions.
#include "cpu/cpu.h"
#include <stdio.h>

static int open_good(kd_backend **be, const char *which, kd_err *err)
{
    static char name[64];
    KD_TRY(kd_cpu_open(be, err));
    snprintf(name, sizeof name, "good '%s'", which);
    (*be)->name = name;
    return 0;
}

extern const struct kd_plugin kd_plugin;
const struct kd_plugin kd_plugin = { KD_BACKEND_ABI, kd_ops_hash, open_good };
