// Patches into tokens and back.    op: lib/op/patch.c
// A row of a patch, q tokens of c channels, is contiguous on both sides: copies only. A tile is a row of patches.
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t p, q, w, run;                  // w patches a row; run = q * c floats
    const float *from;
    float *to;
    bool split;
} job;

static void patches(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    (void)thread;
    const int64_t start = t * j->w * j->p * j->run;
    for (int64_t a = 0; a < j->p; a++)
        for (int64_t x = 0; x < j->w; x++) {
            const int64_t image = start + (a * j->w + x) * j->run, token = start + (x * j->p + a) * j->run;
            memcpy(j->to + (j->split ? image : token), j->from + (j->split ? token : image), (size_t)j->run * sizeof(float));
        }
}

static void move(const kd_node *n, const kd_val *tokens, bool split)
{
    const int64_t *s = tokens->shape.d, p = n->a.patch.p;
    job j = { p, n->a.patch.q, s[2], s[3] / p, n->in[0]->data, n->out[0]->data, split };
    kd_parallel(s[0] * s[1], patches, &j);
}

static void merge(const kd_node *n, void *scratch)
{
    (void)scratch;
    move(n, n->out[0], false);
}

static void split(const kd_node *n, void *scratch)
{
    (void)scratch;
    move(n, n->in[0], true);
}

const kd_kernel KD_KERNEL(patch_merge) = { merge, NULL };
const kd_kernel KD_KERNEL(patch_split) = { split, NULL };
