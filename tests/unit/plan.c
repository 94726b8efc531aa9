// The memory plan: outputs pinned to their places, what the gradient computes again instead of keeping it, inputs, fed values,
// types. Random graphs and joined nodes are in plan_units.c.
#include "base/memory.h"
#include "base/random.h"
#include "device/device.h"
#include "op/optimizer.h"
#include "op/plan.h"
#include "op/program.h"
#include "op/random.h"
#include "op/unet.h"
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LAYERS = 12, ROWS = 96, WIDTH = 64 };           // a layer's activation and its weight's gradient: 24 and 16 KiB
static const int64_t activation = ROWS * WIDTH * 4, gradient = WIDTH * WIDTH * 4;

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

/// LAYERS times: normalise, activate, multiply.
typedef struct chain {
    kd_backend *be;
    kd_graph *g;
    kd_val *x, *s, *w[LAYERS], *hidden[2 * LAYERS], *y, *dy, *dw[LAYERS];
    kd_val *flat;                      // NULL, or the gradients as one array
    kd_program *p;
    float *weight;
} chain;

static void fill(float *to, int64_t n, int start)
{
    for (int64_t i = 0; i < n; i++) to[i] = (float)((i * 7 + start * 13) % 31 - 15) / 64;
}

static void chain_new(chain *c)
{
    kd_err err = {0};
    *c = (chain){0};
    must(kd_device_open(&c->be, "cpu", &err), &err);
    kd_graph *g = c->g = kd_graph_new();
    kd_val *h = c->x = kd_input(g, "x", KD_F32, KD_SHAPE(1, ROWS, WIDTH));
    c->s = kd_input(g, "s", KD_F32, KD_SHAPE(WIDTH));
    c->weight = kd_alloc(LAYERS * (size_t)gradient);
    fill(c->weight, LAYERS * WIDTH * WIDTH, 1);
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        kd_bind(c->w[i] = kd_param(g, name, KD_SHAPE(WIDTH, WIDTH)), c->weight + i * WIDTH * WIDTH);
        c->hidden[2 * i] = kd_rms_norm(g, h, c->s, 0, 1e-6f);
        c->hidden[2 * i + 1] = kd_activate(g, c->hidden[2 * i], KD_ACT_GELU);
        h = kd_linear(g, c->hidden[2 * i + 1], c->w[i], NULL, NULL);
    }
    c->y = h;
    c->dy = kd_input(g, "dy", KD_F32, h->shape);
    kd_grad(g, c->y, c->dy, c->w, LAYERS, c->dw);
    must(kd_graph_error(g, &err), &err);
}

static void chain_free(chain *c)
{
    kd_program_free(c->p);
    kd_free(c->weight);
    kd_backend_close(c->be);
}

/// With the activations as outputs too, so that nothing can be left out or written over, if `keep`. Returns the arena's bytes.
static int64_t plan(chain *c, bool keep)
{
    kd_plan of;
    kd_val *outs[3 * LAYERS + 1];
    kd_err err = {0};
    int n = 0;
    for (int i = 0; i < LAYERS; i++) outs[n++] = c->dw[i];
    for (int i = 0; keep && i < 2 * LAYERS; i++) outs[n++] = c->hidden[i];
    if (c->flat) outs[n++] = c->flat;
    must(kd_plan_make(&of, c->g, c->be, outs, n, &err), &err);
    const int64_t arena = of.arena;
    kd_plan_free(&of);
    must(kd_program_new(&c->p, c->g, c->be, outs, n, &err), &err);
    return arena;
}

/// The gradients of a run, one after another.
static float *run(chain *c)
{
    float *x = kd_alloc((size_t)activation), *s = kd_alloc(WIDTH * sizeof *s), *dw = malloc(LAYERS * (size_t)gradient);
    kd_err err = {0};
    fill(x, ROWS * WIDTH, 2);
    fill(s, WIDTH, 3);
    must(kd_program_set(c->p, c->x, x, &err), &err);
    must(kd_program_set(c->p, c->s, s, &err), &err);
    fill(x, ROWS * WIDTH, 4);
    must(kd_program_set(c->p, c->dy, x, &err), &err);
    must(kd_program_run(c->p, &err), &err);
    for (int i = 0; i < LAYERS; i++)
        must(kd_program_get(c->p, c->dw[i], dw + i * WIDTH * WIDTH, &err), &err);
    kd_free(x), kd_free(s);
    return dw;
}

