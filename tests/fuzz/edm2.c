// Any bytes to the reader of EDM2's pickles. All that it accepts can be read, and is not larger than the file.
#include "base/io.h"
#include "feed.h"
#include "formats/edm2.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    kd_err err = {0};
    kd_in *in = NULL;
    kd_edm2 *e = NULL;
    feed f = feed_file(bytes, n);
    if (kd_in_open(&in, f.path, &err)) abort();
    if (kd_edm2_read(&e, in, &err) && (err.code != KD_EFORMAT || !err.msg[0])) abort();
    uint64_t sum = 0;
    size_t all = 0;
    for (int i = 0; e && i < e->arrays->n; i++) {
        const size_t part = kd_tensor_bytes(&e->arrays->t[i]);
        sum += kd_hash_of(e->arrays->t[i].data, part), all += part;
    }
    if (all > n) abort();
    volatile uint64_t sink = sum;                     // so that the reads above happen
    (void)sink;
    kd_edm2_free(e);
    kd_in_close(in);
    feed_end(f);
    return 0;
}
