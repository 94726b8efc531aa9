// make bench: the training step and a denoiser call of k-diffusion's eight configs. For each, in a process of its own:
// images/s, CPU seconds an image, GFLOP/s, the share of this machine's dnnl_sgemm speed, peak memory, and the time to the end of
// the first step.
//
//   bench              all configs          bench CONFIG BATCH    one        bench --threads N ...   --seconds S
//
// tests/bench/peer.py does the same with k-diffusion; machines are noisy, so compare in one run, alternating. Where other
// programs run too, CPU seconds tell more than images/s. GFLOP are counted as if convolutions were direct: minimal filtering
// can go past what a matrix product reaches.
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/talk.h"
#include "device/device.h"
#include "train/trainer.h"
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const struct { const char *config; int64_t batch; } cases[] = {
    { "tests/golden/configs/config_mnist_transformer.json", 64 },
    { "tests/golden/configs/config_cifar10_transformer.json", 16 },
    { "tests/golden/configs/config_oxford_flowers_shifted_window.json", 2 },
    { "tests/golden/configs/config_oxford_flowers.json", 2 },
    { "tests/golden/configs/config_mnist.json", 16 },
    { "tests/golden/configs/config_cifar10.json", 8 },
    { "tests/golden/configs/config_32x32_small.json", 8 },
    { "tests/golden/configs/config_32x32_small_butterflies.json", 8 },
};

// Best of some seconds: GFLOP/s of dnnl_sgemm on a product of our size, cut in tiles of 128 rows over the threads.
enum { M = 4096, N = 768, K = 512, TILE_ROWS = 128 };
typedef struct product { float *a, *b, *c; } product;

static void sgemm_tile(void *arg, int64_t tile, int thread)
{
    const product *const p = arg;
    (void)thread;
    dnnl_sgemm('N', 'T', TILE_ROWS, N, K, 1, p->a + tile * TILE_ROWS * K, K, p->b, K, 0, p->c + tile * TILE_ROWS * N, N);
}