static float *expected(void)
{
    chain c;
    chain_new(&c);
    plan(&c, true);
    float *dw = run(&c);
    chain_free(&c);
    return dw;
}

/// Each layer keeps its input alone, until gradients take that memory: what norm and activation make of it is made again, bit
/// for bit.
static void cheap(void **state)
{
    (void)state;
    chain c;
    chain_new(&c);
    const int64_t bytes = plan(&c, false);
    float *dw = run(&c), *want = expected();
    assert_true(bytes < (LAYERS + 6) * activation);
    assert_memory_equal(dw, want, LAYERS * (size_t)gradient);
    free(dw), free(want);
    chain_free(&c);
}

/// Gradients pinned in the order of the layers, with gaps between them, and flattened: one array, whose memory the activations
/// use until the gradients are computed. The gaps are 0.
static void pinned(void **state)
{
    (void)state;
    enum { COUNT = WIDTH * WIDTH, GAP = 32, PLACE = COUNT + GAP };           // elements
    chain c;
    kd_err err = {0};
    int64_t gaps[LAYERS][2];
    chain_new(&c);
    for (int i = 0; i < LAYERS; i++) {
        kd_pin(c.dw[i], i * PLACE * (int64_t)sizeof(float));
        gaps[i][0] = i * PLACE + COUNT, gaps[i][1] = GAP;
    }
    c.flat = kd_flatten(c.g, LAYERS * PLACE, gaps, LAYERS);
    assert_true(plan(&c, false) < (LAYERS + 7) * activation);
    float *want = expected(), *flat = malloc(LAYERS * PLACE * sizeof *flat);
    for (int again = 0; again < 2; again++) {                    // the second finds the first one's gradients there
        float *dw = run(&c);
        assert_memory_equal(dw, want, LAYERS * (size_t)gradient);
        free(dw);
        must(kd_program_get(c.p, c.flat, flat, &err), &err);
        for (int i = 0; i < LAYERS; i++) {
            assert_memory_equal(flat + i * PLACE, want + i * COUNT, (size_t)gradient);
            for (int k = COUNT; k < PLACE; k++) assert_true(flat[i * PLACE + k] == 0);
        }
    }
    free(want), free(flat);
    chain_free(&c);
}

/// Pinned outputs of ops that could write over their inputs go to their own places; one that is an input too stays as it is.
static void pinned_in_place(void **state)
{
    (void)state;
    kd_backend *be;
    kd_program *p;
    kd_err err = {0};
    must(kd_device_open(&be, "cpu", &err), &err);
    kd_graph *g = kd_graph_new();
    kd_val *x = kd_input(g, "x", KD_F32, KD_SHAPE(4, 16));
    kd_val *b = kd_activate(g, kd_activate(g, x, KD_ACT_RELU), KD_ACT_SILU), *c = kd_add(g, b, x);
    kd_pin(b, 4096);
    kd_pin(c, 1024);
    kd_val *outs[] = { b, c, kd_flatten(g, 1024 + 64, NULL, 0) };
    must(kd_program_new(&p, g, be, outs, 3, &err), &err);
    assert_true(kd_program_bytes(p) >= 4096 + 4 * 16 * 4);
    float in[64], sum[64], part[64], flat[1024 + 64];
    fill(in, 64, 5);
    must(kd_program_set(p, x, in, &err), &err);
    must(kd_program_run(p, &err), &err);
    must(kd_program_get(p, b, part, &err), &err);
    must(kd_program_get(p, c, sum, &err), &err);
    must(kd_program_get(p, outs[2], flat, &err), &err);
    assert_memory_equal(flat + 1024, part, sizeof part);
    assert_memory_equal(flat + 256, sum, sizeof sum);
    for (int i = 0; i < 64; i++) assert_true(sum[i] == part[i] + in[i] && (in[i] > 0) == (part[i] > 0));
    kd_program_free(p);
    kd_backend_close(be);
}

