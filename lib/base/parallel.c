// The parallel loop over fixed tiles, on OpenMP.
#include "base/parallel.h"
#include <omp.h>

static int threads;

void kd_threads_set(int64_t n)
{
    if (n > 0)
        threads = n < 4096 ? (int)n : 4096;
    else
        threads = omp_get_max_threads();      // $OMP_NUM_THREADS, else the cores we may run on
}

int kd_threads(void)
{
    if (!threads)
        kd_threads_set(0);
    return threads;
}

void kd_parallel(int64_t n, kd_tile_fn fn, void *arg)
{
    if (n <= 1 || kd_threads() == 1 || omp_in_parallel()) {
        for (int64_t i = 0; i < n; i++)
            fn(arg, i, 0);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(kd_threads())
    for (int64_t i = 0; i < n; i++)
        fn(arg, i, omp_get_thread_num());
}

double kd_tree_sum(const double *x, int64_t n)
{
    if (n <= 1)
        return n == 1 ? x[0] : 0;
    const int64_t half = n / 2;
    return kd_tree_sum(x, half) + kd_tree_sum(x + half, n - half);
}
