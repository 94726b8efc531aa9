// A device for tests that does its work as late as op/backend.h allows, in memory that the host cannot access. It exposes every
// place in kd that assumes that work is done when a call returns, or that reads or writes the backend's memory directly.
//
// * Calls are queued. The jobs are done when download, map or sync is called, by another thread and with the CPU's kernels.
// * The addresses that alloc gives can be neither read nor written. The bytes are in a second mapping at a constant distance;
//   kernels get copies of nodes in which the addresses are replaced. If the host touches an address, a line on stderr says so
//   before the process is killed.
// * Every address that is passed in must be inside a block that is allocated and not mapped. Addresses are never reused, so a
//   use after free is detected. A mistake is reported on stderr, then abort() is called.
// * Bytes that have no promised value are 0xff, which is NaN in every float type: scratch memory before each unit, memory mapped
//   for writing only, and the host's copy of mapped memory after unmap.
// * Unlike the CPU it joins nodes, keeps cheap values and compiles programs; late.so:plain does none of these. The results always
//   have the CPU's bits.
//
// Environment:
//   KD_LATE_STATS=FILE   write the number of calls of each function to FILE on closing, as lines "name value"
//   KD_LATE_FAIL=N       make the N-th alloc fail as if memory had run out
//   KD_LATE_SIGNAL=N     send the process SIGINT in the N-th launch
//   KD_LATE_BREAK=N      break the device in the N-th unit that it computes. Every call that waits then fails
#include "base/memory.h"
#include "cpu/cpu.h"
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POISON = 0xff, MAX_VAL = KD_MAX_IN + KD_MAX_OUT, MAX_JOINED = 4 };
static const size_t SPACE = (size_t)1 << 38;             // bytes of addresses
static const size_t QUEUE = (size_t)1 << 28;             // bytes of jobs at most; then they are done at once

typedef enum { ALLOC, FREE, UPLOAD, DOWNLOAD, COPY, FILL, MAP, UNMAP, RUN, COMPILE, LAUNCH, SYNC, JOINED, COMPUTED, COUNTS } call;
static const char *const count_name[COUNTS] = { "alloc", "free", "upload", "download", "copy", "fill", "map", "unmap", "run", "compile",
                                                "launch", "sync", "joined", "computed" };     // nodes joined, units computed

/// A copy of a node whose values have addresses in the storage.
typedef struct step { kd_node node; kd_val val[MAX_VAL]; const kd_val *of[MAX_VAL]; int n_val; } step;
typedef struct copies { int n; char *scratch; size_t bytes; step step[]; } copies;     // of a unit
typedef struct work { int refs, n; copies *unit[]; } work;                             // what compile gives

typedef enum { DO_COPY, DO_FILL, DO_FREE, DO_WORK } job_kind;
typedef struct job { struct job *next; job_kind kind; char *to; const char *from; size_t bytes; int byte; work *work; char copy[]; } job;

typedef struct block { struct block *next; char *p; size_t bytes; } block;
typedef struct mapping { struct mapping *next; char *host, *p; size_t bytes; int mode; } mapping;

typedef struct late {
    kd_backend be, *cpu;
    char name[64];
    char *space; ptrdiff_t storage;    // the addresses given out, and how far behind them the bytes are
    size_t used, page;                 // of the addresses
    block *blocks; mapping *mappings; int works;
    int64_t in_use;
    job *first, **last; size_t queued;
    kd_err broken;                     // what went wrong while the caller was not waiting
    int64_t n[COUNTS], fail_at, break_at, signal_at;
} late;

static late *of(kd_backend *be, call c)
{
    late *const l = be->state;
    l->n[c]++;
    return l;
}

static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// The caller's mistakes -------------------------------------------------------------------------------------------------------

static void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("late: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    abort();
}

static void *must(void *p)
{
    if (!p) die("out of the host's memory");
    return p;
}

static bool meet(const char *a, size_t n, const char *b, size_t m) { return n && m && a < b + m && b < a + n; }