// Inputs ---------------------------------------------------------------------------------------------------------------

enum { KINDS = 6 };

/// Inputs of several types and odd sizes, each read by some node, among other leaves.
typedef struct mixed { kd_val *in[KINDS], *unread, *fed, *factor, *out[4]; } mixed;

static kd_graph *mixed_new(mixed *m)
{
    kd_graph *g = kd_graph_new();
    const float factors[5] = { 1, 2, 3, 4, 5 };
    kd_val **in = m->in;
    in[0] = kd_input(g, "pixels", KD_U8, KD_SHAPE(5, 7));
    m->factor = kd_const(g, "factor", KD_SHAPE(5), factors);
    in[1] = kd_input(g, "index", KD_I64, KD_SHAPE(5));
    in[2] = kd_input(g, "rng", KD_U64, KD_SHAPE(2));
    m->unread = kd_input(g, "unread", KD_F32, KD_SHAPE(1000));
    in[3] = kd_input(g, "square", KD_F64, KD_SHAPE(1));
    m->fed = kd_feed(g, "fed", KD_F32, KD_SHAPE(5, 7));
    in[4] = kd_input(g, "x", KD_F32, KD_SHAPE(5, 7));
    in[5] = kd_input(g, "loss", KD_F32, KD_SHAPE(1));
    m->out[0] = kd_row_mix(g, kd_pixels(g, in[0]), m->factor, NULL, NULL);
    m->out[1] = kd_normal(g, KD_SHAPE(5, 3), in[1], in[2], (kd_draw_attr){ KD_RNG_TEST, 0 });
    m->out[2] = kd_clip(g, in[3], in[5], NULL, 1);
    m->out[3] = kd_add(g, in[4], m->fed);
    return g;
}

static int64_t bytes_of(const kd_val *v) { return (kd_val_bytes(v) + KD_ALIGN - 1) / KD_ALIGN * KD_ALIGN; }

/// Whether the memory of two values overlaps.
static bool meet(const kd_val *a, const kd_val *b)
{
    const char *const x = a->data, *const y = b->data;
    return x < y + kd_val_bytes(b) && y < x + kd_val_bytes(a);
}

/// All inputs that a node reads are in one block, one after another in the order in which they were made, and nothing else is.
static void inputs_in_one_block(void **state)
{
    (void)state;
    kd_backend *be;
    kd_program *p;
    mixed m;
    kd_err err = {0};
    int64_t all = 0;
    must(kd_device_open(&be, "cpu", &err), &err);
    kd_graph *g = mixed_new(&m);
    must(kd_program_new(&p, g, be, m.out, 4, &err), &err);
    must(kd_program_ready(p, &err), &err);
    assert_null(m.unread->data);
    for (int k = 0; k < KINDS; k++) {
        assert_int_equal((uintptr_t)m.in[k]->data % KD_ALIGN, 0);
        if (k > 0) assert_ptr_equal(m.in[k]->data, (char *)m.in[k - 1]->data + bytes_of(m.in[k - 1]));
        all += bytes_of(m.in[k]);
    }
    const char *const from = m.in[0]->data, *const to = from + all;
    const kd_val *const others[] = { m.factor, m.fed, m.out[0], m.out[1], m.out[2], m.out[3] };
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        assert_true((const char *)others[k]->data + kd_val_bytes(others[k]) <= from || (const char *)others[k]->data >= to);
    assert_int_equal(kd_program_host_bytes(p), 0);                   // the host writes to the block itself
    void *at;
    for (int k = 0; k < KINDS; k++) {
        must(kd_program_at(p, m.in[k], &at, &err), &err);
        assert_ptr_equal(at, m.in[k]->data);
    }
    must(kd_program_at(p, m.unread, &at, &err), &err);
    assert_null(at);
    must(kd_program_set(p, m.unread, (const float[1000]){0}, &err), &err);
    kd_program_free(p);
    kd_backend_close(be);
}

