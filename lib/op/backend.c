#include "op/backend.h"

void kd_backend_close(kd_backend *be)
{
    if (be)
        be->close(be);
}

int kd_backend_lend(kd_backend *be, void *host, size_t bytes, void **at, kd_err *err)
{
    *at = be->adopt ? be->adopt(be, host) : NULL;
    if (*at)
        return 0;
    KD_TRY(be->alloc(be, at, bytes, err));
    const int code = be->upload(be, *at, host, bytes, err);
    if (code) {
        be->free(be, *at);
        *at = NULL;
    }
    return code;
}

void kd_backend_return(kd_backend *be, void *host, void *at)
{
    if (at && !(be->adopt && be->adopt(be, host) == at))
        be->free(be, at);
}
