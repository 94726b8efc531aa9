// Timestep embedding: a few hundred angles an image, in double.    op: lib/op/timestep.c
#include "cpu/kernels/rows.h"

static void timestep(const kd_node *n, void *scratch)
{
    (void)scratch;
    const int64_t dim = kd_last(n->out[0]), half = dim / 2;
    const float *const t = n->in[0]->data;
    for (int64_t i = 0; i < images_of(n->in[0]); i++) {
        float *const y = (float *)n->out[0]->data + i * dim;
        for (int64_t k = 0; k < half; k++) {
            const double angle = (double)t[i] * exp(-log(n->a.timestep.max_period) * (double)k / (double)half);
            y[k] = (float)cos(angle), y[half + k] = (float)sin(angle);
        }
        if (dim % 2) y[dim - 1] = 0;
    }
}

const kd_kernel KD_KERNEL(timestep) = { timestep, NULL };
