// XXH3, 64 bits, by libxxhash.
#include "base/io.h"
#include "base/memory.h"
#include <xxhash.h>

struct kd_hash { XXH3_state_t *state; };

kd_hash *kd_hash_new(void)
{
    kd_hash *h = kd_alloc(sizeof *h);
    if (!h)
        return NULL;
    h->state = XXH3_createState();
    if (!h->state) {
        kd_free(h);
        return NULL;
    }
    XXH3_64bits_reset(h->state);
    return h;
}

void kd_hash_add(kd_hash *h, const void *bytes, size_t n)
{
    if (n)
        XXH3_64bits_update(h->state, bytes, n);
}

uint64_t kd_hash_get(const kd_hash *h) { return XXH3_64bits_digest(h->state); }

void kd_hash_free(kd_hash *h)
{
    if (h)
        XXH3_freeState(h->state);
    kd_free(h);
}

uint64_t kd_hash_of(const void *bytes, size_t n) { return XXH3_64bits(bytes, n); }
