// Orthonormal 2-D DCT-II and its inverse as two matrix products.    op: lib/op/dct2.c
//   y[i,j] = sum over h, w of A[i,h] B[j,w] x[h,w]     A[k,x] = sqrt((k ? 2 : 1)/n) cos(pi (2x+1) k / 2n), or its transpose
// Used on losses only (few channels, N H W (H + W) C products), so plain loops along contiguous axes do.
// A tile is one output row: first over h, all columns and channels at once; then over w, by channel.
#include "cpu/kernels/rows.h"

typedef struct job {
    int64_t h, w, c;
    const float *x, *a, *bt;               // a [h,h] = A; bt [w,w] = B transposed
    float *y, *work;                       // work [threads, 2, w*c]
} job;

/// m [n,n] is the DCT matrix, or its transpose. (2x+1)k is taken modulo the cosine's period, 4n, and stays exact.
static void matrix(float *m, int64_t n, bool transposed)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t x = 0; x < n; x++) {
            const double angle = M_PI * (double)((2 * x + 1) * k % (4 * n)) / (double)(2 * n);
            m[transposed ? x * n + k : k * n + x] = (float)(sqrt((k ? 2. : 1.) / (double)n) * cos(angle));
        }
}

static void add_scaled(float *y, const float *x, float k, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] += k * x[i];
}

static void row(void *arg, int64_t t, int thread)
{
    const job *j = arg;
    const int64_t n = j->w * j->c, image = t / j->h, i = t % j->h;
    float *over_h = j->work + thread * 2 * n, *over_w = over_h + n;     // [w,c] and [c,w]
    memset(over_h, 0, 2 * (size_t)n * sizeof(float));
    for (int64_t h = 0; h < j->h; h++) add_scaled(over_h, j->x + (image * j->h + h) * n, j->a[i * j->h + h], n);
    for (int64_t w = 0; w < j->w; w++)
        for (int64_t c = 0; c < j->c; c++) add_scaled(over_w + c * j->w, j->bt + w * j->w, over_h[w * j->c + c], j->w);
    float *y = j->y + t * n;
    for (int64_t w = 0; w < j->w; w++)
        for (int64_t c = 0; c < j->c; c++) y[w * j->c + c] = over_w[c * j->w + w];
}

static void dct2(const kd_node *n, void *scratch)
{
    const int64_t *s = n->in[0]->shape.d;
    const bool inverse = n->a.dct2.inverse;
    float *a = scratch, *bt = a + s[1] * s[1];
    job j = { s[1], s[2], s[3], n->in[0]->data, a, bt, n->out[0]->data, bt + s[2] * s[2] };
    matrix(a, s[1], inverse);
    matrix(bt, s[2], !inverse);
    kd_parallel(s[0] * s[1], row, &j);
}

static size_t scratch_of(const kd_node *n)
{
    const int64_t *s = n->in[0]->shape.d;
    return (size_t)(s[1] * s[1] + s[2] * s[2] + kd_threads() * 2 * s[2] * s[3]) * sizeof(float);
}

const kd_kernel KD_KERNEL(dct2) = { dct2, scratch_of };
