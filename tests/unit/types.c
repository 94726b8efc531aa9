// Networks in a shorter type than F32: what is cast, what remains F32, and that a backend without kernels for it says so. All
// networks are built and planned with their gradients, on a stand-in that claims to have every kernel; nothing runs.
#include "cpu/cpu.h"
#include "diffusion/denoiser.h"
#include "op/graph.h"
#include "op/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *const configs[] = {
    "tests/golden/configs/config_mnist_transformer.json", "tests/golden/configs/config_oxford_flowers.json",
    "tests/golden/configs/config_oxford_flowers_shifted_window.json", "tests/golden/configs/config_cifar10.json",
    "tests/golden/configs/config_32x32_small.json", "tests/golden/unet_full.config.json", "tests/golden/unet_patch2_var.config.json",
    "tests/golden/v1t_classes.config.json", "examples/unet64/config.json", "examples/digits/demo.json",
};

static void must(int code, const kd_err *err) { if (code) fail_msg("%s", err->msg); }

static bool anything(const kd_backend *be, const kd_node *n)
{
    (void)be, (void)n;
    return true;
}

typedef struct built { kd_config *c; kd_params *ps; kd_loss_graph lg; kd_val **dx; int n_dx; } built;

// The loss and its gradients with respect to all parameters.
static void build(built *b, const char *path, kd_dtype compute)
{
    kd_err err = {0};
    kd_val **wrt;
    *b = (built){0};
    must(kd_config_load(&b->c, path, &err), &err);
    must(kd_params_of(&b->ps, b->c, &err), &err);
    must(kd_loss_graph_new(&b->lg, b->c, b->ps, 2, 5, true, false, compute, &err), &err);
    wrt = calloc((size_t)b->ps->n, sizeof *wrt), b->dx = calloc((size_t)b->ps->n, sizeof *b->dx);
    for (int i = 0; i < b->ps->n; i++)
        if (b->lg.net.leaf[i] && b->ps->p[i].group >= 0) wrt[b->n_dx++] = b->lg.net.leaf[i];
    kd_grad(b->lg.g, b->lg.loss, kd_const(b->lg.g, "dloss", KD_SHAPE(2), NULL), wrt, b->n_dx, b->dx);
    must(kd_graph_error(b->lg.g, &err), &err);
    free(wrt);
}

static void built_free(built *b)
{
    kd_graph_free(b->lg.g);
    kd_loss_graph_free(&b->lg);
    kd_params_free(b->ps);
    kd_config_free(b->c);
    free(b->dx);
}

static int64_t plan(built *b, kd_backend *be)
{
    kd_plan p;
    kd_err err = {0};
    kd_val **outs = calloc((size_t)b->n_dx + 1, sizeof *outs);
    int n = 0;
    outs[n++] = b->lg.loss;
    for (int i = 0; i < b->n_dx; i++)
        if (b->dx[i]) outs[n++] = b->dx[i];
    must(kd_plan_make(&p, b->lg.g, be, outs, n, &err), &err);
    const int64_t bytes = p.arena;
    kd_plan_free(&p);
    free(outs);
    return bytes;
}

// Every value is of the compute type or F32, and what must not lose digits is F32. Returns how many are of the compute type.
static int check_types(const built *b, const char *path, kd_dtype compute)
{
    int shorter = 0;
    if (b->lg.loss->dtype != KD_F32 || b->lg.x0->dtype != KD_F32 || b->lg.noise->dtype != KD_F32) fail_msg("%s: not F32", path);
    for (int i = 0; i < b->n_dx; i++)
        if (b->dx[i] && b->dx[i]->dtype != KD_F32) fail_msg("%s: the gradient of a weight is not F32", path);
    for (int i = 0; i < b->lg.g->n_node; i++) {
        const kd_node *n = b->lg.g->node[i];
        for (int k = 0; k < n->n_out; k++) {
            const kd_val *v = n->out[k];
            if (!v) continue;
            shorter += v->dtype == compute;
            // A value's gradient has its type, except that the gradient of a weight that was cast is F32.
            if (v->grad && v->grad->dtype != v->dtype && n->op != KD_OP_cast)
                fail_msg("%s: %s in %s is %s, its gradient %s", path, kd_op_name[n->op], n->name, kd_dtype_name(v->dtype),
                         kd_dtype_name(v->grad->dtype));
            // Values of one row per image follow the noise level and the conditions; means of an image are the exception.
            if (v->dtype == compute && v->shape.n == 2 && v->shape.d[0] == 2 && n->op == KD_OP_linear && n->in[0]->dtype != compute)
                fail_msg("%s: %s in %s has lost digits", path, kd_op_name[n->op], n->name);
        }
        const bool product = n->op == KD_OP_linear || n->op == KD_OP_linear_geglu || n->op == KD_OP_linear_grad_x
                             || n->op == KD_OP_conv2d || n->op == KD_OP_conv2d_grad_x;
        if (product && n->in[0]->dtype != n->in[1]->dtype)
            fail_msg("%s: %s of %s and %s in %s", path, kd_op_name[n->op], kd_dtype_name(n->in[0]->dtype),
                     kd_dtype_name(n->in[1]->dtype), n->name);
    }
    return shorter;
}

static void networks(void **state)
{
    (void)state;
    kd_backend *be;
    kd_err err = {0};
    must(kd_cpu_open(&be, &err), &err);
    kd_backend all = *be;
    all.supports = anything;
    int64_t sum = 0;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        built full, half;
        build(&full, configs[i], KD_F32);
        build(&half, configs[i], KD_BF16);
        assert_int_equal(check_types(&full, configs[i], KD_BF16), 0);
        assert_true(check_types(&half, configs[i], KD_BF16) > 20);
        const int64_t f32 = plan(&full, &all), bf16 = plan(&half, &all);
        sum += f32 - bf16;
        if (bf16 > f32) fail_msg("%s: %lld bytes in BF16, %lld in F32", configs[i], (long long)bf16, (long long)f32);
        built_free(&full);
        built_free(&half);
    }
    assert_true(sum > 0);                              // weights' gradients, which are F32, take most of these small batches
    kd_backend_close(be);
}

static void refused(void **state)
{
    (void)state;
    kd_backend *be;
    kd_plan p;
    built b;
    kd_err err = {0};
    must(kd_cpu_open(&be, &err), &err);
    build(&b, "examples/digits/demo.json", KD_BF16);
    assert_int_equal(kd_plan_make(&p, b.lg.g, be, &b.lg.loss, 1, &err), KD_EFAIL);
    assert_non_null(strstr(err.msg, " has no kernel for "));
    assert_non_null(strstr(err.msg, " of BF16"));
    kd_plan_free(&p);
    built_free(&b);
    kd_backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(networks), cmocka_unit_test(refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