/// The CPU backend without memory that it shares with the host: map gives a copy. It counts uploads.
typedef struct mirror {
    kd_backend be, *cpu;
    void *mapped; size_t bytes;                                      // by map
    int uploads; const void *to; size_t uploaded;                    // how many, the last one
} mirror;

static int mirror_upload(kd_backend *be, void *to, const void *host, size_t bytes, kd_err *err)
{
    mirror *const m = (mirror *)be;
    m->uploads++, m->uploaded = bytes, m->to = to;
    return m->cpu->upload(m->cpu, to, host, bytes, err);
}

static int mirror_map(kd_backend *be, void *p, size_t bytes, int mode, void **host, kd_err *err)
{
    mirror *const m = (mirror *)be;
    (void)mode, (void)err;
    assert_null(m->mapped);
    m->mapped = p, m->bytes = bytes;
    *host = malloc(bytes);
    memcpy(*host, p, bytes);
    return 0;
}

static int mirror_unmap(kd_backend *be, void *host, kd_err *err)
{
    mirror *const m = (mirror *)be;
    (void)err;
    memcpy(m->mapped, host, m->bytes);
    free(host);
    m->mapped = NULL;
    return 0;
}

static mirror mirror_new(void)
{
    mirror m = {0};
    kd_err err = {0};
    must(kd_device_open(&m.cpu, "cpu", &err), &err);
    m.be = *m.cpu;
    m.be.adopt = NULL, m.be.upload = mirror_upload, m.be.map = mirror_map, m.be.unmap = mirror_unmap;
    return m;
}

/// Where the host has a copy of the block, each run sends the part that was set since the last one, in one copy.
static void inputs_sent_at_once(void **state)
{
    (void)state;
    mirror m = mirror_new();
    kd_program *p;
    mixed x;
    uint8_t pixels[35] = { 255, 51 };
    const int64_t index[5] = { 1, 2, 3, 4, 5 };
    const uint64_t rng[2] = { 7, 0 };
    const double square = 4;
    float zeros[35] = {0}, loss = 1, got[35], *at;
    void *fed;
    double clip[2];
    kd_err err = {0};
    kd_graph *g = mixed_new(&x);
    must(kd_program_new(&p, g, &m.be, x.out, 4, &err), &err);
    must(kd_program_ready(p, &err), &err);
    assert_int_equal(kd_program_host_bytes(p), (char *)x.in[5]->data + KD_ALIGN - (char *)x.in[0]->data);
    must(kd_program_set(p, x.in[3], &square, &err), &err);           // in any order
    must(kd_program_set(p, x.in[5], &loss, &err), &err);
    must(kd_program_set(p, x.in[0], pixels, &err), &err);
    must(kd_program_set(p, x.in[1], index, &err), &err);
    must(kd_program_set(p, x.in[2], rng, &err), &err);
    must(kd_program_set(p, x.in[4], zeros, &err), &err);
    must(m.be.alloc(&m.be, &fed, sizeof zeros, &err), &err);
    must(kd_program_feed(p, x.fed, fed, &err), &err);                // from the backend's memory: no upload
    m.uploads = 0;
    must(kd_program_run(p, &err), &err);
    assert_int_equal(m.uploads, 1);
    assert_ptr_equal(m.to, x.in[0]->data);
    assert_int_equal(m.uploaded, (char *)x.in[5]->data + sizeof loss - (char *)x.in[0]->data);
    must(kd_program_get(p, x.out[0], got, &err), &err);
    assert_true(got[0] == 1 && fabsf(got[1] + 0.6f) < 1e-6f && got[7] == -2);
    must(kd_program_get(p, x.out[2], clip, &err), &err);
    assert_true(clip[1] == 2);

    must(kd_program_feed(p, x.fed, fed, &err), &err);
    must(kd_program_run(p, &err), &err);                             // nothing was set: nothing is sent, inputs remain
    assert_int_equal(m.uploads, 1);
    must(kd_program_get(p, x.out[2], clip, &err), &err);
    assert_true(clip[1] == 2);

    must(kd_program_at(p, x.in[4], (void **)&at, &err), &err);       // written in place: this input alone is sent
    assert_true(at[34] == 0);
    at[34] = 5;
    must(kd_program_feed(p, x.fed, fed, &err), &err);
    must(kd_program_run(p, &err), &err);
    assert_int_equal(m.uploads, 2);
    assert_ptr_equal(m.to, x.in[4]->data);
    assert_int_equal(m.uploaded, sizeof zeros);
    must(kd_program_get(p, x.out[3], got, &err), &err);
    assert_true(got[33] == 0 && got[34] == 5);
    must(kd_program_get(p, x.out[0], got, &err), &err);
    assert_true(got[0] == 1);
    kd_program_free(p);
    m.be.free(&m.be, fed);
    kd_backend_close(m.cpu);
}

