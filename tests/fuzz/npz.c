// Any bytes to the reader of numpy's archives, mapped and through a pipe. All that it accepts can be read.
#include "base/io.h"
#include "feed.h"
#include "formats/npz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void read_all(const char *path)
{
    kd_err err = {0};
    kd_in *in = NULL;
    kd_npz *z = NULL;
    if (kd_in_open(&in, path, &err)) abort();
    if (kd_npz_read(&z, in, &err) && ((err.code != KD_EFORMAT && err.code != KD_EUSAGE) || !err.msg[0])) abort();
    uint64_t sum = 0;
    for (int i = 0; z && i < z->arrays->n; i++) sum += kd_hash_of(z->arrays->t[i].data, kd_tensor_bytes(&z->arrays->t[i]));
    volatile uint64_t sink = sum;                     // so that the reads above happen
    (void)sink;
    kd_npz_free(z);
    kd_in_close(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (!n) return 0;                                 // an empty file cannot be mapped, and kd_set_open does not come here with one
    feed_both(bytes, n, read_all);
    return 0;
}
