// The memory plan. Every value lives from the unit that computes it to the last one that reads it; inputs and constants
// live throughout, and values that only their own unit reads have no memory. Values that are never live at the same time may
// share memory, and an op that allows it writes over an input that is not read again. Pinned outputs have fixed places: the
// others are placed around them.
#include "op/plan.h"
#include "base/memory.h"
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

int64_t kd_val_bytes(const kd_val *v)
{
    return kd_count(v) * (int64_t)kd_dtype_size(v->dtype);
}

kd_val *kd_plan_root(kd_val *v)
{
    while (v->shares)
        v = v->shares;
    return v;
}

// Keeps the nodes that the outputs need, in the order in which they were made.
static void keep(kd_plan *plan, kd_graph *g, kd_val *const *outs, int n)
{
    for (int i = 0; i < g->n_val; i++)
        g->val[i]->used = g->val[i]->inner = g->val[i]->output = false;
    for (int i = 0; i < n; i++)
        outs[i]->used = outs[i]->output = true;
    plan->n = 0;
    for (int i = g->n_node - 1; i >= 0; i--) {          // a node's readers come after it
        kd_node *const node = g->node[i];
        bool needed = false;
        for (int k = 0; k < node->n_out; k++)
            needed = needed || node->out[k]->used;
        node->number = needed ? 0 : -1;
        for (int k = 0; needed && k < node->n_in; k++)
            if (node->in[k])
                node->in[k]->used = true;
    }
    for (int i = 0; i < g->n_node; i++)
        if (g->node[i]->number == 0)
            plan->node[plan->n++] = g->node[i];
}

// The type that a missing kernel is missing for: the first short float, else that of the first value.
static kd_dtype type_of(const kd_node *n)
{
    const kd_val *first = NULL;
    for (int k = 0; k < n->n_in + n->n_out; k++) {
        const kd_val *const v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
        if (v && (v->dtype == KD_BF16 || v->dtype == KD_F16))
            return v->dtype;
        first = first ? first : v;
    }
    return first->dtype;
}

static int check_supported(const kd_plan *plan, const kd_backend *be, kd_err *err)
{
    for (int i = 0; i < plan->n; i++) {
        const kd_node *const n = plan->node[i];
        if (!be->supports(be, n))
            return kd_fail(err, KD_EFAIL, "%s has no kernel for %s of %s%s%s", be->name, kd_op_name[n->op],
                           kd_dtype_name(type_of(n)), *n->name ? " in layer " : "", n->name);
    }
    return 0;
}

// Units ------------------------------------------------------------------------------------------------------------

static bool reads_from(const kd_node *n, const kd_node *from)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && n->in[k]->node == from)
            return true;
    return false;
}

static bool is_bound(const kd_val *v) { return v && v->bound && v->data; }

static bool overlap(const kd_val *a, const kd_val *b)
{
    const char *const p = a->data, *const q = b->data;
    return is_bound(a) && is_bound(b) && p < q + kd_val_bytes(b) && q < p + kd_val_bytes(a);
}

// Whether a node with a bound output may write over bound memory that another uses: its bound inputs count as written.
static bool writes_over(const kd_node *writer, const kd_node *n)
{
    bool writes = false;
    for (int k = 0; k < writer->n_out; k++)
        writes = writes || is_bound(writer->out[k]);
    for (int i = 0; writes && i < writer->n_in + writer->n_out; i++) {
        const kd_val *const v = i < writer->n_in ? writer->in[i] : writer->out[i - writer->n_in];
        for (int k = 0; v && k < n->n_in + n->n_out; k++) {
            const kd_val *const u = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
            if (u && overlap(v, u))
                return true;
        }
    }
    return false;
}

// The contract of kd_backend.group: moved to the place of its unit's last node, node i still comes before all its readers.
// (flatten reads every pinned value, without having them as inputs.)
static bool may_move(const kd_plan *plan, const int *unit, int i)
{
    bool pinned = false;
    for (int k = 0; k < plan->node[i]->n_out; k++)
        pinned = pinned || plan->node[i]->out[k]->pinned;
    for (int j = i + 1; j < unit[i]; j++)
        if (unit[j] != unit[i] &&
            (reads_from(plan->node[j], plan->node[i]) || writes_over(plan->node[j], plan->node[i])
             || (pinned && plan->node[j]->op == KD_OP_flatten)))
            return false;
    return true;
}