// Fed values -----------------------------------------------------------------------------------------------------------

/// Layers over x, which nothing reads after the first one, or the last sum too if `again`.
typedef struct layers { kd_val *x, *h[LAYERS], *y; int64_t inputs, arena; kd_program *p; } layers;

static void layers_new(layers *l, kd_backend *be, float *weight, bool fed, bool again)
{
    kd_err err = {0};
    kd_plan plan;
    kd_graph *g = kd_graph_new();
    const kd_shape shape = KD_SHAPE(ROWS, WIDTH);
    kd_val *h = l->x = fed ? kd_feed(g, "x", KD_F32, shape) : kd_input(g, "x", KD_F32, shape);
    kd_val *w = kd_param(g, "w", KD_SHAPE(WIDTH, WIDTH));
    kd_bind(w, weight);
    for (int i = 0; i < LAYERS; i++) h = l->h[i] = kd_linear(g, h, w, NULL, NULL);
    l->y = again ? kd_add(g, h, l->x) : h;
    must(kd_plan_make(&plan, g, be, &l->y, 1, &err), &err);
    l->inputs = plan.inputs, l->arena = plan.arena;
    kd_plan_free(&plan);
    must(kd_program_new(&l->p, g, be, &l->y, 1, &err), &err);
}

static void layers_run(const layers *l, const float *x, float *y)
{
    kd_err err = {0};
    must(kd_program_set(l->p, l->x, x, &err), &err);
    must(kd_program_run(l->p, &err), &err);
    must(kd_program_get(l->p, l->y, y, &err), &err);
}

/// A fed value's memory serves others after its last reader: two arrays are enough for all layers, where an input takes one
/// more. Each run has its own value.
static void fed_memory(void **state)
{
    (void)state;
    kd_backend *be;
    kd_err err = {0};
    must(kd_device_open(&be, "cpu", &err), &err);
    float *weight = kd_alloc((size_t)gradient), *x = kd_alloc(2 * (size_t)activation);
    float *y[4];
    for (int k = 0; k < 4; k++) y[k] = malloc(2 * (size_t)activation);
    fill(weight, WIDTH * WIDTH, 1);
    fill(x, 2 * ROWS * WIDTH, 2);
    for (int k = 0; k < 4; k++) {
        layers l;
        const bool fed = k % 2, again = k / 2;
        layers_new(&l, be, weight, fed, again);
        for (int run = 0; run < 2; run++) layers_run(&l, x + run * ROWS * WIDTH, y[k] + run * ROWS * WIDTH);
        bool used_again = false;
        for (int i = 1; i < LAYERS; i++) used_again = used_again || meet(l.x, l.h[i]);
        assert_false(meet(l.x, l.h[0]));
        assert_int_equal(used_again, fed && !again);
        assert_int_equal(l.x->last, fed ? again ? LAYERS : 0 : INT_MAX);
        assert_int_equal(l.inputs, fed ? 0 : activation);
        assert_int_equal(l.arena, (fed && again ? 3 : 2) * activation);
        kd_program_free(l.p);
    }
    for (int k = 0; k < 4; k += 2) assert_memory_equal(y[k], y[k + 1], 2 * (size_t)activation);      // as with an input
    assert_memory_not_equal(y[0], y[0] + ROWS * WIDTH, (size_t)activation);
    for (int i = 0; i < 2 * ROWS * WIDTH; i++) assert_true(y[2][i] == y[0][i] + x[i]);
    for (int k = 0; k < 4; k++) free(y[k]);
    kd_free(weight), kd_free(x);
    kd_backend_close(be);
}

