// Opening backends by name: here, beside the one that is built in, so that lib/op knows none.
#include "op/backend.h"
#include "cpu/cpu.h"
#include <string.h>

int kd_backend_open(kd_backend **be, const char *device, kd_err *err)
{
    *be = NULL;
    if (!strcmp(device, "auto") || !strcmp(device, "cpu"))
        return kd_cpu_open(be, err);
    if (!strncmp(device, "cuda", 4) || !strcmp(device, "cusim"))
        return kd_fail(err, KD_EUSAGE, "--device %s: this build has no CUDA backend", device);
    return kd_fail(err, KD_EUSAGE, "--device: expected auto or cpu, got '%s'", device);
}

void kd_backend_close(kd_backend *be)
{
    if (be)
        be->close(be);
}

int kd_backend_lend(kd_backend *be, void *host, size_t bytes, void **at, kd_err *err)
{
    *at = be->host ? host : NULL;
    if (be->host)
        return 0;
    KD_TRY(be->alloc(be, at, bytes, err));
    return be->upload(be, *at, host, bytes, err);
}

void kd_backend_return(kd_backend *be, void *at)
{
    if (at && !be->host)
        be->free(be, at);
}
