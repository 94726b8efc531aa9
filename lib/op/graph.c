// Building graphs: nodes, values, scopes, errors. The gradient is in grad.c, memory in plan.c, running in program.c.
#include "op/graph.h"
#include "base/memory.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KD_OP(name, outs, f32, what) extern const kd_op kd_op_##name;
#include "op/ops.def"
#undef KD_OP
const kd_op *const kd_ops[KD_OPS] = {
#define KD_OP(name, outs, f32, what) [KD_OP_##name] = &kd_op_##name,
#include "op/ops.def"
#undef KD_OP
};

const char *const kd_op_formula[KD_OPS] = {
#define KD_OP(name, outs, f32, what) [KD_OP_##name] = what,
#include "op/ops.def"
#undef KD_OP
};
const char *const kd_op_name[KD_OPS] = {
#define KD_OP(name, outs, f32, what) [KD_OP_##name] = #name,
#include "op/ops.def"
#undef KD_OP
};
static const int outs_of[KD_OPS] = {
#define KD_OP(name, outs, f32, what) [KD_OP_##name] = outs,
#include "op/ops.def"
#undef KD_OP
};

static const unsigned f32_of[KD_OPS] = {
#define KD_OP(name, outs, f32, what) [KD_OP_##name] = f32,
#include "op/ops.def"
#undef KD_OP
};

kd_graph *kd_graph_new(void)
{
    return kd_alloc(sizeof(kd_graph));
}

void kd_graph_for(kd_graph *g, const kd_backend *be)
{
    g->be = be;
}

void kd_graph_compute(kd_graph *g, kd_dtype dtype)
{
    g->compute = dtype;
}

kd_dtype kd_graph_compute_type(const kd_graph *g)
{
    return g->compute;
}

void kd_graph_free(kd_graph *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_node; i++)
        kd_free(g->node[i]);
    for (int i = 0; i < g->n_val; i++) {
        if (g->val[i]->kind == KD_VAL_CONST)
            kd_free(g->val[i]->host);
        kd_free(g->val[i]);
    }
    for (int i = 0; i < g->n_name; i++)
        free(g->name[i]);
    free(g->node);
    free(g->val);
    free(g->name);
    kd_free(g);
}

int kd_graph_error(const kd_graph *g, kd_err *err)
{
    return g->err.code ? kd_fail(err, g->err.code, "%s", g->err.msg) : 0;
}

// Appends a pointer to a list that doubles; false (and the graph's error) without memory.
static bool push(kd_graph *g, void ***list, int *n, int *room, void *item)
{
    if (*n == *room) {
        const int more = *room ? 2 * *room : 64;
        void **p = kd_realloc(*list, (size_t)more * sizeof *p);
        if (!p) {
            kd_fail_memory(&g->err, "a graph");
            return false;
        }
        *list = p;
        *room = more;
    }
    (*list)[(*n)++] = item;
    return true;
}

// Names ------------------------------------------------------------------------------------------------------------

const char *kd_graph_name(kd_graph *g, const char *s)
{
    for (int i = g->n_name - 1; i >= 0 && i >= g->n_name - 8; i--)      // the last few repeat most
        if (!strcmp(g->name[i], s))
            return g->name[i];
    char *copy = kd_strdup(s);
    if (!copy) {
        kd_fail_memory(&g->err, "a graph");
        return NULL;
    }
    if (!push(g, (void ***)&g->name, &g->n_name, &g->room_name, copy)) {
        free(copy);
        return NULL;
    }
    return copy;
}

void kd_scope_push(kd_graph *g, const char *name)
{
    const size_t n = strlen(g->scope);
    const int added = snprintf(g->scope + n, sizeof g->scope - n, "%s%s", n ? "." : "", name);
    assert(n + (size_t)added < sizeof g->scope && g->depth < KD_MAX_SCOPES);
    g->scope_end[g->depth++] = n;
    (void)added;
}

