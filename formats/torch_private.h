// Private to torch.c, torch_storage.c and torch_value.c, in the order in which they work.
#ifndef KD_TORCH_PRIVATE_H
#define KD_TORCH_PRIVATE_H
#include "formats/pickle.h"
#include "formats/torch.h"
#include "formats/zip.h"

// The names that may stand in a pickle, by their place in kd_torch_names. Storages come last.
enum { KD_TORCH_DICT, KD_TORCH_TENSOR, KD_TORCH_PARAMETER, KD_TORCH_SIZE, KD_TORCH_MODULE, KD_TORCH_TAGGED, KD_TORCH_LIST,
       KD_TORCH_STORAGES = KD_TORCH_LIST + 4 };
extern const kd_py_name kd_torch_names[];

/// A run of elements of one type that tensors are views of.
typedef struct kd_storage {
    const char *key; size_t n_key;     // inside the file
    kd_dtype dtype; int64_t count;
    void *data;                        // inside the file, or in `block`; aligned for its type, this machine's byte order
    void *block;                       // NULL, or kd_alloc'ed
} kd_storage;

typedef struct kd_torch_store {
    const char *file;                  // for messages, while reading
    uint8_t *bytes; size_t n;          // the file, malloc'ed
    kd_storage *s; size_t n_s;         // by key
    int64_t total;                     // bytes of all storages
    size_t unpacked;                   // of them, those that were deflated
} kd_torch_store;

/// torch_storage.c: the storages that the pickle speaks of, without data.
int kd_storages_list(kd_torch_store *st, kd_pickle *p, kd_err *err);
/// Their data: from members data/KEY, or one after another behind the pickles (`keys`: the list of their keys).
int kd_storages_of_zip(kd_torch_store *st, const kd_zip *z, bool swap, kd_err *err);
int kd_storages_of_legacy(kd_torch_store *st, const kd_py *keys, size_t at, kd_err *err);
/// The one that a persistent id means. offset, count: NULL, or set to the part of it that the id is a view of.
int kd_storage_of(const kd_torch_store *st, const kd_py *outside, const kd_storage **s, int64_t *offset, int64_t *count, kd_err *err);
void kd_storages_free(kd_torch_store *st);

/// torch_value.c: the tree of values into t->tensors and t->rest, whose memory the pickle pays for.
int kd_torch_take(kd_torch *t, kd_pickle *p, kd_err *err);
#endif