// Asks the backend which nodes it joins, brings the nodes of a unit together and numbers the units.
static int make_units(kd_plan *plan, kd_backend *be, kd_err *err)
{
    int *const unit = kd_alloc(((size_t)plan->n + 1) * sizeof *unit);
    kd_node **const order = kd_alloc(((size_t)plan->n + 1) * sizeof *order);
    int placed = 0;
    if (!unit || !order) {
        kd_free(unit);
        kd_free(order);
        return kd_fail_memory(err, "a memory plan");
    }
    for (int i = 0; i < plan->n; i++)
        unit[i] = i;
    if (be->group)
        be->group(be, plan->node, plan->n, unit);
    for (int last = 0; last < plan->n; last++) {
        if (unit[last] != last)
            continue;
        const int first = placed;
        for (int i = 0; i <= last; i++)
            if (unit[i] == last) {
                assert(may_move(plan, unit, i) && "a unit that cannot be computed in one place");
                plan->node[i]->number = plan->units;
                order[placed++] = plan->node[i];
            }
        plan->size[plan->units++] = placed - first;
    }
    assert(placed == plan->n && "unit[unit[i]] is unit[i]");
    memcpy(plan->node, order, (size_t)plan->n * sizeof *order);
    kd_free(unit);
    kd_free(order);
    return 0;
}

// Lives ------------------------------------------------------------------------------------------------------------

// The first and last unit of each value's life.
static void lives(const kd_plan *plan, kd_graph *g, kd_val *const *outs, int n)
{
    for (int i = 0; i < g->n_val; i++) {
        kd_val *const v = g->val[i];
        v->shares = NULL;
        v->first = v->kind == KD_VAL_RESULT ? v->node->number : -1;
        v->last = v->kind == KD_VAL_INPUT || v->kind == KD_VAL_CONST ? INT_MAX : v->first;
        v->inner = v->kind == KD_VAL_RESULT && v->used;
    }
    for (int i = 0; i < plan->n; i++)
        for (int k = 0; k < plan->node[i]->n_in; k++) {
            kd_val *const v = plan->node[i]->in[k];
            const int number = plan->node[i]->number;
            if (v && v->last < number)
                v->last = number;
            if (v && v->first != number)
                v->inner = false;
        }
    for (int i = 0; i < n; i++)
        outs[i]->last = INT_MAX, outs[i]->inner = false;
}

bool kd_plan_is_input(const kd_val *v)
{
    return v->used && v->kind == KD_VAL_INPUT && !v->bound;
}

// A value with memory in the arena.
static bool in_arena(const kd_val *v)
{
    return v->used && !v->inner && !v->bound && v->kind != KD_VAL_PARAM && v->kind != KD_VAL_INPUT && kd_count(v) > 0;
}

static bool may_share(const kd_node *n, int k)
{
    kd_val *const v = n->in[k], *const out = n->out[0];
    if (!v || !in_arena(v) || v->last != n->number || v->dtype != out->dtype || kd_count(v) != kd_count(out))
        return false;
    for (int j = 0; j < n->n_in; j++)
        if (j != k && n->in[j] && in_arena(n->in[j]) && kd_plan_root(n->in[j]) == kd_plan_root(v))
            return false;                               // read twice: a kernel may not write over it
    return true;
}

static void share(const kd_plan *plan)
{
    for (int i = 0; i < plan->n; i++) {
        kd_node *const n = plan->node[i];
        if (plan->size[n->number] > 1 || !in_arena(n->out[0]) || n->out[0]->pinned)
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (kd_ops[n->op]->in_place & 1u << k && may_share(n, k)) {
                n->out[0]->shares = n->in[k];
                kd_val *const root = kd_plan_root(n->in[k]);
                if (n->out[0]->last > root->last)
                    root->last = n->out[0]->last;
                break;
            }
    }
}

// Orders in which values get their places; pinned ones come before all.
static int by_number(double x, double y, const kd_val *a, const kd_val *b)
{
    if (a->pinned != b->pinned)
        return b->pinned - a->pinned;
    return x != y ? (x < y) - (x > y) : a->first != b->first ? (a->first > b->first) - (a->first < b->first) : a->slot - b->slot;
}

