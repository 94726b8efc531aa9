// The memory plan: outputs pinned to their places, and what the gradient computes again instead of keeping it.
#include "base/memory.h"
#include "device/device.h"
#include "op/plan.h"
#include "op/program.h"
#include "op/unet.h"
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
    kd_val *outs[3 * LAYERS];
    kd_err err = {0};
    int n = 0;
    for (int i = 0; i < LAYERS; i++) outs[n++] = c->dw[i];
    for (int i = 0; keep && i < 2 * LAYERS; i++) outs[n++] = c->hidden[i];
    must(kd_plan_make(&of, c->g, outs, n, &err), &err);
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

/// Gradients pinned in the order of the layers, with gaps between: one array, which the activations share until then.
static void pinned(void **state)
{
    (void)state;
    enum { GAP = 128 };
    chain c;
    kd_err err = {0};
    chain_new(&c);
    for (int i = 0; i < LAYERS; i++) kd_pin(c.dw[i], i * (gradient + GAP));
    assert_true(plan(&c, false) < (LAYERS + 7) * activation);
    float *want = expected();
    for (int again = 0; again < 2; again++) {                    // the second finds the first one's gradients there
        float *dw = run(&c);
        assert_memory_equal(dw, want, LAYERS * (size_t)gradient);
        free(dw);
        const char *base = kd_program_pinned(c.p, &err);
        assert_non_null(base);
        for (int i = 0; i < LAYERS; i++)
            assert_memory_equal(base + i * (gradient + GAP), want + i * WIDTH * WIDTH, (size_t)gradient);
    }
    free(want);
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
    kd_val *b = kd_activate(g, kd_activate(g, x, KD_ACT_RELU), KD_ACT_SILU), *c = kd_add(g, b, x), *outs[] = { b, c };
    kd_pin(b, 4096);
    kd_pin(c, 1024);
    must(kd_program_new(&p, g, be, outs, 2, &err), &err);
    assert_true(kd_program_bytes(p) >= 4096 + 4 * 16 * 4);
    float in[64], sum[64], part[64];
    fill(in, 64, 5);
    must(kd_program_set(p, x, in, &err), &err);
    must(kd_program_run(p, &err), &err);
    must(kd_program_get(p, b, part, &err), &err);
    must(kd_program_get(p, c, sum, &err), &err);
    const char *base = kd_program_pinned(p, &err);
    assert_memory_equal(base + 4096, part, sizeof part);
    assert_memory_equal(base + 1024, sum, sizeof sum);
    for (int i = 0; i < 64; i++) assert_true(sum[i] == part[i] + in[i] && (in[i] > 0) == (part[i] > 0));
    kd_program_free(p);
    kd_backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(cheap), cmocka_unit_test(pinned), cmocka_unit_test(pinned_in_place) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
