// The CPU backend: memory is the process's own, a node runs when it is asked for, on the threads of kd_parallel.
#include "cpu/cpu.h"
#include "cpu/kernel.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const kd_kernel *const kd_kernels_base[KD_OPS];
#ifdef __x86_64__
extern const kd_kernel *const kd_kernels_avx2[KD_OPS];
extern const kd_kernel *const kd_kernels_avx512[KD_OPS];
#endif

typedef struct set { const char *name; const kd_kernel *const *kernels; bool here; } set;

static int sets(set s[3])
{
    s[0] = (set){ "base", kd_kernels_base, true };
#ifdef __x86_64__
    __builtin_cpu_init();
    s[1] = (set){ "avx2", kd_kernels_avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") };
    s[2] = (set){ "avx512", kd_kernels_avx512, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") };
    return 3;
#else
    return 1;
#endif
}

int kd_cpu_sets(const char *names[3])
{
    set s[3];
    const int n = sets(s);
    int k = 0;
    for (int i = 0; i < n; i++)
        if (s[i].here)
            names[k++] = s[i].name;
    return k;
}

static int pick(set *out, kd_err *err)
{
    set s[3];
    const int n = sets(s);
    const char *const pinned = getenv("KD_CPU");
    for (int i = n - 1; i >= 0; i--)
        if (pinned && *pinned ? !strcmp(pinned, s[i].name) : s[i].here) {
            *out = s[i];
            return s[i].here ? 0 : kd_fail(err, KD_EUSAGE, "KD_CPU=%s: this machine does not have it", pinned);
        }
    return kd_fail(err, KD_EUSAGE, "KD_CPU: expected base, avx2 or avx512, got '%s'", pinned);
}

// The backend's functions --------------------------------------------------------------------------------------------

typedef struct cpu {
    const kd_kernel *const *kernels;
    int64_t in_use;
    char name[32];
} cpu;

// A block is preceded by KD_ALIGN bytes that hold its size, so that memory in use is known.
static int alloc(kd_backend *be, void **p, size_t bytes, kd_err *err)
{
    cpu *const c = be->state;
    *p = NULL;
    char *const block = bytes <= SIZE_MAX - KD_ALIGN ? kd_alloc(bytes + KD_ALIGN) : NULL;
    if (!block)
        return kd_fail(err, KD_EFAIL, "out of memory: %.1f MiB wanted beside %.1f MiB in use",
                       (double)bytes / 0x1p20, (double)c->in_use / 0x1p20);
    memcpy(block, &bytes, sizeof bytes);
    c->in_use += (int64_t)bytes;
    *p = block + KD_ALIGN;
    return 0;
}

static void release(kd_backend *be, void *p)
{
    size_t bytes;
    if (!p)
        return;
    memcpy(&bytes, (char *)p - KD_ALIGN, sizeof bytes);
    ((cpu *)be->state)->in_use -= (int64_t)bytes;
    kd_free((char *)p - KD_ALIGN);
}

static int copy(kd_backend *be, void *to, const void *from, size_t bytes, kd_err *err)
{
    (void)be;
    (void)err;
    memcpy(to, from, bytes);
    return 0;
}

static int fill(kd_backend *be, void *p, int byte, size_t bytes, kd_err *err)
{
    (void)be;
    (void)err;
    memset(p, byte, bytes);
    return 0;
}

static int map(kd_backend *be, void *p, size_t bytes, int mode, void **host, kd_err *err)
{
    (void)be, (void)bytes, (void)mode, (void)err;
    *host = p;
    return 0;
}

static int unmap(kd_backend *be, void *host, kd_err *err)
{
    (void)be, (void)host, (void)err;
    return 0;
}

static void *adopt(kd_backend *be, void *host)
{
    (void)be;
    return host;
}

// Kernels compute in F32; only cast reads and writes the shorter floats.
static bool is_short(const kd_val *v) { return v && (v->dtype == KD_BF16 || v->dtype == KD_F16); }

static bool supports(const kd_backend *be, const kd_node *n)
{
    (void)be;
    bool any = false;
    for (int i = 0; i < n->n_in; i++)
        any = any || is_short(n->in[i]);
    for (int i = 0; i < n->n_out; i++)
        any = any || is_short(n->out[i]);
    return !any || n->op == KD_OP_cast;
}

static size_t scratch(kd_backend *be, kd_node *const *node, int n)
{
    const kd_kernel *const k = ((cpu *)be->state)->kernels[node[0]->op];
    (void)n;
    return k->scratch ? k->scratch(node[0]) : 0;
}

static int run_node(kd_backend *be, kd_node *const *node, int n, void *work, kd_err *err)
{
    (void)err;
    (void)n;
    assert(n == 1 && "this backend joins no nodes");
    ((cpu *)be->state)->kernels[node[0]->op]->run(node[0], work);
    return 0;
}

static int sync_now(kd_backend *be, kd_err *err)
{
    (void)be;
    (void)err;
    return 0;
}

static int64_t in_use(kd_backend *be)
{
    return ((cpu *)be->state)->in_use;
}

static void close_cpu(kd_backend *be)
{
    kd_free(be->state);
    kd_free(be);
}

int kd_cpu_open(kd_backend **out, kd_err *err)
{
    set s = { 0 };
    KD_TRY(pick(&s, err));
    kd_backend *const be = kd_alloc(sizeof *be);
    cpu *const c = kd_alloc(sizeof *c);
    if (!be || !c) {
        kd_free(be);
        kd_free(c);
        return kd_fail_memory(err, "the CPU backend");
    }
    c->kernels = s.kernels;
    snprintf(c->name, sizeof c->name, "cpu (%s)", s.name);
    *be = (kd_backend){ .name = c->name, .alloc = alloc, .free = release, .upload = copy, .download = copy, .copy = copy,
                        .fill = fill, .map = map, .unmap = unmap, .in_use = in_use, .supports = supports, .scratch = scratch,
                        .run = run_node, .sync = sync_now, .close = close_cpu, .adopt = adopt, .state = c };
    *out = be;
    return 0;
}
