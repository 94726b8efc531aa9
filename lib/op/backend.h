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

/// Opens "auto", "cpu", "cuda[:N]" or "cusim". errors KD_EUSAGE if there is no such device, with what is missing.
int kd_backend_open(kd_backend **be, const char *device, kd_err *err);
void kd_backend_close(kd_backend *be);

/// Where the backend reads an array of the host's, which must outlive this: the array itself if `host`, else a copy.
int kd_backend_lend(kd_backend *be, void *host, size_t bytes, void **at, kd_err *err);
void kd_backend_return(kd_backend *be, void *at);             // what kd_backend_lend gave; NULL is fine

#endif
