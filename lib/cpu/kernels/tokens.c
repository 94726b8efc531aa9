// Tokens of vision transformers: a class token before an image's own, and position embeddings.    op: lib/op/tokens.c
#include "cpu/kernels/rows.h"

typedef struct job { int64_t tokens, c; const float *x, *first, *pos; float *y; } job;    // tokens an image, the first one too

static void tile(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const span p = span_of(t, j->tokens, ROWS);
    for (int64_t r = p.first; r < p.end; r++) {
        const float *x = r ? j->x + (p.image * (j->tokens - 1) + r - 1) * j->c : j->first, *pos = j->pos + r * j->c;
        float *y = j->y + (p.image * j->tokens + r) * j->c;
#pragma GCC ivdep
        for (int64_t i = 0; i < j->c; i++) y[i] = x[i] + pos[i];
    }
}

static void run(const kd_node *n, void *scratch)
{
    (void)scratch;
    job j = { .tokens = kd_rows(n->in[2]), .c = kd_last(n->in[2]), .x = n->in[0]->data, .first = n->in[1]->data, .pos = n->in[2]->data,
              .y = n->out[0]->data };
    kd_parallel(images_of(n->out[0]) * ceil_div(j.tokens, ROWS), tile, &j);
}

const kd_kernel KD_KERNEL(tokens) = { run, NULL };
