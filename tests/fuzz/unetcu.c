// Any bytes to the reader of unet.cu's weights. A shorter file than any network's makes only errors: the corpus has small ones.
#include "feed.h"
#include "formats/unetcu.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    kd_err err = {0};
    kd_in *in = NULL;
    kd_frame *f = NULL;
    feed file = feed_file(bytes, n);
    if (kd_in_open(&in, file.path, &err)) abort();
    const int code = kd_unetcu_read(&f, in, &err);
    if (code != err.code || (code && (code != KD_EFORMAT || !err.msg[0] || f))) abort();
    kd_frame_free(f);
    kd_in_close(in);
    feed_end(file);
    return 0;
}