static void check(const late *l, const char *what, const void *p, size_t bytes)
{
    const block *b = l->blocks;
    while (b && !((const char *)p >= b->p && (const char *)p + bytes <= b->p + b->bytes)) b = b->next;
    if (bytes && !b) {
        const bool here = (const char *)p >= l->space && (const char *)p < l->space + SPACE;
        die("%s: %zu bytes at %p: %s", what, bytes, p, here ? "freed, or more than was allocated" : "not this device's memory");
    }
    for (const mapping *m = l->mappings; m; m = m->next)
        if (meet(p, bytes, m->p, m->bytes)) die("%s: %zu bytes at %p: mapped, so nothing else may use them", what, bytes, p);
}

// A fault at one of the addresses is explained. With several devices, only the last one opened counts.
static const char *fault_from, *fault_to;
static struct sigaction fault_before;

static void fault(int number, siginfo_t *info, void *context)
{
    static const char text[] = "late: the host reads or writes an address of the device\n";
    (void)context;
    const char *const at = info->si_addr;
    if (at >= fault_from && at < fault_to && write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(1);
    sigaction(number, &fault_before, NULL);              // the instruction is repeated and faults as it would have without this
}

static void explain_faults(const late *l)
{
    struct sigaction now;
    fault_from = l->space, fault_to = l->space + SPACE;
    if (sigaction(SIGSEGV, NULL, &now) || now.sa_sigaction == fault) return;
    fault_before = now;
    sigaction(SIGSEGV, &(struct sigaction){ .sa_sigaction = fault, .sa_flags = SA_SIGINFO }, NULL);
}

// Jobs -----------------------------------------------------------------------------------------------------------------------

static void release(work *w)
{
    if (--w->refs) return;
    for (int i = 0; i < w->n; i++) free(w->unit[i]);
    free(w);
}

static void compute(late *l, copies *u)
{
    if (l->broken.code) return;
    if (++l->n[COMPUTED] == l->break_at) {
        kd_fail(&l->broken, KD_EFAIL, "the device broke in unit %lld, as KD_LATE_BREAK wants", (long long)l->break_at);
        return;
    }
    if (u->bytes) memset(u->scratch, POISON, u->bytes);
    for (int i = 0; i < u->n; i++) {
        kd_node *const node = &u->step[i].node;
        if (l->cpu->run(l->cpu, &node, 1, u->scratch, &l->broken)) return;
    }
}

static void do_job(late *l, job *j)
{
    switch (j->kind) {
    case DO_COPY: memcpy(j->to, j->from, j->bytes); break;
    case DO_FILL: memset(j->to, j->byte, j->bytes); break;
    case DO_FREE:
        madvise(j->to, j->bytes, MADV_DONTNEED);
        if (mprotect(j->to, j->bytes, PROT_NONE)) die("mprotect fails");
        break;
    case DO_WORK:
        for (int i = 0; i < j->work->n; i++) compute(l, j->work->unit[i]);
        release(j->work);
        break;
    }
}

static void *do_jobs(void *arg)
{
    late *const l = arg;
    for (job *j; (j = l->first);) {
        l->first = j->next;
        do_job(l, j);
        free(j);
    }
    l->last = &l->first;
    l->queued = 0;
    return NULL;
}

static void finish(late *l)
{
    pthread_t other;
    if (!l->first) return;
    if (pthread_create(&other, NULL, do_jobs, l)) die("no thread");
    pthread_join(other, NULL);
}

static int finish_and_report(late *l, kd_err *err)
{
    finish(l);
    return l->broken.code ? kd_fail(err, l->broken.code, "%s", l->broken.msg) : 0;
}

/// copied: bytes that are copied into the job.
static job *queue(late *l, job_kind kind, const void *copied, size_t copied_bytes)
{
    job *const j = must(malloc(sizeof *j + copied_bytes));
    *j = (job){ .kind = kind, .from = j->copy, .bytes = copied_bytes };
    if (copied_bytes) memcpy(j->copy, copied, copied_bytes);
    if (l->queued > QUEUE) finish(l);
    l->queued += sizeof *j + copied_bytes;
    *l->last = j;
    l->last = &j->next;
    return j;
}

// Memory ---------------------------------------------------------------------------------------------------------------------

// A block ends at the end of its last page, apart from alignment, and an inaccessible page follows: a kernel that reads or writes
// past the end of a block faults.
static int alloc_late(kd_backend *be, void **p, size_t bytes, kd_err *err)
{
    late *const l = of(be, ALLOC);
    const size_t room = bytes < SPACE ? up(bytes + !bytes, KD_ALIGN) : SPACE, pages = up(room, l->page);
    *p = NULL;
    if (l->n[ALLOC] == l->fail_at || pages + l->page > SPACE - l->used
        || mprotect(l->space + l->used + l->storage, pages, PROT_READ | PROT_WRITE))
        return kd_fail(err, KD_EFAIL, "out of memory: %.1f MiB wanted beside %.1f MiB in use", (double)bytes / 0x1p20,
                       (double)l->in_use / 0x1p20);
    block *const b = must(malloc(sizeof *b));
    *b = (block){ l->blocks, l->space + l->used + pages - room, bytes };
    l->blocks = b;
    l->used += pages + l->page;
    l->in_use += (int64_t)bytes;
    *p = b->p;
    return 0;
}

static void free_late(kd_backend *be, void *p)
{
    late *const l = of(be, FREE);
    block **at = &l->blocks;
    if (!p) return;
    while (*at && (*at)->p != p) at = &(*at)->next;
    block *const b = *at;
    if (!b) die("free: %p: not allocated, or freed before", p);
    check(l, "free", b->p, b->bytes);                    // is it mapped?
    const size_t room = up(b->bytes + !b->bytes, KD_ALIGN), pages = up(room, l->page);
    job *const j = queue(l, DO_FREE, NULL, 0);
    j->to = b->p + room - pages + l->storage;
    j->bytes = pages;
    l->in_use -= (int64_t)b->bytes;
    *at = b->next;
    free(b);
}

static int upload(kd_backend *be, void *to, const void *host, size_t bytes, kd_err *err)
{
    late *const l = of(be, UPLOAD);
    (void)err;
    check(l, "upload", to, bytes);
    queue(l, DO_COPY, host, bytes)->to = (char *)to + l->storage;
    return 0;
}

static int download(kd_backend *be, void *host, const void *from, size_t bytes, kd_err *err)
{
    late *const l = of(be, DOWNLOAD);
    check(l, "download", from, bytes);
    KD_TRY(finish_and_report(l, err));
    memcpy(host, (const char *)from + l->storage, bytes);
    return 0;
}

static int copy(kd_backend *be, void *to, const void *from, size_t bytes, kd_err *err)
{
    late *const l = of(be, COPY);
    (void)err;
    check(l, "copy, to", to, bytes);
    check(l, "copy, from", from, bytes);
    if (meet(to, bytes, from, bytes)) die("copy: %zu bytes from %p to %p, which overlap", bytes, from, to);
    job *const j = queue(l, DO_COPY, NULL, 0);
    j->to = (char *)to + l->storage, j->from = (const char *)from + l->storage, j->bytes = bytes;
    return 0;
}

static int fill(kd_backend *be, void *p, int byte, size_t bytes, kd_err *err)
{
    late *const l = of(be, FILL);
    (void)err;
    check(l, "fill", p, bytes);
    job *const j = queue(l, DO_FILL, NULL, 0);
    j->to = (char *)p + l->storage, j->bytes = bytes, j->byte = byte;
    return 0;
}

static int map(kd_backend *be, void *p, size_t bytes, int mode, void **host, kd_err *err)
{
    late *const l = of(be, MAP);
    *host = NULL;
    check(l, "map", p, bytes);
    if (!(mode & (KD_MAP_READ | KD_MAP_WRITE)) || mode & ~(KD_MAP_READ | KD_MAP_WRITE)) die("map: mode %d", mode);
    KD_TRY(finish_and_report(l, err));
    char *const to = kd_alloc(bytes + !bytes);
    if (!to) return kd_fail_memory(err, "mapped memory of the device");
    if (mode & KD_MAP_READ) memcpy(to, (char *)p + l->storage, bytes);
    else memset(to, POISON, bytes);
    mapping *const m = must(malloc(sizeof *m));
    *m = (mapping){ l->mappings, to, p, bytes, mode };
    l->mappings = m;
    *host = to;
    return 0;
}

static int unmap(kd_backend *be, void *host, kd_err *err)
{
    late *const l = of(be, UNMAP);
    mapping **at = &l->mappings;
    (void)err;
    while (*at && (*at)->host != host) at = &(*at)->next;
    mapping *const m = *at;
    if (!m) die("unmap: %p is not mapped", host);
    if (m->mode & KD_MAP_WRITE) queue(l, DO_COPY, host, m->bytes)->to = m->p + l->storage;
    else if (memcmp(host, m->p + l->storage, m->bytes)) die("unmap: memory that was mapped for reading has been written to");
    memset(host, POISON, m->bytes);
    kd_free(host);
    *at = m->next;
    free(m);
    return 0;
}

static int64_t in_use(kd_backend *be) { return ((late *)be->state)->in_use; }

// Nodes ----------------------------------------------------------------------------------------------------------------------

static size_t val_bytes(const kd_val *v) { return (size_t)kd_count(v) * kd_dtype_size(v->dtype); }

static bool supports(const kd_backend *be, const kd_node *n)
{
    const late *const l = be->state;
    return l->cpu->supports(l->cpu, n);
}

/// Scratch memory for the kernels of a unit. Values that only the unit itself reads are placed after it.
static size_t kernel_scratch(late *l, kd_node *const *node, int n)
{
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        const size_t one = l->cpu->scratch(l->cpu, node + i, 1);
        most = one > most ? one : most;
    }
    return up(most, KD_ALIGN);
}

