// Any bytes to the reader of image streams, as a file and through a pipe.
#include "feed.h"
#include "formats/images.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void read_all(const char *path)
{
    kd_err err = {0};
    kd_images_reader *r = NULL;
    kd_images run = {0};
    uint64_t sum = 0;
    if (kd_images_open(&r, path, &err) == 0) {
        const kd_images_info *info = kd_images_info_of(r);
        size_t image = (size_t)(info->h * info->w * info->c) * kd_dtype_size(info->dtype);
        while (kd_images_next(r, &run, &err) == 0 && run.n) {
            for (size_t i = 0; i < (size_t)run.n * image; i++) sum += ((const uint8_t *)run.image)[i];
            for (int64_t i = 0; i < run.n; i++) {
                if (run.label) sum += (uint64_t)run.label[i];
                if (run.index) sum += (uint64_t)run.index[i];
                if (run.seed) sum += run.seed[i];
                if (run.calls) sum += (uint64_t)run.calls[i];
            }
        }
    }
    if (err.code && err.code != KD_EFORMAT && err.code != KD_EUSAGE) abort();
    if (err.code && !err.msg[0]) abort();
    kd_images_close(r);
    volatile uint64_t sink = sum;                     // so that the reads above happen
    (void)sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    feed_both(bytes, n, read_all);
    return 0;
}
