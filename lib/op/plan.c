// The memory plan. Every value lives from the node that makes it to the last that reads it; inputs and constants live
// throughout. Values whose lives do not meet may share memory; an op that allows it writes over an input that dies there.
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
        if (!in_arena(n->out[0]))
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

static int larger_first(const void *a, const void *b)
{
    const kd_val *const x = *(kd_val *const *)a, *const y = *(kd_val *const *)b;
    const int64_t p = kd_val_bytes(x), q = kd_val_bytes(y);
    return p != q ? (p < q) - (p > q) : x->first != y->first ? (x->first > y->first) - (x->first < y->first) : x->slot - y->slot;
}

static int lower_first(const void *a, const void *b)
{
    const kd_val *const x = *(kd_val *const *)a, *const y = *(kd_val *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int64_t place_bytes(const kd_val *v)
{
    return (kd_val_bytes(v) + KD_ALIGN - 1) / KD_ALIGN * KD_ALIGN;
}

// Largest first, each at the lowest place that is free throughout its life. Quadratic, and near the lower bound.
static int place(kd_plan *plan, kd_err *err)
{
    kd_val **const busy = kd_alloc((size_t)plan->n_root * sizeof *busy + 1);
    if (!busy)
        return kd_fail_memory(err, "a memory plan");
    qsort(plan->root, (size_t)plan->n_root, sizeof *plan->root, larger_first);
    plan->arena = 0;
    for (int i = 0; i < plan->n_root; i++) {
        kd_val *const v = plan->root[i];
        int n = 0;
        for (int j = 0; j < i; j++)
            if (plan->root[j]->first <= v->last && v->first <= plan->root[j]->last)
                busy[n++] = plan->root[j];
        qsort(busy, (size_t)n, sizeof *busy, lower_first);
        v->offset = 0;
        for (int j = 0; j < n && busy[j]->offset < v->offset + place_bytes(v); j++)
            if (busy[j]->offset + place_bytes(busy[j]) > v->offset)
                v->offset = busy[j]->offset + place_bytes(busy[j]);
        if (v->offset + place_bytes(v) > plan->arena)
            plan->arena = v->offset + place_bytes(v);
    }
    kd_free(busy);
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
