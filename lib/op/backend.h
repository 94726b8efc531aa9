// The interface between programs and a compute device. The CPU backend is built in; others are plug-ins (device/device.h).
//
// One rule: what changes from run to run is an input value; attributes are constants of the graph; nothing waits but
// reading back. In detail:
// * A backend has one queue. upload, copy, fill, run, launch, unmap, free and discard are queued in the order of the calls
//   and may return before their work is done. download, map and sync wait until everything queued before them is done. alloc
//   does neither: its memory is zero before the first work that is queued afterwards.
// * upload has copied `host` when it returns: the caller may change it at once.
// * Memory that alloc gave is the backend's. The program passes its addresses on and may add to them, but reads and writes
//   only through upload, download and map.
// * Kernels never fail because of data. A call reports only that it cannot queue its work. What goes wrong later is reported
//   by every call that waits from then on: the device is lost, and nothing it holds may be saved.
// * run and compile copy what they need of nodes and values: both may be gone when they return. Nodes that vec.h makes belong
//   to no program. Their attributes differ from call to call, which is the one exception to the rule above.
// * All entries are called from one thread. Only that thread, or one that it waits for, may call kd_parallel.
#ifndef KD_BACKEND_H
#define KD_BACKEND_H
#include "base/memory.h"    // KD_ALIGN
#include "op/op.h"

enum { KD_BACKEND_ABI = 2 };

typedef enum { KD_MAP_READ = 1, KD_MAP_WRITE = 2 } kd_map_mode;     // or both, KD_MAP_READ | KD_MAP_WRITE

typedef struct kd_backend kd_backend;
struct kd_backend {
    const char *name;                       // "cpu (avx2)"
    bool async;                             // works while the caller goes on: then the next batch is prepared meanwhile

    // Memory. *p and *host are NULL after a failure.
    int (*alloc)(kd_backend *be, void **p, size_t bytes, kd_err *err);      // aligned to KD_ALIGN, zeroed
    void (*free)(kd_backend *be, void *p);
    int (*upload)(kd_backend *be, void *to, const void *host, size_t bytes, kd_err *err);
    int (*download)(kd_backend *be, void *host, const void *from, size_t bytes, kd_err *err);
    int (*copy)(kd_backend *be, void *to, const void *from, size_t bytes, kd_err *err);      // on the backend; without overlap
    int (*fill)(kd_backend *be, void *p, int byte, size_t bytes, kd_err *err);
    /// Lets the host read or write bytes of the backend's memory until unmap, in place or in a copy. Several ranges may be
    /// mapped at once, if they do not overlap. Bytes mapped with KD_MAP_WRITE alone are undefined at first and all written
    /// back. Nothing else may use mapped bytes, except on a backend that can adopt.
    int (*map)(kd_backend *be, void *p, size_t bytes, int mode, void **host, kd_err *err);
    int (*unmap)(kd_backend *be, void *host, kd_err *err);                 // what map gave
    int64_t (*in_use)(kd_backend *be);                                      // bytes allocated now

    // Nodes. A unit is n nodes that the backend computes as one: a single node unless `group` joined them. Values that only
    // the unit itself reads have no memory then (data is NULL).
    /// Whether there is a kernel for this op in these types. It is asked for each node of a program. The ops of vec.h (mix,
    /// advance, extrapolate, clamp, keep, check, normal, brownian) must be there in F32.
    bool (*supports)(const kd_backend *be, const kd_node *n);
    /// Bytes of working memory that the unit takes. It is asked before values have memory, and the answer must hold for run. All
    /// units of a program share one block.
    size_t (*scratch)(kd_backend *be, kd_node *const *node, int n);
    int (*run)(kd_backend *be, kd_node *const *node, int n, void *scratch, kd_err *err);
    int (*sync)(kd_backend *be, kd_err *err);
    void (*close)(kd_backend *be);

    // Optional entries: NULL if the backend has none
    /// Returns the address at which kernels use the host's memory `host` in place. A backend with this entry computes in the
    /// host's memory and is not async: map returns p itself, and mapped memory may be used meanwhile.
    void *(*adopt)(kd_backend *be, void *host);
    /// Whether output 0 of a cheap node (kd_op.cheap) is kept for the gradient. NULL: it is computed again.
    bool (*keeps)(const kd_backend *be, const kd_node *n);
    /// Joins nodes before memory is planned. The nodes are in the order in which they run. On entry unit[i] is i; on return it is
    /// the number of the last node of node i's unit, so that unit[unit[i]] is unit[i]. A unit is computed in the place of its
    /// last node. So no node in between that is not in the unit may read what its earlier nodes compute, be flatten if they
    /// compute pinned values (it reads them all), or write over memory that they use (accumulate, adamw and sgd write over
    /// bound values). Values with `output` set must be stored, also if only the unit reads them.
    void (*group)(kd_backend *be, kd_node *const *node, int n, int *unit);
    /// compile, launch and discard come together. compile makes one piece of work of a program's units, size[k] nodes each; it is
    /// called once, after all values have memory, and their addresses then remain the same. It may run the units to prepare:
    /// values have no meaning yet. launch runs it. Setting, feeding and taking values are not part of it.
    int (*compile)(kd_backend *be, kd_node *const *node, const int *size, int units, void *scratch, void **exe, kd_err *err);
    int (*launch)(kd_backend *be, void *exe, kd_err *err);
    void (*discard)(kd_backend *be, void *exe);

    void *state;
};

/// Closes a backend whose memory has all been freed. NULL is fine.
void kd_backend_close(kd_backend *be);

/// Where the backend reads an array of the host's, which must outlive this and not change: the array itself if the backend can
/// adopt it, else a copy.
int kd_backend_lend(kd_backend *be, void *host, size_t bytes, void **at, kd_err *err);
void kd_backend_return(kd_backend *be, void *host, void *at);  // what kd_backend_lend gave for host; NULL is fine

/// A hash of the op list and of the layout of what a plug-in reads: differs if a plug-in was built from other sources.
static inline uint64_t kd_ops_hash(void)
{
    static const char ops[] =
#define KD_OP(name, outs, f32, what) #name " " #outs " " #f32 " " what "\n"
#include "op/ops.def"
#undef KD_OP
        "";
    const size_t size[] = { sizeof(kd_node), sizeof(kd_val), sizeof(kd_backend) };
    uint64_t h = 14695981039346656037u;                                      // FNV-1a
    for (size_t i = 0; i < sizeof ops; i++) h = (h ^ (unsigned char)ops[i]) * 1099511628211u;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) h = (h ^ size[i]) * 1099511628211u;
    return h;
}

/// What a plug-in exports:  const struct kd_plugin kd_plugin = { KD_BACKEND_ABI, kd_ops_hash, open };
struct kd_plugin {
    uint32_t abi;                           // KD_BACKEND_ABI, as compiled in
    uint64_t (*ops)(void);                  // kd_ops_hash, as compiled in: a function, for C has no constants that are hashes
    int (*open)(kd_backend **be, const char *which, kd_err *err);   // which: what follows the colon of "cuda:1", else ""
};

#endif
