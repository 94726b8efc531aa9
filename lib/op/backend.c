// What is the same for every backend.
#include "op/backend.h"

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
