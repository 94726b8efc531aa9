// Running programs: the arena, uploads and downloads, nodes in order, and the profile.
#include "op/program.h"
#include "base/memory.h"
#include "base/talk.h"
#include "op/plan.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct kd_program {
    kd_graph *g;
    kd_backend *be;
    kd_plan plan;
    int64_t scratch_bytes;
    char *arena;
    void *scratch;
    bool ready, profile;
    struct { double seconds; int64_t runs; } spent[KD_OPS];
};

int kd_program_new(kd_program **out, kd_graph *g, kd_backend *be, kd_val *const *outs, int n, kd_err *err)
{
    *out = NULL;
    kd_program *p = NULL;
    int rc = kd_graph_error(g, err);
    if (!rc && !(p = kd_alloc(sizeof *p)))
        rc = kd_fail_memory(err, "a program");
    if (rc) {
        kd_graph_free(g);
        return rc;
    }
    p->g = g;
    p->be = be;
    if ((rc = kd_plan_make(&p->plan, g, outs, n, err))) {
        kd_program_free(p);
        return rc;
    }
    for (int i = 0; i < p->plan.n; i++) {
        const int64_t need = (int64_t)be->scratch(be, p->plan.node[i]);
        if (need > p->scratch_bytes)
            p->scratch_bytes = need;
    }
    *out = p;
    return 0;
}

void kd_program_free(kd_program *p)
{
    if (!p)
        return;
    if (p->arena)
        p->be->free(p->be, p->arena);
    if (p->scratch)
        p->be->free(p->be, p->scratch);
    kd_plan_free(&p->plan);
    kd_graph_free(p->g);
    kd_free(p);
}

int64_t kd_program_bytes(const kd_program *p)
{
    return p->plan.arena + p->scratch_bytes;
}

double kd_program_flops(const kd_program *p)
{
    double sum = 0;
    for (int i = 0; i < p->plan.n; i++)
        sum += kd_node_flops(p->plan.node[i]);
    return sum;
}

void kd_bind(kd_val *v, void *data)
{
    v->data = data;
    v->bound = true;
}

void kd_pin(kd_val *v, int64_t offset)
{
    assert(offset % KD_ALIGN == 0 && "kernels read aligned arrays");
    v->pinned = true;
    v->offset = offset;
}

void *kd_program_pinned(kd_program *p, kd_err *err)
{
    return kd_program_ready(p, err) ? NULL : p->arena;
}

int kd_program_ready(kd_program *p, kd_err *err)
{
    kd_backend *const be = p->be;
    if (p->ready)
        return 0;
    if (p->plan.arena && !p->arena)
        KD_TRY(be->alloc(be, (void **)&p->arena, (size_t)p->plan.arena, err));
    if (p->scratch_bytes && !p->scratch)
        KD_TRY(be->alloc(be, &p->scratch, (size_t)p->scratch_bytes, err));
    for (int i = 0; i < p->g->n_val; i++) {
        kd_val *const v = p->g->val[i];
        if (v->bound || !v->used)
            continue;
        assert(v->kind != KD_VAL_PARAM && "parameters are bound before a program runs");
        v->data = p->arena + kd_plan_root(v)->offset;
        if (v->kind == KD_VAL_CONST)
            KD_TRY(be->upload(be, v->data, v->host, (size_t)kd_val_bytes(v), err));
    }
    p->ready = true;
    return 0;
}

// Values of an index that would be read outside of its table.
static int check_below(const kd_val *input, const int64_t *value, kd_err *err)
{
    const int64_t count = input->below ? kd_count(input) : 0;
    for (int64_t i = 0; i < count; i++)
        if (value[i] < 0 || value[i] >= input->below)
            return kd_fail(err, KD_EUSAGE, "%s: image %lld: expected 0 to %lld, got %lld", input->name, (long long)i,
                           (long long)input->below - 1, (long long)value[i]);
    return 0;
}

int kd_program_set(kd_program *p, kd_val *input, const void *host, kd_err *err)
{
    KD_TRY(kd_program_ready(p, err));
    if (!input->used)
        return 0;
    KD_TRY(check_below(input, host, err));
    return p->be->upload(p->be, input->data, host, (size_t)kd_val_bytes(input), err);
}

int kd_program_run(kd_program *p, kd_err *err)
{
    KD_TRY(kd_program_ready(p, err));
    for (int i = 0; i < p->plan.n; i++) {
        const kd_node *const n = p->plan.node[i];
        const double start = p->profile ? kd_clock() : 0;
        KD_TRY(p->be->run(p->be, n, p->scratch, err));
        if (p->profile) {
            KD_TRY(p->be->sync(p->be, err));
            p->spent[n->op].seconds += kd_clock() - start;
            p->spent[n->op].runs++;
        }
    }
    return p->be->sync(p->be, err);
}

int kd_program_get(kd_program *p, const kd_val *v, void *host, kd_err *err)
{
    return p->be->download(p->be, host, v->data, (size_t)kd_val_bytes(v), err);
}

// The profile --------------------------------------------------------------------------------------------------------

void kd_program_profile(kd_program *p, bool on)
{
    p->profile = on;
    if (on)
        memset(p->spent, 0, sizeof p->spent);
}

// Bytes a node must move at best: each input and used output once.
static double node_bytes(const kd_node *n)
{
    double sum = 0;
    for (int i = 0; i < n->n_in; i++)
        sum += n->in[i] ? (double)kd_val_bytes(n->in[i]) : 0;
    for (int i = 0; i < n->n_out; i++)
        sum += n->out[i]->used ? (double)kd_val_bytes(n->out[i]) : 0;
    return sum;
}

typedef struct row { kd_op_id op; double seconds, flops, bytes; int64_t runs; } row;

static int slower_first(const void *a, const void *b)
{
    const row *const x = a, *const y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

int kd_program_profile_print(const kd_program *p, FILE *to)
{
    row rows[KD_OPS] = { { 0 } };
    int64_t nodes[KD_OPS] = { 0 };
    double total = 0;
    for (int i = 0; i < p->plan.n; i++) {
        const kd_node *const n = p->plan.node[i];
        nodes[n->op]++;
        rows[n->op].flops += kd_node_flops(n);
        rows[n->op].bytes += node_bytes(n);
    }
    for (int i = 0; i < KD_OPS; i++) {
        rows[i].op = (kd_op_id)i;
        rows[i].seconds = p->spent[i].seconds;
        rows[i].runs = p->spent[i].runs;
        total += rows[i].seconds;
    }
    qsort(rows, KD_OPS, sizeof *rows, slower_first);
    fprintf(to, "%-18s %8s %10s %6s %9s %8s\n", "op", "calls", "seconds", "%", "GFLOP/s", "GB/s");
    for (int i = 0; i < KD_OPS && rows[i].runs; i++) {
        const double passes = (double)rows[i].runs / (double)nodes[rows[i].op], s = rows[i].seconds;
        fprintf(to, "%-18s %8lld %10.3f %6.1f %9.1f %8.2f\n", kd_op_name[rows[i].op], (long long)rows[i].runs, s,
                total > 0 ? 100 * s / total : 0, s > 0 ? rows[i].flops * passes / s * 1e-9 : 0,
                s > 0 ? rows[i].bytes * passes / s * 1e-9 : 0);
    }
    fprintf(to, "%-18s %8s %10.3f\n", "all", "", total);
    return 0;
}
