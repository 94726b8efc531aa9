// Running programs: memory, inputs and outputs, units in order, and the profile.
#include "op/program.h"
#include "base/memory.h"
#include "base/parallel.h"
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
    int threads;                       // that scratch was sized for
    char *inputs, *arena;              // on the backend
    void *scratch;
    char *staging;                     // inputs as the host sees them: the block itself, mapped, or a mirror of it
    bool in_place;
    int64_t set_from, set_to;          // bytes of the mirror that were set since the last run
    void *exe;                         // compiled, if the backend compiles
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
    p->threads = kd_threads();
    p->in_place = be->adopt != NULL;
    assert(!(be->adopt && be->async) && "what adopts computes at once");
    if ((rc = kd_plan_make(&p->plan, g, be, outs, n, err))) {
        kd_program_free(p);
        return rc;
    }
    for (int i = 0, unit = 0; unit < p->plan.units; i += p->plan.size[unit++]) {
        const int64_t need = (int64_t)be->scratch(be, p->plan.node + i, p->plan.size[unit]);
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
    if (p->exe)
        p->be->discard(p->be, p->exe);
    if (p->in_place && p->staging)
        p->be->unmap(p->be, p->staging, &(kd_err){ 0 });
    else
        kd_free(p->staging);
    void *const blocks[] = { p->inputs, p->arena, p->scratch };
    for (int i = 0; i < 3; i++)
        if (blocks[i])
            p->be->free(p->be, blocks[i]);
    kd_plan_free(&p->plan);
    kd_graph_free(p->g);
    kd_free(p);
}

int64_t kd_program_bytes(const kd_program *p)
{
    return p->plan.inputs + p->plan.arena + p->scratch_bytes;
}

