// The memory plan. Every value lives from the node that makes it to the last that reads it; inputs and constants live
// throughout. Values whose lives do not meet may share memory; an op that allows it writes over an input that dies there.
// Pinned outputs have their places already: the others fit in before them.
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

// Keeps the nodes that the outputs need, in the order in which they were made, and numbers them.
static void number(kd_plan *plan, kd_graph *g, kd_val *const *outs, int n)
{
    for (int i = 0; i < g->n_val; i++)
        g->val[i]->used = false;
    for (int i = 0; i < n; i++)
        outs[i]->used = true;
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
        if (g->node[i]->number == 0) {
            g->node[i]->number = plan->n;
            plan->node[plan->n++] = g->node[i];
        }
}

// First and last node of each value's life.
static void lives(const kd_plan *plan, kd_graph *g, kd_val *const *outs, int n)
{
    for (int i = 0; i < g->n_val; i++) {
        kd_val *const v = g->val[i];
        v->shares = NULL;
        v->first = v->kind == KD_VAL_RESULT ? v->node->number : -1;
        v->last = v->kind == KD_VAL_RESULT ? v->first : INT_MAX;
    }
    for (int i = 0; i < plan->n; i++)
        for (int k = 0; k < plan->node[i]->n_in; k++) {
            kd_val *const v = plan->node[i]->in[k];
            if (v && v->last < i)
                v->last = i;
        }
    for (int i = 0; i < n; i++)
        outs[i]->last = INT_MAX;
}

// A value with memory in the arena: used, not a parameter, not bound by the caller.
static bool in_arena(const kd_val *v)
{
    return v->used && v->kind != KD_VAL_PARAM && !v->bound && kd_count(v) > 0;
}

static bool may_share(const kd_node *n, int k)
{
    kd_val *const v = n->in[k], *const out = n->out[0];
    if (!v || !in_arena(v) || v->kind != KD_VAL_RESULT || v->last != n->number || kd_val_bytes(v) != kd_val_bytes(out))
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
        if (!in_arena(n->out[0]) || n->out[0]->pinned)
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

int kd_plan_make(kd_plan *plan, kd_graph *g, kd_val *const *outs, int n, kd_err *err)
{
    *plan = (kd_plan){ 0 };
    plan->node = kd_alloc((size_t)g->n_node * sizeof *plan->node + 1);
    plan->root = kd_alloc((size_t)g->n_val * sizeof *plan->root + 1);
    if (!plan->node || !plan->root)
        return kd_fail_memory(err, "a memory plan");
    number(plan, g, outs, n);
    lives(plan, g, outs, n);
    share(plan);
    for (int i = 0; i < g->n_val; i++)
        if (in_arena(g->val[i]) && !g->val[i]->shares)
            plan->root[plan->n_root++] = g->val[i];
    return place(plan, err);
}

void kd_plan_free(kd_plan *plan)
{
    kd_free(plan->node);
    kd_free(plan->root);
    *plan = (kd_plan){ 0 };
}