static size_t scratch(kd_backend *be, kd_node *const *node, int n)
{
    size_t bytes = kernel_scratch(be->state, node, n);
    for (int i = 0; i < n - 1; i++)
        for (int k = 0; k < node[i]->n_out; k++)
            if (node[i]->out[k]->used) bytes += up(val_bytes(node[i]->out[k]), KD_ALIGN);
    return bytes;
}

static kd_val *find_copy(step *s, const kd_val *v)
{
    for (int i = 0; i < s->n_val; i++)
        if (s->of[i] == v) return &s->val[i];
    return NULL;
}

// The copy of v for the kernel of step i. *inner: where the next value that only the unit reads is placed.
static kd_val *copy_val(const late *l, copies *u, int i, const kd_val *v, bool out, char **inner)
{
    step *const s = &u->step[i];
    const char *const op = kd_op_name[s->node.op];
    kd_val *c = find_copy(s, v), *before = NULL;
    if (c) return c;
    for (int k = 0; k < i && !before; k++) before = find_copy(&u->step[k], v);
    s->of[s->n_val] = v;
    c = &s->val[s->n_val++];
    *c = *v;
    c->node = NULL, c->host = NULL, c->shares = c->grad = NULL;
    const size_t bytes = val_bytes(v);
    if (v->data) {
        check(l, op, v->data, bytes);
        c->data = (char *)v->data + l->storage;
    } else if (before && before->data) {
        c->data = before->data;
    } else if (out && v->used && bytes && i < u->n - 1) {
        c->data = *inner;
        *inner += up(bytes, KD_ALIGN);
    } else if (bytes && (!out || v->used)) {
        die("%s: an %s has no memory", op, out ? "output" : "input");
    }
    return c;
}

