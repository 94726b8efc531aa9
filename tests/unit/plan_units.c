// Random graphs under the memory plan, as they are and with nodes joined into units at random: what is live at the same time
// lies apart, and the results are those of the same graph with a place of its own for every value.
#include "base/memory.h"
#include "base/random.h"
#include "device/device.h"
#include "op/optimizer.h"
#include "op/plan.h"
#include "op/program.h"
#include "op/unet.h"
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

// Random graphs --------------------------------------------------------------------------------------------------------

enum { ROWS = 3, WIDTH = 16, SIZE = ROWS * WIDTH, VALUES = 60, WEIGHTS = 3, OUTS = 5, PINNED = 2, GRAPHS = 150 };

typedef struct dice { kd_rng rng; uint64_t n; } dice;

static dice dice_of(int what, int graph) { return (dice){ kd_rng_of(1, KD_RNG_TEST, (uint32_t)what, (uint64_t)graph, 0), 0 }; }
static int roll(dice *d, int below) { return (int)(kd_rng_u32(&d->rng, d->n++) % (uint32_t)below); }

/// A graph of SIZE-element values, and some with other sizes on the way.
typedef struct graph {
    kd_graph *g;
    kd_val *in, *fed, *late;                       // an input, and fed values that are read from the beginning and in the end
    kd_val *value[VALUES]; int n;
    kd_val *out[OUTS + PINNED + 1]; int n_out;     // some of the values; pinned copies of others; all pinned ones as one array
} graph;

static _Alignas(KD_ALIGN) float weights[WEIGHTS][WIDTH * WIDTH];

static kd_val *random_value(graph *x, dice *d)
{
    kd_graph *g = x->g;
    kd_val *a = x->value[roll(d, x->n)], *b = x->value[x->n - 1 - roll(d, x->n < 4 ? x->n : 4)];
    static const char *const names[WEIGHTS] = { "w0", "w1", "w2" };
    const int w = roll(d, WEIGHTS);
    kd_val *weight = kd_param(g, names[w], KD_SHAPE(WIDTH, WIDTH));
    if (!weight->bound) kd_bind(weight, weights[w]);
    switch (roll(d, 8)) {
    case 0: return kd_scale(g, kd_add(g, a, b), 0.5);
    case 1: return kd_activate(g, a, KD_ACT_SILU);
    case 2: return kd_scale(g, b, 1.5);
    case 3: return kd_clamp(g, b, -1, 2);
    case 4: return kd_rms_norm(g, b, kd_const(g, "s", KD_SHAPE(WIDTH), weights[0]), 1, 1e-5);
    case 5: return kd_linear(g, a, weight, NULL, b);
    case 6: return kd_slice(g, kd_concat(g, a, b), 5, WIDTH);
    default: return kd_linear(g, b, weight, NULL, NULL);
    }
}

/// The number-th graph. pinned: with pinned outputs.
static void graph_new(graph *x, int number, bool pinned)
{
    dice d = dice_of(1, number);
    kd_err err = {0};
    float c[SIZE];
    for (int i = 0; i < SIZE; i++) c[i] = (float)(i % 7 - 3) / 4;
    *x = (graph){ .g = kd_graph_new() };
    kd_graph *g = x->g;
    const kd_shape shape = KD_SHAPE(ROWS, WIDTH);
    x->value[x->n++] = x->in = kd_input(g, "in", KD_F32, shape);
    x->value[x->n++] = x->fed = kd_feed(g, "fed", KD_F32, shape);
    x->value[x->n++] = kd_const(g, "c", shape, c);
    x->late = kd_feed(g, "late", KD_F32, shape);
    while (x->n < VALUES - 1) x->value[x->n] = random_value(x, &d), x->n++;
    x->value[x->n] = kd_add(g, x->late, x->value[x->n - 1]), x->n++;
    for (int k = 0; k < OUTS; k++) {
        kd_val *v = x->value[k ? 4 + roll(&d, VALUES - 4) : VALUES - 1];
        for (int j = 0; j < x->n_out; j++)
            if (x->out[j] == v) v = NULL;
        if (v) x->out[x->n_out++] = v;
    }
    for (int k = 0; pinned && k < PINNED; k++) {
        kd_val *v = x->out[x->n_out++] = kd_scale(g, x->value[roll(&d, VALUES)], 3);
        kd_pin(v, k * 2 * SIZE * (int64_t)sizeof(float));
    }
    const int64_t gap[1][2] = { { SIZE, SIZE } };
    if (pinned) x->out[x->n_out++] = kd_flatten(g, (2 * PINNED - 1) * SIZE, gap, 1);
    must(kd_graph_error(g, &err), &err);
}