static double life(const kd_val *v) { return (double)v->last - v->first; }
static double size(const kd_val *v) { return (double)kd_val_bytes(v); }

#define ORDER(name, number) \
    static int name(const void *a, const void *b) \
    { \
        const kd_val *const x = *(kd_val *const *)a, *const y = *(kd_val *const *)b; \
        return by_number(number(x), number(y), x, y); \
    }
static double weight(const kd_val *v) { return life(v) * size(v); }
ORDER(largest_first, size)
ORDER(longest_first, life)
ORDER(heaviest_first, weight)
static int (*const orders[])(const void *, const void *) = { largest_first, longest_first, heaviest_first };
enum { ORDERS = sizeof orders / sizeof *orders };

static int64_t place_bytes(const kd_val *v)
{
    return (kd_val_bytes(v) + KD_ALIGN - 1) / KD_ALIGN * KD_ALIGN;
}

// The lowest place for v that is free throughout its life, among n values by their places.
static int64_t lowest(kd_val *const *placed, int n, const kd_val *v)
{
    int64_t offset = 0;
    for (int j = 0; j < n && placed[j]->offset < offset + place_bytes(v); j++)
        if (placed[j]->first <= v->last && v->first <= placed[j]->last && placed[j]->offset + place_bytes(placed[j]) > offset)
            offset = placed[j]->offset + place_bytes(placed[j]);
    return offset;
}

// Each at its lowest place, in this order. Quadratic, and near the lower bound. placed: room for all.
static void place_by(int order, kd_plan *plan, kd_val **placed)
{
    qsort(plan->root, (size_t)plan->n_root, sizeof *plan->root, orders[order]);
    plan->arena = 0;
    for (int i = 0; i < plan->n_root; i++) {
        kd_val *const v = plan->root[i];
        if (!v->pinned)
            v->offset = lowest(placed, i, v);
        if (v->offset + place_bytes(v) > plan->arena)
            plan->arena = v->offset + place_bytes(v);
        int k = i;
        for (; k > 0 && placed[k - 1]->offset > v->offset; k--)
            placed[k] = placed[k - 1];
        placed[k] = v;
    }
}

// In the order that needs the least.
static int place(kd_plan *plan, kd_err *err)
{
    kd_val **const placed = kd_alloc((size_t)plan->n_root * sizeof *placed + 1);
    if (!placed)
        return kd_fail_memory(err, "a memory plan");
    int best = 0;
    int64_t least = INT64_MAX;
    for (int order = 0; order < ORDERS; order++) {
        place_by(order, plan, placed);
        if (plan->arena < least)
            best = order, least = plan->arena;
    }
    place_by(best, plan, placed);
    kd_free(placed);
    return 0;
}

// Inputs lie together, in the order in which they were made: what the host sets is sent in one copy.
static void place_inputs(kd_plan *plan, kd_graph *g)
{
    for (int i = 0; i < g->n_val; i++) {
        kd_val *const v = g->val[i];
        if (!kd_plan_is_input(v))
            continue;
        v->offset = plan->inputs;
        plan->inputs += place_bytes(v);
    }
}

int kd_plan_make(kd_plan *plan, kd_graph *g, kd_backend *be, kd_val *const *outs, int n, kd_err *err)
{
    *plan = (kd_plan){ 0 };
    plan->node = kd_alloc((size_t)g->n_node * sizeof *plan->node + 1);
    plan->size = kd_alloc((size_t)g->n_node * sizeof *plan->size + 1);
    plan->root = kd_alloc((size_t)g->n_val * sizeof *plan->root + 1);
    if (!plan->node || !plan->size || !plan->root)
        return kd_fail_memory(err, "a memory plan");
    keep(plan, g, outs, n);
    KD_TRY(check_supported(plan, be, err));
    KD_TRY(make_units(plan, be, err));
    lives(plan, g, outs, n);
    share(plan);
    for (int i = 0; i < g->n_val; i++)
        if (in_arena(g->val[i]) && !g->val[i]->shares)
            plan->root[plan->n_root++] = g->val[i];
    place_inputs(plan, g);
    return place(plan, err);
}

void kd_plan_free(kd_plan *plan)
{
    kd_free(plan->node);
    kd_free(plan->size);
    kd_free(plan->root);
    *plan = (kd_plan){ 0 };
}