static copies *copy_unit(late *l, kd_node *const *node, int n, void *work_memory)
{
    copies *const u = must(calloc(1, sizeof *u + (size_t)n * sizeof *u->step));
    u->n = n;
    u->bytes = scratch(&l->be, node, n);
    check(l, "scratch", work_memory, u->bytes);
    u->scratch = u->bytes ? (char *)work_memory + l->storage : NULL;
    char *inner = u->bytes ? u->scratch + kernel_scratch(l, node, n) : NULL;
    for (int i = 0; i < n; i++) {
        kd_node *const c = &u->step[i].node;
        *c = *node[i];
        c->name = "", c->again = NULL;
        for (int k = 0; k < c->n_in; k++)
            if (c->in[k]) c->in[k] = copy_val(l, u, i, c->in[k], false, &inner);
        for (int k = 0; k < c->n_out; k++) c->out[k] = copy_val(l, u, i, c->out[k], true, &inner);
    }
    return u;
}

static work *new_work(int units, size_t *bytes)
{
    *bytes = sizeof(work) + (size_t)units * sizeof(copies *);
    work *const w = must(calloc(1, *bytes));
    w->refs = 1;
    w->n = units;
    return w;
}

static int run(kd_backend *be, kd_node *const *node, int n, void *work_memory, kd_err *err)
{
    late *const l = of(be, RUN);
    size_t bytes;
    (void)err;
    work *const w = new_work(1, &bytes);
    w->unit[0] = copy_unit(l, node, n, work_memory);
    queue(l, DO_WORK, NULL, 0)->work = w;
    l->queued += bytes + sizeof(copies) + (size_t)n * sizeof(step);
    return 0;
}