static double sgemm_speed(double seconds)
{
    product p = { kd_alloc(M * K * 4), kd_alloc(N * K * 4), kd_alloc(M * N * 4) };
    double best = 0;
    if (!p.a || !p.b || !p.c)
        exit(1);
    for (int64_t i = 0; i < M * K; i++)
        p.a[i] = (float)(i % 17) - 8;
    for (int64_t i = 0; i < N * K; i++)
        p.b[i] = (float)(i % 13) - 6;
    for (const double end = kd_clock() + seconds; kd_clock() < end;) {
        const double start = kd_clock();
        kd_parallel(M / TILE_ROWS, sgemm_tile, &p);
        const double speed = 2e-9 * M * N * K / (kd_clock() - start);
        best = speed > best ? speed : best;
    }
    kd_free(p.a);
    kd_free(p.b);
    kd_free(p.c);
    return best;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

// Seconds of all cores that this process has had, its own and the kernel's for it.
static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

// Random pictures with labels, as many as two batches.
static int pictures(kd_dataset *d, const kd_config *c, int64_t n, kd_err *err)
{
    *d = (kd_dataset){ .n = n, .h = c->size[0], .w = c->size[1], .c = c->channels };
    const int64_t bytes = n * d->h * d->w * d->c;
    d->image = kd_alloc((size_t)bytes);
    d->label = c->classes ? kd_alloc((size_t)n * sizeof *d->label) : NULL;
    if (!d->image || (c->classes && !d->label))
        return kd_fail_memory(err, "pictures");
    const kd_rng r = kd_rng_of(0, KD_RNG_TEST, 0, 0, 0);
    for (int64_t i = 0; i < bytes; i++)
        d->image[i] = (uint8_t)kd_rng_u32(&r, (uint64_t)i);
    for (int64_t i = 0; d->label && i < n; i++)
        d->label[i] = i % c->classes;
    return 0;
}

// Seconds of a step and a call, medians; CPU seconds of these, means; seconds to the end of the first step.
typedef struct result { double train, call, train_cpu, call_cpu, first, gflop_train, gflop_call; } result;

enum { MOST = 1000 };

static int take_step(kd_trainer *t, const kd_dataset *d, kd_err *err)
{
    kd_step_stats stats[KD_STEPS_QUEUED];
    int n;
    KD_TRY(kd_trainer_step(t, d, err));
    return kd_trainer_results(t, true, stats, &n, err);
}

static int time_training(const char *config, int64_t batch, double seconds, double start, result *r, kd_err *err)
{
    kd_config *c = NULL;
    kd_backend *be = NULL;
    kd_trainer *t = NULL;
    kd_dataset d = { 0 };
    double spent[MOST];
    int n = 0;
    KD_TRY(kd_config_load(&c, config, err));
    KD_TRY(pictures(&d, c, 2 * batch, err));
    KD_TRY(kd_device_open(&be, "cpu", err));
    const kd_train_opts o = { .batch = batch, .accum = 1, .clip = 1 };
    KD_TRY(kd_trainer_new(&t, c, &o, NULL, be, err));
    KD_TRY(take_step(t, &d, err));
    r->first = kd_clock() - start;
    const double cpu = cpu_seconds();
    for (const double end = kd_clock() + seconds; n < 3 || (n < MOST && kd_clock() < end); n++) {
        const double from = kd_clock();
        KD_TRY(take_step(t, &d, err));
        spent[n] = kd_clock() - from;
    }
    r->train_cpu = (cpu_seconds() - cpu) / n;
    r->train = median(spent, n);
    r->gflop_train = kd_trainer_plan(t).flops * (double)batch * 1e-9;
    kd_trainer_free(t);
    kd_backend_close(be);
    kd_free(d.image);
    kd_free(d.label);
    return 0;
}

static int time_calls(const char *config, int64_t batch, double seconds, result *r, kd_err *err)
{
    kd_config *c = NULL;
    kd_model *m = NULL;
    kd_backend *be = NULL;
    kd_denoiser *den = NULL;
    double spent[MOST];
    int n = 0;
    KD_TRY(kd_config_load(&c, config, err));
    KD_TRY(kd_model_new(&m, c, 0, err));
    KD_TRY(kd_device_open(&be, "cpu", err));
    KD_TRY(kd_denoiser_new(&den, m, be, err));
    const int64_t size = c->size[0] * c->size[1] * c->channels;
    float *const x = kd_alloc((size_t)(batch * size) * sizeof *x), *const sigma = kd_alloc((size_t)batch * sizeof *sigma);
    int64_t *const label = kd_alloc((size_t)batch * sizeof *label);
    if (!x || !sigma || !label)
        return kd_fail_memory(err, "images");
    const kd_rng rng = kd_rng_of(0, KD_RNG_TEST, 1, 0, 0);
    kd_rng_normal(&rng, x, 0, batch * size);
    for (int64_t i = 0; i < batch; i++)
        sigma[i] = 1;
    const kd_cond cond = { .class_cond = c->classes ? label : NULL };
    KD_TRY(kd_denoise(den, batch, x, sigma, &cond, NULL, x, err));
    const double cpu = cpu_seconds();
    for (const double end = kd_clock() + seconds; n < 3 || (n < MOST && kd_clock() < end); n++) {
        const double from = kd_clock();
        KD_TRY(kd_denoise(den, batch, x, sigma, &cond, NULL, x, err));
        spent[n] = kd_clock() - from;
    }
    r->call_cpu = (cpu_seconds() - cpu) / n;
    r->call = median(spent, n);
    r->gflop_call = kd_denoiser_flops(den) * 1e-9;
    kd_denoiser_free(den);
    kd_backend_close(be);
    kd_model_free(m);
    kd_free(x);
    kd_free(sigma);
    kd_free(label);
    return 0;
}

static int one(const char *config, int64_t batch, double seconds, double sgemm)
{
    kd_err err = { 0 };
    result r = { 0 };
    const double start = kd_clock();
    if (time_training(config, batch, seconds, start, &r, &err) || time_calls(config, batch, seconds / 2, &r, &err)) {
        fprintf(stderr, "bench: %s\n", err.msg);
        return err.code;
    }
    const char *const slash = strrchr(config, '/');
    const double train = r.gflop_train / r.train, call = r.gflop_call / r.call, b = (double)batch;
    printf("%-42s %3lld  train %7.3f s/step %8.2f images/s %6.3f CPU s/image %6.1f GFLOP/s %3.0f %%  "
           "denoise %7.3f s %8.2f images/s %6.3f CPU s/image %6.1f GFLOP/s %3.0f %%  "
           "first step %5.2f s  peak %5.0f MB\n", slash ? slash + 1 : config, (long long)batch,
           r.train, b / r.train, r.train_cpu / b, train, 100 * train / sgemm, r.call, b / r.call, r.call_cpu / b, call,
           100 * call / sgemm, r.first, (double)kd_memory_peak() / 0x1p20);
    return 0;
}

// A process for each config, so that its peak memory is its own.
static int alone(const char *self, const char *config, int64_t batch, int64_t threads, double seconds, double sgemm)
{
    char command[1024];
    snprintf(command, sizeof command, "'%s' --threads %lld --seconds %g --sgemm %g '%s' %lld", self, (long long)threads, seconds, sgemm,
             config, (long long)batch);
    return system(command);
}

int main(int argc, char **argv)
{
    double seconds = 8, sgemm = 0;
    int64_t threads = 0;
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2)
        if (!strcmp(argv[i], "--threads"))
            threads = atoll(argv[i + 1]);
        else if (!strcmp(argv[i], "--seconds"))
            seconds = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--sgemm"))
            sgemm = atof(argv[i + 1]);
        else
            return fprintf(stderr, "bench: unknown option %s\n", argv[i]), 2;
    kd_threads_set(threads);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (sgemm <= 0) {
        sgemm = sgemm_speed(1);
        printf("dnnl_sgemm on %d threads: %.1f GFLOP/s\n", kd_threads(), sgemm);
    }
    if (i < argc)
        return one(argv[i], i + 1 < argc ? atoll(argv[i + 1]) : 1, seconds, sgemm);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        if (alone(argv[0], cases[k].config, cases[k].batch, threads, seconds, sgemm))
            return 1;
    return 0;
}