int64_t kd_program_host_bytes(const kd_program *p)
{
    return p->in_place ? 0 : p->plan.inputs;
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

// Memory -------------------------------------------------------------------------------------------------------------

// Where the host writes inputs: a backend that computes in the host's memory lets it write to the block itself.
static int open_staging(kd_program *p, kd_err *err)
{
    const size_t bytes = (size_t)p->plan.inputs;
    p->set_from = p->plan.inputs;
    if (p->in_place)
        return p->be->map(p->be, p->inputs, bytes, KD_MAP_READ | KD_MAP_WRITE, (void **)&p->staging, err);
    p->staging = kd_alloc(bytes);
    return p->staging ? 0 : kd_fail_memory(err, "a program's inputs");
}

static int get_memory(kd_program *p, kd_err *err)
{
    kd_backend *const be = p->be;
    if (p->plan.inputs && !p->inputs)
        KD_TRY(be->alloc(be, (void **)&p->inputs, (size_t)p->plan.inputs, err));
    if (p->plan.inputs && !p->staging)
        KD_TRY(open_staging(p, err));
    if (p->plan.arena && !p->arena)
        KD_TRY(be->alloc(be, (void **)&p->arena, (size_t)p->plan.arena, err));
    if (p->scratch_bytes && !p->scratch)
        KD_TRY(be->alloc(be, &p->scratch, (size_t)p->scratch_bytes, err));
    return 0;
}

int kd_program_ready(kd_program *p, kd_err *err)
{
    if (p->ready)
        return 0;
    KD_TRY(get_memory(p, err));
    for (int i = 0; i < p->g->n_val; i++) {
        kd_val *const v = p->g->val[i];
        if (v->bound || !v->used || v->inner)
            continue;
        assert(v->kind != KD_VAL_PARAM && "parameters are bound before a program runs");
        v->data = kd_plan_is_input(v) ? p->inputs + v->offset : p->arena + kd_plan_root(v)->offset;
        if (v->kind == KD_VAL_CONST)
            KD_TRY(p->be->upload(p->be, v->data, v->host, (size_t)kd_val_bytes(v), err));
    }
    p->ready = true;
    return 0;
}

// Inputs and outputs ---------------------------------------------------------------------------------------------------

static int check_indices(const kd_val *v, const int64_t *index, kd_err *err)
{
    for (int64_t i = 0; v->below && i < kd_count(v); i++)
        if (index[i] < 0 || index[i] >= v->below)
            return kd_fail(err, KD_EUSAGE, "%s: image %lld: expected 0 to %lld, got %lld", v->name, (long long)i,
                           (long long)v->below - 1, (long long)index[i]);
    return 0;
}

static int input_at(kd_program *p, const kd_val *input, void **host, kd_err *err)
{
    *host = NULL;
    KD_TRY(kd_program_ready(p, err));
    if (!input || !kd_plan_is_input(input))
        return 0;
    const int64_t end = input->offset + kd_val_bytes(input);
    p->set_from = input->offset < p->set_from ? input->offset : p->set_from;
    p->set_to = end > p->set_to ? end : p->set_to;
    *host = p->staging + input->offset;
    return 0;
}

int kd_program_at(kd_program *p, kd_val *input, void **host, kd_err *err)
{
    assert(!(input && input->below) && "indices are checked by kd_program_set");
    return input_at(p, input, host, err);
}

int kd_program_set(kd_program *p, kd_val *v, const void *host, kd_err *err)
{
    void *at;
    assert((v->kind == KD_VAL_INPUT || v->kind == KD_VAL_FED) && "neither an input nor fed");
    KD_TRY(kd_program_ready(p, err));
    if (!v->used)
        return 0;
    KD_TRY(check_indices(v, host, err));
    v->fed = true;
    if (v->kind == KD_VAL_FED)
        return p->be->upload(p->be, v->data, host, (size_t)kd_val_bytes(v), err);
    KD_TRY(input_at(p, v, &at, err));
    memcpy(at, host, (size_t)kd_val_bytes(v));
    return 0;
}

int kd_program_feed(kd_program *p, kd_val *fed, const void *from, kd_err *err)
{
    assert(fed->kind == KD_VAL_FED);
    KD_TRY(kd_program_ready(p, err));
    fed->fed = true;
    return fed->used ? p->be->copy(p->be, fed->data, from, (size_t)kd_val_bytes(fed), err) : 0;
}

int kd_program_get(kd_program *p, const kd_val *v, void *host, kd_err *err)
{
    return p->be->download(p->be, host, v->data, (size_t)kd_val_bytes(v), err);
}

int kd_program_take(kd_program *p, const kd_val *v, void *to, kd_err *err)
{
    return p->be->copy(p->be, to, v->data, (size_t)kd_val_bytes(v), err);
}

// Running --------------------------------------------------------------------------------------------------------------

static int send_inputs(kd_program *p, kd_err *err)
{
    const int64_t from = p->set_from, bytes = p->set_to - from;
    if (!p->staging || p->in_place || bytes <= 0)
        return 0;
    KD_TRY(p->be->upload(p->be, p->inputs + from, p->staging + from, (size_t)bytes, err));
    p->set_from = p->plan.inputs, p->set_to = 0;
    return 0;
}

// Fed values are there for one run: their memory serves others afterwards.
static void take_fed(kd_program *p)
{
    for (int i = 0; i < p->g->n_val; i++) {
        kd_val *const v = p->g->val[i];
        if (v->kind != KD_VAL_FED || !v->used)
            continue;
        assert(v->fed && "fed before each run");
        v->fed = false;
    }
}

static int run_measured(kd_program *p, kd_node *const *node, int n, kd_err *err)
{
    const double start = kd_clock();
    KD_TRY(p->be->run(p->be, node, n, p->scratch, err));
    KD_TRY(p->be->sync(p->be, err));
    const kd_op_id op = node[n - 1]->op;
    p->spent[op].seconds += kd_clock() - start;
    p->spent[op].runs++;
    return 0;
}

int kd_program_run(kd_program *p, kd_err *err)
{
    kd_backend *const be = p->be;
    const kd_plan *const plan = &p->plan;
    assert(p->threads == kd_threads() && "scratch was sized for another number of threads");
    KD_TRY(kd_program_ready(p, err));
    take_fed(p);
    KD_TRY(send_inputs(p, err));
    if (be->compile && !p->profile) {
        if (!p->exe)
            KD_TRY(be->compile(be, plan->node, plan->size, plan->units, p->scratch, &p->exe, err));
        return be->launch(be, p->exe, err);
    }
    for (int i = 0, unit = 0; unit < plan->units; i += plan->size[unit++]) {
        if (p->profile)
            KD_TRY(run_measured(p, plan->node + i, plan->size[unit], err));
        else
            KD_TRY(be->run(be, plan->node + i, plan->size[unit], p->scratch, err));
    }
    return 0;
}

// The profile --------------------------------------------------------------------------------------------------------

void kd_program_profile(kd_program *p, bool on)
{
    p->profile = on;
    if (on)
        memset(p->spent, 0, sizeof p->spent);
}

// Bytes a unit must move at best: each value that it does not keep to itself once.
static double unit_bytes(kd_node *const *node, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < node[i]->n_in; k++)
            sum += node[i]->in[k] && !node[i]->in[k]->inner ? (double)kd_val_bytes(node[i]->in[k]) : 0;
        for (int k = 0; k < node[i]->n_out; k++)
            sum += node[i]->out[k]->used && !node[i]->out[k]->inner ? (double)kd_val_bytes(node[i]->out[k]) : 0;
    }
    return sum;
}