// A backend that joins nodes -------------------------------------------------------------------------------------------

/// The CPU, with units of nodes that it computes one after another, in memory of its own for what is inside.
typedef struct joiner { kd_backend be, *cpu; dice dice; int joined, inner; } joiner;

static bool reads(const kd_node *n, const kd_node *from)
{
    for (int k = 0; k < from->n_out; k++) {
        if (n->op == KD_OP_flatten && from->out[k]->pinned) return true;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] == from->out[k]) return true;
    }
    return false;
}

/// Joins a node with its first reader, half of the time, where the contract of kd_backend.group allows it.
static void join(kd_backend *be, kd_node *const *node, int n, int *unit)
{
    joiner *const j = (joiner *)be;
    for (int i = n - 2; i >= 0; i--) {
        int reader = i + 1;
        while (reader < n && !reads(node[reader], node[i])) reader++;
        bool free = reader < n && node[reader]->op != KD_OP_flatten && roll(&j->dice, 2);
        for (int k = i + 1; free && k < unit[reader]; k++) free = unit[k] == unit[reader] || !reads(node[k], node[i]);
        if (free) unit[i] = unit[reader], j->joined++;
    }
}

static size_t inner_bytes(const kd_val *v) { return ((size_t)kd_val_bytes(v) + KD_ALIGN - 1) / KD_ALIGN * KD_ALIGN; }

static size_t unit_scratch(kd_backend *be, kd_node *const *node, int n)
{
    joiner *const j = (joiner *)be;
    size_t most = 0, inner = 0;
    for (int i = 0; i < n; i++) {
        const size_t need = j->cpu->scratch(j->cpu, node + i, 1);
        most = need > most ? need : most;
        for (int k = 0; k < node[i]->n_out; k++) inner += node[i]->out[k]->inner ? inner_bytes(node[i]->out[k]) : 0;
    }
    return inner + most;
}

static int run_unit(kd_backend *be, kd_node *const *node, int n, void *scratch, kd_err *err)
{
    joiner *const j = (joiner *)be;
    char *at = scratch;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < node[i]->n_out; k++) {
            kd_val *const v = node[i]->out[k];
            if (!v->used) continue;
            assert_int_equal(!v->data, v->inner);
            if (!v->inner) continue;
            v->data = memset(at, 0xff, inner_bytes(v));
            at += inner_bytes(v);
            j->inner++;
        }
    for (int i = 0; i < n && !err->code; i++) j->cpu->run(j->cpu, node + i, 1, at, err);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < node[i]->n_out; k++)
            if (node[i]->out[k]->inner) node[i]->out[k]->data = NULL;
    return err->code;
}

static joiner joiner_new(void)
{
    joiner j = {0};
    kd_err err = {0};
    must(kd_device_open(&j.cpu, "cpu", &err), &err);
    j.be = *j.cpu;
    j.be.group = join, j.be.scratch = unit_scratch, j.be.run = run_unit;
    return j;
}

// The plan -------------------------------------------------------------------------------------------------------------

/// When a value lives, by the numbers of units, computed from the nodes alone.
typedef struct life { const kd_val *v; int first, last; bool inside; } life;

static life life_of(const kd_val *v, const kd_plan *plan, const graph *x)
{
    life l = { .v = v, .first = -1, .last = -1, .inside = true };
    for (int i = 0, unit = 0, left = plan->size[0]; i < plan->n; i++, left--) {
        if (!left) left = plan->size[++unit];
        const kd_node *n = plan->node[i];
        assert_int_equal(n->number, unit);
        if (v->node == n) l.first = unit;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] == v) l.last = unit, l.inside = l.inside && unit == l.first;
    }
    l.inside = l.inside && v->kind == KD_VAL_RESULT && l.last >= 0;
    if (v->kind == KD_VAL_CONST) l.last = INT_MAX;
    if (l.last < l.first) l.last = l.first;                            // an output of a node that nobody reads
    for (int k = 0; k < x->n_out; k++)
        if (x->out[k] == v) l.last = INT_MAX, l.inside = false;
    return l;
}