static int compile(kd_backend *be, kd_node *const *node, const int *size, int units, void *work_memory, void **exe, kd_err *err)
{
    late *const l = of(be, COMPILE);
    size_t bytes;
    (void)err;
    work *const w = new_work(units, &bytes);
    for (int i = 0; i < units; node += size[i++]) w->unit[i] = copy_unit(l, node, size[i], work_memory);
    l->works++;
    *exe = w;
    return 0;
}

// All the memory that it uses must still be allocated.
static void check_unit(const late *l, const copies *u)
{
    if (u->bytes) check(l, "scratch", u->scratch - l->storage, u->bytes);
    for (int i = 0; i < u->n; i++)
        for (int v = 0; v < u->step[i].n_val; v++) {
            const kd_val *const c = &u->step[i].val[v];
            if (c->data) check(l, kd_op_name[u->step[i].node.op], (char *)c->data - l->storage, val_bytes(c));
        }
}

static int launch(kd_backend *be, void *exe, kd_err *err)
{
    late *const l = of(be, LAUNCH);
    work *const w = exe;
    (void)err;
    if (l->n[LAUNCH] == l->signal_at) raise(SIGINT);
    for (int i = 0; i < w->n; i++) check_unit(l, w->unit[i]);
    w->refs++;
    queue(l, DO_WORK, NULL, 0)->work = w;
    return 0;
}

static void discard(kd_backend *be, void *exe)
{
    ((late *)be->state)->works--;
    release(exe);                                        // a launch in the queue keeps it
}

static int sync_late(kd_backend *be, kd_err *err) { return finish_and_report(of(be, SYNC), err); }

// Optional entries, which the CPU lacks --------------------------------------------------------------------------------------

static bool keeps(const kd_backend *be, const kd_node *n)
{
    (void)be, (void)n;
    return true;
}

static int readers(kd_node *const *node, int n, const kd_val *v)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < node[i]->n_in; k++) count += node[i]->in[k] == v;
    return count;
}

static bool writes_outside(const kd_node *n)
{
    bool any = false;
    for (int k = 0; k < n->n_out; k++) any = any || n->out[k]->bound || n->out[k]->pinned;
    return any;
}

// Whether node i, of the unit that now ends with node `with`, can be computed in the place of node `last`.
static bool may_wait(kd_node *const *node, const int *unit, int i, int with, int last)
{
    if (writes_outside(node[i])) return false;
    for (int j = i + 1; j < last; j++) {
        if (unit[j] == with) continue;
        if (writes_outside(node[j])) return false;       // it may overwrite what node i reads
        for (int k = 0; k < node[j]->n_in; k++)
            if (node[j]->in[k] && node[j]->in[k]->node == node[i]) return false;
    }
    return true;
}