void kd_scope_pushf(kd_graph *g, const char *fmt, ...)
{
    char name[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    kd_scope_push(g, name);
}

void kd_scope_pop(kd_graph *g)
{
    assert(g->depth > 0);
    g->scope[g->scope_end[--g->depth]] = 0;
}

const char *kd_scope_name(kd_graph *g, const char *leaf)
{
    char name[sizeof g->scope + 128];
    snprintf(name, sizeof name, "%s%s%s", g->scope, g->scope[0] ? "." : "", leaf);
    return kd_graph_name(g, name);
}

void kd_block_begin(kd_graph *g)
{
    assert(!g->block && "recompute blocks do not nest");
    g->block = ++g->blocks;
}

void kd_block_end(kd_graph *g)
{
    g->block = 0;
}

// Values and nodes ---------------------------------------------------------------------------------------------------

static kd_val *new_val(kd_graph *g, kd_val_kind kind, kd_dtype dtype, kd_shape shape)
{
    if (g->err.code)
        return NULL;
    kd_val *v = kd_alloc(sizeof *v);
    if (!v || !push(g, (void ***)&g->val, &g->n_val, &g->room_val, v)) {
        kd_free(v);
        kd_fail_memory(&g->err, "a graph");
        return NULL;
    }
    v->kind = kind;
    v->dtype = dtype;
    v->shape = shape;
    return v;
}

static kd_val *new_leaf(kd_graph *g, kd_val_kind kind, const char *name, kd_dtype dtype, kd_shape shape)
{
    kd_val *v = new_val(g, kind, dtype, shape);
    if (v)
        v->name = kd_graph_name(g, name);
    return v;
}

kd_val *kd_input(kd_graph *g, const char *name, kd_dtype dtype, kd_shape shape)
{
    return new_leaf(g, KD_VAL_INPUT, name, dtype, shape);
}

kd_val *kd_feed(kd_graph *g, const char *name, kd_dtype dtype, kd_shape shape)
{
    return new_leaf(g, KD_VAL_FED, name, dtype, shape);
}

kd_val *kd_param_of(kd_graph *g, const char *name, kd_dtype dtype, kd_shape shape)
{
    for (int i = 0; i < g->n_val; i++)
        if (g->val[i]->kind == KD_VAL_PARAM && !strcmp(g->val[i]->name, name)) {
            assert(kd_shape_same(&g->val[i]->shape, &shape) && g->val[i]->dtype == dtype);
            return g->val[i];
        }
    return new_leaf(g, KD_VAL_PARAM, name, dtype, shape);
}

kd_val *kd_param(kd_graph *g, const char *name, kd_shape shape)
{
    return kd_param_of(g, name, KD_F32, shape);
}

kd_val *kd_const_of(kd_graph *g, const char *name, kd_dtype dtype, kd_shape shape, const void *values)
{
    kd_val *v = new_leaf(g, KD_VAL_CONST, name, dtype, shape);
    if (!v)
        return NULL;
    const size_t bytes = (size_t)kd_count(v) * kd_dtype_size(dtype);
    v->host = kd_alloc(bytes);
    if (!v->host)
        return kd_no_memory(g, name);
    if (values)
        memcpy(v->host, values, bytes);
    return v;
}

kd_val *kd_const(kd_graph *g, const char *name, kd_shape shape, const float *values)
{
    return kd_const_of(g, name, KD_F32, shape, values);
}

kd_node *kd_node_new(kd_graph *g, kd_op_id op, int n_in, kd_val *const *in)
{
    assert(n_in <= KD_MAX_IN);
    if (g->err.code)
        return NULL;
    kd_node *n = kd_alloc(sizeof *n);
    if (!n || !push(g, (void ***)&g->node, &g->n_node, &g->room_node, n)) {
        kd_free(n);
        kd_fail_memory(&g->err, "a graph");
        return NULL;
    }
    n->op = op;
    n->name = kd_graph_name(g, g->scope);
    n->n_in = n_in;
    n->n_out = outs_of[op];
    n->block = g->block;
    memcpy(n->in, in, (size_t)n_in * sizeof *in);
    return n;
}

kd_val *kd_node_out_as(kd_graph *g, kd_node *n, int slot, kd_dtype dtype, kd_shape shape)
{
    if (!n)
        return NULL;
    kd_val *v = new_val(g, KD_VAL_RESULT, dtype, shape);
    if (v) {
        v->node = n;
        v->slot = slot;
        n->out[slot] = v;
    }
    return v;
}

kd_val *kd_node_out(kd_graph *g, kd_node *n, int slot, kd_shape shape)
{
    if (!n)
        return NULL;
    return kd_node_out_as(g, n, slot, f32_of[n->op] >> slot & 1 ? KD_F32 : n->in[0]->dtype, shape);
}

bool kd_wants(const kd_node *n, int i)
{
    return i < n->n_in && n->in[i] && n->in[i]->wants;
}

kd_val *kd_sum(kd_graph *g, kd_val *acc, kd_val *x)
{
    return acc ? kd_add(g, acc, x) : x;
}

bool kd_want(kd_graph *g, bool ok, kd_op_id op, const char *expected, int n, kd_val *const *in)
{
    if (g->err.code)
        return false;
    if (ok)
        return true;
    char found[512] = "";
    for (int i = 0, at = 0; i < n; i++) {
        char shape[128] = "none";
        if (in[i])
            kd_shape_str(shape, sizeof shape, &in[i]->shape);
        at += snprintf(found + at, sizeof found - (size_t)at, "%s%s", i ? ", " : "", shape);
        if (at >= (int)sizeof found)
            break;
    }
    kd_fail(&g->err, KD_EUSAGE, "%s%s%s: expected %s, got %s", kd_op_name[op], g->scope[0] ? " " : "", g->scope, expected, found);
    return false;
}

kd_val *kd_no_memory(kd_graph *g, const char *what)
{
    kd_fail_memory(&g->err, what);
    return NULL;
}

int64_t kd_count(const kd_val *v)
{
    return kd_shape_count(&v->shape);
}

int64_t kd_last(const kd_val *v)
{
    return v->shape.n ? v->shape.d[v->shape.n - 1] : 1;
}

int64_t kd_rows(const kd_val *v)
{
    int64_t n = 1;
    for (int i = 0; i + 1 < v->shape.n; i++)
        n *= v->shape.d[i];
    return n;
}

double kd_node_flops(const kd_node *n)
{
    return kd_ops[n->op]->flops ? kd_ops[n->op]->flops(n) : 0;
}

double kd_graph_flops(const kd_graph *g)
{
    double sum = 0;
    for (int i = 0; i < g->n_node; i++)
        sum += kd_node_flops(g->node[i]);
    return sum;
}
