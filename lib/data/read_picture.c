// A file that is one coded picture: PNG, JPEG. Decoded later, in parallel.
#include "data/reader.h"
#include <string.h>

enum { LIMIT = 1 << 30 };                                // bytes of one coded picture

static bool knows(const kd_head *h)
{
    const char *kind = kd_sniff(h->bytes, h->n);
    return kind && (!strcmp(kind, "png") || !strcmp(kind, "jpeg"));
}

static int next(kd_reader *r, kd_item *item, bool *got, kd_err *err)
{
    *got = !r->own;                                      // own: taken
    if (r->own) return 0;
    r->own = r;
    return kd_bytes_rest(r->in, LIMIT, &item->bytes, &item->n, err);
}

const kd_reader_kind kd_read_picture = { .name = "picture", .channels = 3, .knows = knows, .next = next };