static void join(kd_node *const *node, int n, int *unit, int last)
{
    const kd_val *const v = node[last]->in[0];
    int from = last - 1, joined = 0;
    if (!v || !v->node || readers(node, n, v) != 1) return;
    while (from >= 0 && node[from] != v->node) from--;
    if (from < 0 || unit[from] != from) return;
    for (int i = 0; i <= from; i++) {
        if (unit[i] != from) continue;
        if (++joined == MAX_JOINED || !may_wait(node, unit, i, from, last)) return;
    }
    for (int i = 0; i <= from; i++)
        if (unit[i] == from) unit[i] = last;
}

/// Joins elementwise nodes with the node that computes their first input, if no other node reads it.
static void group(kd_backend *be, kd_node *const *node, int n, int *unit)
{
    late *const l = be->state;
    for (int i = 0; i < n; i++)
        if (node[i]->op == KD_OP_activate || node[i]->op == KD_OP_scale || node[i]->op == KD_OP_add || node[i]->op == KD_OP_row_mix)
            join(node, n, unit, i);
    for (int i = 0; i < n; i++) l->n[JOINED] += unit[i] != i;
}

// Opening and closing --------------------------------------------------------------------------------------------------------

static void write_stats(const late *l)
{
    const char *const path = getenv("KD_LATE_STATS");
    FILE *const f = path && *path ? fopen(path, "w") : NULL;
    if (path && *path && !f) die("KD_LATE_STATS: %s cannot be written", path);
    for (int i = 0; f && i < COUNTS; i++) fprintf(f, "%s %lld\n", count_name[i], (long long)l->n[i]);
    if (f) fclose(f);
}

static void close_late(kd_backend *be)
{
    late *const l = be->state;
    finish(l);
    if (l->blocks) die("closed with %lld bytes allocated", (long long)l->in_use);
    if (l->mappings) die("closed with memory mapped");
    if (l->works) die("closed with a compiled program");
    write_stats(l);
    munmap(l->space, SPACE);
    munmap(l->space + l->storage, SPACE);
    l->cpu->close(l->cpu);
    free(l);
}

static int64_t number_of(const char *variable)
{
    const char *const text = getenv(variable);
    return text ? strtoll(text, NULL, 10) : 0;
}

static char *reserve(void)
{
    char *const p = mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static int open_late(kd_backend **out, const char *which, kd_err *err)
{
    const bool plain = !strcmp(which, "plain");
    kd_backend *cpu;
    if (*which && !plain) return kd_fail(err, KD_EUSAGE, "--device: expected late.so or late.so:plain, got late.so:%s", which);
    KD_TRY(kd_cpu_open(&cpu, err));
    late *const l = must(calloc(1, sizeof *l));
    char *const storage = reserve();
    l->space = reserve();
    if (!l->space || !storage) die("no room for addresses");
    l->storage = storage - l->space;
    l->cpu = cpu;
    l->page = (size_t)sysconf(_SC_PAGESIZE);
    l->last = &l->first;
    l->fail_at = number_of("KD_LATE_FAIL"), l->break_at = number_of("KD_LATE_BREAK");
    l->signal_at = number_of("KD_LATE_SIGNAL");
    snprintf(l->name, sizeof l->name, "late%s on %s", plain ? " and plain" : "", cpu->name);
    l->be = (kd_backend){ .name = l->name, .async = true, .alloc = alloc_late, .free = free_late, .upload = upload, .download = download,
                          .copy = copy, .fill = fill, .map = map, .unmap = unmap, .in_use = in_use, .supports = supports,
                          .scratch = scratch, .run = run, .sync = sync_late, .close = close_late, .state = l };
    if (!plain) l->be.keeps = keeps, l->be.group = group, l->be.compile = compile, l->be.launch = launch, l->be.discard = discard;
    explain_faults(l);
    *out = &l->be;
    return 0;
}

extern const struct kd_plugin kd_plugin;
const struct kd_plugin kd_plugin = { KD_BACKEND_ABI, kd_ops_hash, open_late };