typedef struct row { kd_op_id op; double seconds, flops, bytes; int64_t runs; } row;

static int slower_first(const void *a, const void *b)
{
    const row *const x = a, *const y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

// Adds what one program spent to the rows of its ops. A unit counts for its last op.
static void add_rows(row rows[KD_OPS], const kd_program *p)
{
    int64_t units[KD_OPS] = { 0 };
    kd_node *const *const node = p->plan.node;
    for (int i = -1, u = 0; u < p->plan.units; u++)
        units[node[i += p->plan.size[u]]->op]++;
    for (int i = 0, u = 0; u < p->plan.units; i += p->plan.size[u++]) {
        const int n = p->plan.size[u];
        const kd_op_id op = node[i + n - 1]->op;
        const double passes = (double)p->spent[op].runs / (double)units[op];
        for (int k = 0; k < n; k++)
            rows[op].flops += kd_node_flops(node[i + k]) * passes;
        rows[op].bytes += unit_bytes(node + i, n) * passes;
    }
    for (int i = 0; i < KD_OPS; i++) {
        rows[i].seconds += p->spent[i].seconds;
        rows[i].runs += p->spent[i].runs;
    }
}

int kd_program_profile_print(kd_program *const *p, int n, FILE *to)
{
    row rows[KD_OPS] = { { 0 } };
    double total = 0;
    for (int i = 0; i < KD_OPS; i++)
        rows[i].op = (kd_op_id)i;
    for (int k = 0; k < n; k++)
        add_rows(rows, p[k]);
    for (int i = 0; i < KD_OPS; i++)
        total += rows[i].seconds;
    qsort(rows, KD_OPS, sizeof *rows, slower_first);
    fprintf(to, "%-18s %8s %10s %6s %9s %8s\n", "op", "calls", "seconds", "%", "GFLOP/s", "GB/s");
    for (int i = 0; i < KD_OPS && rows[i].runs; i++) {
        const double s = rows[i].seconds;
        fprintf(to, "%-18s %8lld %10.3f %6.1f %9.1f %8.2f\n", kd_op_name[rows[i].op], (long long)rows[i].runs, s,
                total > 0 ? 100 * s / total : 0, s > 0 ? rows[i].flops / s * 1e-9 : 0, s > 0 ? rows[i].bytes / s * 1e-9 : 0);
    }
    fprintf(to, "%-18s %8s %10.3f\n", "all", "", total);
    return 0;
}
