// Opening a compute device by name. The CPU is built in; every other device is a plug-in, a shared object that exports
// `kd_plugin` (op/backend.h).
#ifndef KD_DEVICE_H
#define KD_DEVICE_H
#include "op/backend.h"

/// Opens a device.
///   auto            cuda if its plug-in is found and opens, else cpu. A plug-in that does not fit this program is an error
///   cpu             built in
///   NAME[:WHICH]    the plug-in kd-NAME.so, for example cuda or cuda:1. It is looked for in the folder $KD_PLUGINS if that is
///                   set, else in the program's own folder and then in ../lib/kd, relative to that folder
///   PATH[:WHICH]    a plug-in's path, which must contain a '/'. WHICH is recognized only after ".so"
/// WHICH is passed to the plug-in, as an empty string if it is left out. `auto` is silent about a plug-in that does not open.
///
/// A plug-in contains only its own code and uses the program's functions: those of lib/base, lib/tensor and lib/op that the
/// program itself contains, and kd_cpu_open.
/// errors  KD_EUSAGE for a name or a file that does not exist; KD_EFAIL for a plug-in that cannot be used; those of its open
int kd_device_open(kd_backend **be, const char *device, kd_err *err);

#endif
