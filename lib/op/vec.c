// See vec.h. Ops without constructors for graphs: nodes are made here, on the stack, and run at once. Nodes: mix in x, y;
// advance in x, e, f (NULL: none); extrapolate in x, y; clamp in x; keep in x, known, mask; check in x, first.
#include "op/vec.h"
#include <string.h>

enum { MOST_IN = 3 };

/// A node with its values. Points into itself: not to be copied.
typedef struct single { kd_node node; kd_val in[MOST_IN], out; } single;

static void place(kd_val *v, kd_val_kind kind, kd_dtype dtype, kd_shape shape, const void *data)
{
    *v = (kd_val){ .kind = kind, .dtype = dtype, .shape = shape, .bound = true, .used = true, .data = (void *)(uintptr_t)data };
}

static void begin(single *s, kd_op_id op, kd_dtype dtype, kd_shape shape, void *out)
{
    memset(s, 0, sizeof *s);
    s->node.op = op;
    s->node.name = "";
    place(&s->out, KD_VAL_RESULT, dtype, shape, out);
    s->out.node = &s->node;
    s->node.out[0] = &s->out;
    s->node.n_out = 1;
}

static void input(single *s, kd_dtype dtype, kd_shape shape, const void *data)
{
    const int k = s->node.n_in++;
    if (!data) return;
    place(&s->in[k], KD_VAL_PARAM, dtype, shape, data);
    s->node.in[k] = &s->in[k];
}

static int run(kd_vec *v, single *s, kd_err *err)
{
    kd_backend *const be = v->be;
    kd_node *const node = &s->node;
    const size_t need = be->scratch(be, &node, 1);
    if (need > v->room) {
        kd_vec_free(v);
        KD_TRY(be->alloc(be, &v->scratch, need, err));
        v->room = need;
    }
    return be->run(be, &node, 1, v->scratch, err);
}

void kd_vec_free(kd_vec *v)
{
    if (v->scratch) v->be->free(v->be, v->scratch);
    v->scratch = NULL, v->room = 0;
}

// out [n] = op of up to three vectors and the factors a, b.
static int elementwise(kd_vec *v, kd_op_id op, int64_t n, float *out, const float *const in[MOST_IN], double a, double b, kd_err *err)
{
    single s;
    begin(&s, op, KD_F32, KD_SHAPE(n), out);
    for (int i = 0; i < MOST_IN; i++) input(&s, KD_F32, KD_SHAPE(n), in[i]);
    s.node.a.mix.a = a, s.node.a.mix.b = b;
    return run(v, &s, err);
}

int kd_vec_mix(kd_vec *v, int64_t n, float *out, double a, const float *x, double b, const float *y, kd_err *err)
{
    return elementwise(v, KD_OP_mix, n, out, (const float *[]){ x, y, NULL }, a, b, err);
}

int kd_vec_advance(kd_vec *v, int64_t n, float *out, const float *x, double a, const float *e, double b, const float *f, kd_err *err)
{
    return elementwise(v, KD_OP_advance, n, out, (const float *[]){ x, e, f }, a, b, err);
}

int kd_vec_extrapolate(kd_vec *v, int64_t n, float *out, const float *x, double f, const float *y, kd_err *err)
{
    return elementwise(v, KD_OP_extrapolate, n, out, (const float *[]){ x, y, NULL }, f, 0, err);
}

int kd_vec_keep(kd_vec *v, int64_t n, float *x, const float *known, const float *mask, kd_err *err)
{
    return elementwise(v, KD_OP_keep, n, x, (const float *[]){ x, known, mask }, 0, 0, err);
}

int kd_vec_clamp(kd_vec *v, int64_t n, float *x, double low, double high, kd_err *err)
{
    single s;
    begin(&s, KD_OP_clamp, KD_F32, KD_SHAPE(n), x);
    input(&s, KD_F32, KD_SHAPE(n), x);
    s.node.a.clamp.low = low, s.node.a.clamp.high = high;
    return run(v, &s, err);
}

int kd_vec_check(kd_vec *v, int64_t n, int64_t size, int64_t *first, const float *x, double limit, int64_t code, kd_err *err)
{
    single s;
    begin(&s, KD_OP_check, KD_I64, KD_SHAPE(n), first);
    input(&s, KD_F32, KD_SHAPE(n, size), x);
    input(&s, KD_I64, KD_SHAPE(n), first);
    s.node.a.check.limit = limit, s.node.a.check.code = code;
    return run(v, &s, err);
}

static void input_images(single *s, int64_t n, const kd_vec_images *images, int64_t first)
{
    input(s, KD_I64, KD_SHAPE(n), images->index + first);
    input(s, KD_U64, KD_SHAPE(n, 2), images->rng + 2 * first);
}

int kd_vec_normal(kd_vec *v, int64_t n, int64_t size, float *z, const kd_vec_images *images, int64_t first, kd_draw_attr draw, kd_err *err)
{
    single s;
    begin(&s, KD_OP_normal, KD_F32, KD_SHAPE(n, size), z);
    input_images(&s, n, images, first);
    s.node.a.normal = draw;
    return run(v, &s, err);
}

int kd_vec_brownian(kd_vec *v, int64_t n, int64_t size, float *z, const kd_vec_images *images, int64_t first, kd_brownian_attr path,
                    kd_err *err)
{
    single s;
    begin(&s, KD_OP_brownian, KD_F32, KD_SHAPE(n, size), z);
    input_images(&s, n, images, first);
    s.node.a.brownian = path;
    return run(v, &s, err);
}

const kd_op kd_op_mix = { .grad = NULL };
const kd_op kd_op_advance = { .grad = NULL };
const kd_op kd_op_extrapolate = { .grad = NULL };
const kd_op kd_op_keep = { .grad = NULL };
const kd_op kd_op_check = { .grad = NULL };