static const kd_val *place_of(const kd_val *v)
{
    while (v->shares) v = v->shares;
    return v;
}

/// b is computed over a: by a node of its own, of whose inputs it is the one, at the end of a's life.
static bool in_place(const life *a, const life *b, const kd_plan *plan)
{
    const bool next = place_of(a->v) == place_of(b->v) && a->last == b->first && a->v->dtype == b->v->dtype;
    if (!next || plan->size[b->first] != 1) return false;
    int times = 0, which = 0;
    const kd_node *n = b->v->node;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && place_of(n->in[k]) == place_of(a->v)) times++, which = k;
    return n->out[0] == b->v && times == 1 && n->in[which] == a->v && (kd_ops[n->op]->in_place >> which & 1);
}

static bool overlap(const kd_val *a, const kd_val *b)
{
    const int64_t x = place_of(a)->offset, y = place_of(b)->offset;
    return x < y + kd_val_bytes(b) && y < x + kd_val_bytes(a);
}

/// The places of all values, against lives that are computed here.
static void check_plan(const graph *x, const kd_plan *plan, int number)
{
    life *lives = calloc((size_t)x->g->n_val, sizeof *lives);
    int n = 0;
    for (int i = 0; i < x->g->n_val; i++) {
        const kd_val *v = x->g->val[i];
        if (!v->used || v->bound || v->kind == KD_VAL_PARAM) continue;
        const life l = life_of(v, plan, x);
        if (v->inner != l.inside) fail_msg("graph %d: value %d: inner is %d, expected %d", number, i, v->inner, l.inside);
        if (v->inner || v->kind == KD_VAL_INPUT) continue;
        assert_int_equal(place_of(v)->offset % KD_ALIGN, 0);
        assert_true(place_of(v)->offset >= 0 && place_of(v)->offset + kd_val_bytes(v) <= plan->arena);
        lives[n++] = l;
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            const life *a = &lives[k], *b = &lives[i];
            const bool flat = a->v->pinned && b->v->pinned && (a->v->node->op == KD_OP_flatten || b->v->node->op == KD_OP_flatten);
            if (flat || a->first > b->last || b->first > a->last || !overlap(a->v, b->v)) continue;
            if (!in_place(a, b, plan) && !in_place(b, a, plan))
                fail_msg("graph %d: values of units %d to %d and %d to %d overlap", number, a->first, a->last, b->first, b->last);
        }
    free(lives);
}

/// Each node comes after those whose results it reads, and flatten after the pinned ones.
static void check_order(const kd_plan *plan, int number)
{
    for (int i = 0; i < plan->n; i++)
        for (int k = 0; k < i; k++)
            if (reads(plan->node[k], plan->node[i])) fail_msg("graph %d: node %d reads what node %d computes later", number, k, i);
}

// Results --------------------------------------------------------------------------------------------------------------

enum { RUNS = 2 };

static void random_floats(float *to, int what, int number)
{
    const kd_rng rng = kd_rng_of(2, KD_RNG_TEST, (uint32_t)what, (uint64_t)number, 0);
    kd_rng_normal(&rng, to, 0, SIZE);
}

/// Two runs with other values each: all outputs, in rows of room for the largest.
static void run_all(const graph *x, kd_program *p, float *to, int number)
{
    float value[SIZE];
    kd_err err = {0};
    for (int run = 0; run < RUNS; run++) {
        kd_val *const leaf[] = { x->in, x->fed, x->late };
        for (int k = 0; k < 3; k++) {
            random_floats(value, 3 * run + k, number);
            must(kd_program_set(p, leaf[k], value, &err), &err);
        }
        must(kd_program_run(p, &err), &err);
        for (int k = 0; k < x->n_out; k++, to += (2 * PINNED - 1) * SIZE) must(kd_program_get(p, x->out[k], to, &err), &err);
    }
}

