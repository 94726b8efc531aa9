// The backend boundary: about ten functions and one kernel an op. The CPU backend is built in; CUDA is a plug-in that
// exports `kd_backend_plugin` with this ABI number and the hash of ops.def.
#ifndef KD_BACKEND_H
#define KD_BACKEND_H
#include "op/op.h"
#include "op/unet.h"      // kinds that nodes have as attributes

enum { KD_BACKEND_ABI = 1 };

typedef struct kd_backend kd_backend;
struct kd_backend {
    const char *name;                                       // "cpu (avx2)"
    int (*alloc)(kd_backend *be, void **p, size_t bytes, kd_err *err);      // 64-byte aligned, zeroed
    void (*free)(kd_backend *be, void *p);
    int (*upload)(kd_backend *be, void *to, const void *host, size_t bytes, kd_err *err);
    int (*download)(kd_backend *be, void *host, const void *from, size_t bytes, kd_err *err);
    int (*fill)(kd_backend *be, void *p, int byte, size_t bytes, kd_err *err);
    size_t (*scratch)(kd_backend *be, const kd_node *n);    // bytes of working memory the node's kernel takes
    int (*run)(kd_backend *be, const kd_node *n, void *scratch, kd_err *err);
    int (*sync)(kd_backend *be, kd_err *err);
    int64_t (*in_use)(kd_backend *be);                      // bytes allocated now
    void (*close)(kd_backend *be);
    bool host;                                              // what alloc gives is the program's own memory, to be read in place
    void *state;
};

/// Closes a backend whose memory has all been freed. NULL is fine.
void kd_backend_close(kd_backend *be);

/// Where the backend reads an array of the host's, which must outlive this: the array itself if `host`, else a copy.
int kd_backend_lend(kd_backend *be, void *host, size_t bytes, void **at, kd_err *err);
void kd_backend_return(kd_backend *be, void *at);             // what kd_backend_lend gave; NULL is fine

/// A hash of the op list and of the layout of what a plug-in reads: differs if a plug-in was built from other sources.
static inline uint64_t kd_ops_hash(void)
{
    static const char ops[] =
#define KD_OP(name, outs, what) #name " " #outs " " what "\n"
#include "op/ops.def"
#undef KD_OP
        "";
    const size_t size[] = { sizeof(kd_node), sizeof(kd_val), sizeof(kd_backend) };
    uint64_t h = 14695981039346656037u;                                      // FNV-1a
    for (size_t i = 0; i < sizeof ops; i++) h = (h ^ (unsigned char)ops[i]) * 1099511628211u;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) h = (h ^ size[i]) * 1099511628211u;
    return h;
}

/// What a plug-in exports under the name kd_plugin: const struct kd_plugin kd_plugin = { KD_BACKEND_ABI, kd_ops_hash, open };
struct kd_plugin {
    uint32_t abi;                           // KD_BACKEND_ABI, as compiled in
    uint64_t (*ops)(void);                  // kd_ops_hash, as compiled in: a function, for C has no constants that are hashes
    int (*open)(kd_backend **be, const char *which, kd_err *err);   // which: what follows the colon of "cuda:1", else ""
};

#endif
