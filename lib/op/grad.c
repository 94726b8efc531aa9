// The gradient as more nodes: a walk back over the graph, each op's rule says which. Recompute blocks are repeated here, and
// cheap ops whose outputs gradients read: so those outputs need not be kept.
#include "op/graph.h"
#include <assert.h>
#include <string.h>

// Marks the values between the targets and y: an output is wanted if an input is and the op passes gradients.
static void mark(kd_graph *g, kd_val *const *wrt, int n)
{
    for (int i = 0; i < g->n_val; i++) {
        g->val[i]->wants = false;
        g->val[i]->grad = NULL;
    }
    for (int i = 0; i < n; i++)
        wrt[i]->wants = true;
    for (int i = 0; i < g->n_node; i++) {
        kd_node *const node = g->node[i];
        node->again = NULL;
        bool any = false;
        for (int k = 0; k < node->n_in && !any; k++)
            any = kd_wants(node, k);
        if (any && kd_ops[node->op]->grad)
            for (int k = 0; k < node->n_out; k++)
                node->out[k]->wants = true;
    }
}

// Makes a node once more, over these inputs.
static kd_node *repeat(kd_graph *g, kd_node *n, kd_val *const *in)
{
    kd_node *again = kd_node_new(g, n->op, n->n_in, in);
    if (!again)
        return NULL;
    again->name = n->name;
    again->a = n->a;
    for (int k = 0; k < n->n_out; k++) {
        kd_val *v = kd_node_out_as(g, again, k, n->out[k]->dtype, n->out[k]->shape);
        if (!v)
            return NULL;
        v->wants = n->out[k]->wants;
    }
    return n->again = again;
}

// The node that the gradient of n sees: n itself, or, inside a recompute block, a copy of it whose inputs are copies
// as far as they lie in the block too. A copy keeps its name and attributes, so dropout draws the same numbers. What
// nobody reads of a copy is dropped by the program.
static kd_node *seen(kd_graph *g, kd_node *n);

static kd_val *seen_value(kd_graph *g, kd_val *v, int block)
{
    if (!v || !v->node || v->node->block != block)
        return v;
    kd_node *again = seen(g, v->node);
    return again ? again->out[v->slot] : NULL;
}

static kd_node *seen(kd_graph *g, kd_node *n)
{
    if (!n->block)
        return n;
    if (n->again)
        return n->again;
    kd_val *in[KD_MAX_IN];
    for (int i = 0; i < n->n_in; i++)
        in[i] = seen_value(g, n->in[i], n->block);
    return repeat(g, n, in);
}

// What the gradient of a kept node reads as its input v: v itself, or, from a cheap op, v computed again just before.
static kd_val *read_value(kd_graph *g, kd_val *v)
{
    kd_node *const n = v ? v->node : NULL;
    if (!n || n->block || v->slot != 0 || !kd_ops[n->op]->cheap || (g->be && g->be->keeps && g->be->keeps(g->be, n)))
        return v;
    kd_val *in[KD_MAX_IN];
    for (int i = 0; !n->again && i < n->n_in; i++)
        in[i] = read_value(g, n->in[i]);
    const kd_node *again = n->again ? n->again : repeat(g, n, in);
    return again ? again->out[0] : NULL;
}

// The node as its gradient's rule sees it.
static bool view(kd_graph *g, kd_node *n, kd_node *to)
{
    const kd_node *const s = seen(g, n);
    if (!s)
        return false;
    *to = *s;
    for (int i = 0; s == n && i < n->n_in; i++)
        if (n->in[i] && !(to->in[i] = read_value(g, n->in[i])))
            return false;
    return true;
}

// Calls the rule of one node and stores what it adds to its inputs' gradients.
static void node_grad(kd_graph *g, kd_node *n)
{
    kd_val *dy[KD_MAX_OUT], *dx[KD_MAX_IN] = { 0 };
    bool any = false;
    for (int k = 0; k < n->n_out; k++) {
        dy[k] = n->out[k]->grad;
        any = any || dy[k];
    }
    if (!any || !kd_ops[n->op]->grad)
        return;
    kd_node s;
    if (!view(g, n, &s))
        return;
    int first[KD_MAX_IN];                              // first input that is the same value: add(a, a)
    for (int i = 0; i < n->n_in; i++) {
        for (first[i] = 0; n->in[first[i]] != n->in[i];)
            first[i]++;
        if (kd_wants(n, i) && first[i] == i)
            dx[i] = n->in[i]->grad;
    }
    kd_ops[n->op]->grad(g, &s, dy, dx);
    for (int i = 0; i < n->n_in; i++)
        if (kd_wants(n, i))
            n->in[i]->grad = first[i] == i ? dx[i] : kd_sum(g, n->in[i]->grad, dx[i]);
}

void kd_grad(kd_graph *g, kd_val *y, kd_val *dy, kd_val *const *wrt, int n, kd_val **dx)
{
    memset(dx, 0, (size_t)n * sizeof *dx);
    if (g->err.code || !y || !dy)
        return;
    assert(kd_shape_same(&y->shape, &dy->shape));
    char scope[sizeof g->scope];
    memcpy(scope, g->scope, sizeof scope);
    mark(g, wrt, n);
    y->grad = dy;
    for (int i = g->n_node - 1; i >= 0 && !g->err.code; i--) {
        strcpy(g->scope, g->node[i]->name);            // gradients carry their layer's name
        node_grad(g, g->node[i]);
    }
    memcpy(g->scope, scope, sizeof scope);
    for (int i = 0; i < n; i++)
        dx[i] = wrt[i]->grad;
}