enum { ROOM = RUNS * (OUTS + PINNED + 1) * (2 * PINNED - 1) * SIZE };

/// With a place of its own for every value, none of them pinned.
static void expected(kd_backend *be, int number, float *to)
{
    graph x;
    kd_program *p;
    kd_val *outs[256];
    kd_err err = {0};
    int n = 0;
    graph_new(&x, number, true);
    kd_val *flat = x.out[--x.n_out];
    for (int i = 0; i < x.g->n_val; i++) {
        kd_val *v = x.g->val[i];
        if (v != flat && v->kind == KD_VAL_RESULT) outs[n++] = v, v->pinned = false;
    }
    must(kd_program_new(&p, x.g, be, outs, n, &err), &err);
    run_all(&x, p, to, number);
    // The pinned ones as one array with a gap: after the other outputs of a run.
    const int row = (2 * PINNED - 1) * SIZE, rows = x.n_out + 1;
    for (int run = RUNS - 1; run >= 0; run--) {
        float *from = to + run * x.n_out * row, *there = to + run * rows * row, *end = there + x.n_out * row;
        memmove(there, from, (size_t)(x.n_out * row) * sizeof *to);
        memset(end, 0, (size_t)row * sizeof *to);
        for (int k = 0; k < PINNED; k++) memcpy(end + k * 2 * SIZE, there + (x.n_out - PINNED + k) * row, SIZE * sizeof *to);
    }
    kd_program_free(p);
}

/// Plans and runs the graph on be; returns the arena's bytes.
static int64_t check(kd_backend *be, int number, const float *want)
{
    graph x;
    kd_plan plan;
    kd_program *p;
    kd_err err = {0};
    float *got = calloc(ROOM, sizeof *got);
    graph_new(&x, number, true);
    must(kd_plan_make(&plan, x.g, be, x.out, x.n_out, &err), &err);
    check_order(&plan, number);
    check_plan(&x, &plan, number);
    const int64_t arena = plan.arena;
    kd_plan_free(&plan);
    must(kd_program_new(&p, x.g, be, x.out, x.n_out, &err), &err);
    run_all(&x, p, got, number);
    if (memcmp(got, want, ROOM * sizeof *got)) fail_msg("graph %d: other results", number);
    kd_program_free(p);
    free(got);
    return arena;
}

static void plain(void **state)
{
    (void)state;
    kd_backend *be;
    kd_err err = {0};
    must(kd_device_open(&be, "cpu", &err), &err);
    for (int k = 0; k < GRAPHS; k++) {
        float *want = calloc(ROOM, sizeof *want);
        expected(be, k, want);
        for (int i = 0; i < ROOM; i++) assert_true(isfinite(want[i]));
        const int64_t arena = check(be, k, want);
        assert_true(arena < VALUES * SIZE * (int64_t)sizeof(float) * 2 / 3);
        free(want);
    }
    assert_int_equal(be->in_use(be), 0);
    kd_backend_close(be);
}

static void joined(void **state)
{
    (void)state;
    joiner j = joiner_new();
    for (int k = 0; k < GRAPHS; k++) {
        float *want = calloc(ROOM, sizeof *want);
        expected(j.cpu, k, want);
        for (int way = 0; way < 2; way++) {
            j.dice = dice_of(2 + way, k);
            check(&j.be, k, want);
        }
        free(want);
    }
    print_message("# %d nodes joined, %d values without memory computed\n", j.joined, j.inner);
    assert_true(j.joined > 5 * GRAPHS && j.inner > 5 * GRAPHS);
    assert_int_equal(j.cpu->in_use(j.cpu), 0);
    kd_backend_close(j.cpu);
}

int main(void)
{
    for (int k = 0; k < WEIGHTS; k++)
        for (int i = 0; i < WIDTH * WIDTH; i++) weights[k][i] = (float)((i * 7 + k * 13) % 31 - 15) / 64;
    const struct CMUnitTest tests[] = { cmocka_unit_test(plain), cmocka_unit_test(joined) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
