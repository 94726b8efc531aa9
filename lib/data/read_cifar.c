// CIFAR-10, binary version (Krizhevsky 2009; https://www.cs.toronto.edu/~kriz/cifar.html): records without a header, each
//   label (1 byte, 0 to 9)   red (32 x 32)   green (32 x 32)   blue (32 x 32)
// There is no magic number, so the name (.bin), the length and every label must fit.
#include "data/codec.h"
#include "data/reader.h"
#include <fnmatch.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, RECORD = 1 + 3 * PLANE, CLASSES = 10 };

static const char *const classes[CLASSES + 1] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck" };

static bool knows(const kd_head *h)
{
    if (fnmatch("*.bin", h->name, 0) && fnmatch("*.bin.gz", h->name, 0)) return false;
    return h->n && h->bytes[0] < CLASSES && (h->size < 0 || h->size % RECORD == 0);
}

static int next(kd_reader *r, kd_item *item, bool *got, kd_err *err)
{
    uint8_t record[RECORD];
    size_t n;
    KD_TRY(kd_bytes_read(r->in, record, sizeof record, &n, err));
    *got = n == sizeof record;
    if (!n) return 0;
    if (!*got) return kd_fail(err, KD_EFORMAT, "CIFAR-10: the last record has %zu of %d bytes", n, RECORD);
    if (record[0] >= CLASSES) return kd_fail(err, KD_EFORMAT, "CIFAR-10: a record has label %d, more than 9", record[0]);
    KD_TRY(kd_picture_alloc(&item->picture, SIDE, SIDE, 3, err));
    for (int i = 0; i < PLANE; i++)
        for (int k = 0; k < 3; k++) item->picture.p[3 * i + k] = record[1 + k * PLANE + i];
    item->label = record[0];
    return 0;
}

const kd_reader_kind kd_read_cifar10 = {
    .name = "CIFAR-10", .channels = 3, .many = true, .classes = classes, .knows = knows, .next = next };
