#include "metric/open.h"
#include "formats/safetensors.h"
#include <string.h>
#include <unistd.h>

int kd_set_open(kd_set **s, const char *path, kd_err *err)
{
    kd_in *in = NULL;
    kd_frame *frame = NULL;
    if (strchr(path, ':') && access(path, F_OK)) return kd_set_of_matrix(s, path, err);
    KD_TRY(kd_in_open(&in, path, err));
    int code = kd_safetensors_read(in, &frame, err);
    if (!code && !frame) code = kd_fail(err, KD_EFORMAT, "%s: empty", kd_in_name(in));
    if (!code) code = kd_set_of_frame(s, frame, kd_in_name(in), err);
    kd_in_close(in);
    return code;
}
