// Pointwise nonlinearities and their gradients.    op: lib/op/activate.c
#include "cpu/kernels/act.h"
#include "cpu/kernels/rows.h"

typedef struct job { int64_t count; kd_act kind; const float *x, *dy; float *y; } job;

static void tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->count, ELEMENTS);
    if (j->dy) act_grad_row(j->y + p.first, j->x + p.first, j->dy + p.first, p.end - p.first, j->kind);
    else act_row(j->y + p.first, j->x + p.first, p.end - p.first, j->kind);
}

static void activate(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = { kd_count(n->in[0]), n->a.activate.kind, n->in[0]->data, n->n_in > 1 ? n->in[1]->data : NULL,
              n->out[0]->data };
    kd_parallel(ceil_div(j.count, ELEMENTS), tile, &j);
}

const kd_kernel KD_KERNEL(activate) = { activate, NULL };
const kd_kernel KD_KERNEL(activate_grad) = { activate, NULL };
