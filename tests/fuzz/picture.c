// Any bytes as a picture: sniffed, decoded, made grey or colour, fitted. The last byte chooses what is done.
#include "data/picture.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const uint8_t background[3] = { 255, 128, 0 };
    kd_err err = {0};
    kd_picture p = {0};
    unsigned how = n ? bytes[n - 1] : 0;
    kd_sniff(bytes, n);
    if (kd_picture_decode(&p, bytes, n, background, &err) == 0 && p.h * p.w <= 1 << 22)
        if (kd_picture_channels(&p, how & 1 ? 1 : 3, &err) == 0)
            kd_picture_fit(&p, 5, 7, (kd_filter)(how >> 1 & 3), how & 8, &err);
    if (err.code && (err.code == KD_EUSAGE || !err.msg[0])) abort();
    kd_picture_free(&p);
    return 0;
}
