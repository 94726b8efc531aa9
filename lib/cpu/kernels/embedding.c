// Rows of a table by index, and the gradient of the table. kd_program_set has checked the indices.    op: lib/op/embedding.c
#include "cpu/kernels/rows.h"

enum { COLUMNS = 64 };

static void take(const kd_node *n, void *scratch)
{
    (void)scratch;
    const float *from = n->in[0]->data;
    const int64_t *index = n->in[1]->data, count = images_of(n->in[1]), c = kd_last(n->in[0]);
    float *y = n->out[0]->data;
    for (int64_t i = 0; i < count; i++) memcpy(y + i * c, from + index[i] * c, (size_t)c * sizeof *y);
}

typedef struct job { int64_t count, rows, c; const int64_t *index; const float *dy; float *table; } job;

/// A tile is a stripe of columns, so each row is added to by one thread, in image order.
static void add_tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const int64_t first = t * COLUMNS, width = j->c - first < COLUMNS ? j->c - first : COLUMNS;
    for (int64_t r = 0; r < j->rows; r++) memset(j->table + r * j->c + first, 0, (size_t)width * sizeof(float));
    for (int64_t i = 0; i < j->count; i++) {
        float *to = j->table + j->index[i] * j->c + first;
        const float *dy = j->dy + i * j->c + first;
        for (int64_t k = 0; k < width; k++) to[k] += dy[k];
    }
}

static void grad(const kd_node *n, void *scratch)
{
    (void)scratch;
    const kd_shape *s = &n->out[0]->shape;
    job j = { images_of(n->in[0]), s->d[0], s->d[1], n->in[0]->data, n->in[1]->data, n->out[0]->data };
    kd_parallel(ceil_div(j.c, COLUMNS), add_tile, &j);
}

const kd_kernel KD_KERNEL(embedding) = { take, NULL };
const kd_kernel KD_KERNEL(embedding_grad) = { grad, NULL };