// Types ----------------------------------------------------------------------------------------------------------------

static bool anything(const kd_backend *be, const kd_node *n)
{
    (void)be, (void)n;
    return true;
}

/// An op that may write over its input does so only if the result has the same type: of two 16-bit types it has the same bytes.
static void types_apart(void **state)
{
    (void)state;
    static const kd_dtype types[] = { KD_F16, KD_BF16 };
    kd_backend *cpu;
    kd_err err = {0};
    must(kd_device_open(&cpu, "cpu", &err), &err);
    kd_backend be = *cpu;
    be.supports = anything;
    for (int k = 0; k < 4; k++) {
        kd_plan plan;
        kd_graph *g = kd_graph_new();
        kd_val *x = kd_cast(g, kd_input(g, "x", KD_F32, KD_SHAPE(100)), types[k / 2]);
        kd_node *n = kd_node_new(g, KD_OP_activate, 1, &x);
        kd_val *y = kd_node_out_as(g, n, 0, types[k % 2], x->shape), *out = kd_cast(g, y, KD_F32);
        must(kd_plan_make(&plan, g, &be, &out, 1, &err), &err);
        assert_int_equal(kd_val_bytes(x), kd_val_bytes(y));
        if (x->dtype == y->dtype) assert_ptr_equal(y->shares, x);
        else {
            assert_null(y->shares);
            assert_true(y->offset >= x->offset + kd_val_bytes(x) || x->offset >= y->offset + kd_val_bytes(y));
        }
        kd_plan_free(&plan);
        kd_graph_free(g);
    }
    kd_backend_close(cpu);
}

/// The CPU has no kernels for short floats but cast. The error names op, type and layer, whichever of the op's values it is.
static void refused(void **state)
{
    (void)state;
    kd_backend *be;
    kd_err err = {0};
    must(kd_device_open(&be, "cpu", &err), &err);
    for (int k = 0; k < 4; k++) {
        static const char *const what[] = { "activate of BF16 in layer down.act", "add of F16 in layer down.act", "linear of BF16",
                                            "add of BF16 in layer down.act" };
        kd_program *p = NULL;
        char want[128];
        kd_graph *g = kd_graph_new();
        kd_val *x = kd_input(g, "x", KD_F32, KD_SHAPE(4, 4)), *b = kd_cast(g, x, k == 1 ? KD_F16 : KD_BF16), *y = NULL;
        if (k != 2) kd_scope_push(g, "down"), kd_scope_push(g, "act");
        if (k == 0) y = kd_activate(g, b, KD_ACT_SILU);
        if (k == 1) y = kd_add(g, b, b);
        if (k == 2) y = kd_linear(g, b, x, NULL, NULL);
        if (k == 3) y = kd_node_out_as(g, kd_node_new(g, KD_OP_add, 2, (kd_val *[]){ x, b }), 0, KD_F32, x->shape);
        err = (kd_err){0};
        assert_int_equal(kd_program_new(&p, g, be, &y, 1, &err), KD_EFAIL);
        assert_null(p);
        snprintf(want, sizeof want, "%s has no kernel for %s", be->name, what[k]);
        assert_string_equal(err.msg, want);
    }
    kd_backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(cheap), cmocka_unit_test(pinned), cmocka_unit_test(pinned_in_place),
                                        cmocka_unit_test(inputs_in_one_block), cmocka_unit_test(inputs_sent_at_once),
                                        cmocka_unit_test(fed_memory), cmocka_unit_test(types_apart), cmocka_unit_test(refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
