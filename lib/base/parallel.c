// The parallel loop over fixed tiles: a small pool of POSIX threads.
//
// OpenMP's loop ends in a barrier that every thread must reach, and its threads spin there: where other programs want the
// cores too, a loop of a few microseconds then takes as long as the scheduler likes (measured with twelve busy processes on
// two cores: 2.5 s a training step against 0.4 s). Here the caller works too and waits only for threads that have
// joined: one that is not running when a loop starts misses it. Idle threads spin for a moment, then sleep.
#include "base/parallel.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 1024, SPINS = 4000, CLOSED = 1 << 30 };

static struct {
    // the present loop; written while it is closed and nobody is in it
    kd_tile_fn fn;
    void *arg;
    int64_t n;
    _Alignas(64) atomic_int_fast64_t next;     // tile to take
    _Alignas(64) atomic_int state;             // threads inside, plus CLOSED while none may join
    _Alignas(64) atomic_uint loops;            // counts loops: a change wakes the idle
    atomic_int sleepers;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int started;                               // threads running beside the caller
    bool stop;                                 // under the lock
    pthread_t thread[MOST];
} pool = { .state = CLOSED, .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

static int threads;
static _Thread_local bool inside;              // in a tile: loops are then run in place
static atomic_flag busy = ATOMIC_FLAG_INIT;    // a second caller from another thread runs its loop alone

static inline void pause_briefly(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static void run_tiles(int thread)
{
    inside = true;
    for (int64_t i; (i = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed)) < pool.n;)
        pool.fn(pool.arg, i, thread);
    inside = false;
}

// Joins the loop if it is open; it then cannot end without us.
static void join_loop(int thread)
{
    if (!(atomic_fetch_add(&pool.state, 1) & CLOSED))
        run_tiles(thread);
    atomic_fetch_sub(&pool.state, 1);
}

// Waits until the count of loops is no longer `seen`. False: the pool stops.
static bool await(unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool.loops, memory_order_acquire) != seen)
            return true;
        pause_briefly();
    }
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.sleepers, 1);
    while (atomic_load(&pool.loops) == seen && !pool.stop)
        pthread_cond_wait(&pool.wake, &pool.lock);
    atomic_fetch_sub(&pool.sleepers, 1);
    const bool stop = pool.stop;
    pthread_mutex_unlock(&pool.lock);
    return !stop;
}

static void *worker(void *arg)
{
    const int thread = (int)(intptr_t)arg;
    unsigned seen = 0;
    while (await(seen)) {
        seen = atomic_load(&pool.loops);
        join_loop(thread);
    }
    return NULL;
}

static void wake_all(void)
{
    pthread_mutex_lock(&pool.lock);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
}

static void stop_pool(void)
{
    if (!pool.started)
        return;
    pthread_mutex_lock(&pool.lock);
    pool.stop = true;
    pthread_mutex_unlock(&pool.lock);
    atomic_fetch_add(&pool.loops, 1);
    wake_all();
    for (int i = 0; i < pool.started; i++)
        pthread_join(pool.thread[i], NULL);
    pool.started = 0;
    pool.stop = false;
}

// A child process has none of its parent's threads.
static void forget_pool(void)
{
    pool.started = 0;
    atomic_store(&pool.state, CLOSED);
    atomic_store(&pool.sleepers, 0);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    atomic_flag_clear(&busy);
}

// Starts what is missing; with fewer threads than asked for the loop works as well.
static void start_pool(int want)
{
    static bool once;
    if (!once)
        pthread_atfork(NULL, NULL, forget_pool);
    once = true;
    atomic_store(&pool.loops, 0);
    while (pool.started < want - 1 && !pthread_create(&pool.thread[pool.started], NULL, worker, (void *)(intptr_t)(pool.started + 1)))
        pool.started++;
}

void kd_threads_set(int64_t n)
{
    const char *const asked = getenv("OMP_NUM_THREADS");
    if (n <= 0 && asked)
        n = atoll(asked);
    if (n <= 0) {
        cpu_set_t set;                         // the cores that we may run on
        n = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    }
    n = n < 1 ? 1 : n < MOST ? n : MOST;
    if (n != threads)
        stop_pool();
    threads = (int)n;
}

int kd_threads(void)
{
    if (!threads)
        kd_threads_set(0);
    return threads;
}

static void run_in_place(int64_t n, kd_tile_fn fn, void *arg)
{
    for (int64_t i = 0; i < n; i++)
        fn(arg, i, 0);
}

void kd_parallel(int64_t n, kd_tile_fn fn, void *arg)
{
    if (n <= 1 || inside || kd_threads() == 1 || atomic_flag_test_and_set(&busy)) {
        run_in_place(n, fn, arg);
        return;
    }
    if (!pool.started)
        start_pool(threads);
    pool.fn = fn;
    pool.arg = arg;
    pool.n = n;
    atomic_store(&pool.next, 0);
    atomic_fetch_and(&pool.state, ~CLOSED);
    atomic_fetch_add(&pool.loops, 1);
    if (atomic_load(&pool.sleepers))
        wake_all();
    run_tiles(0);
    atomic_fetch_or(&pool.state, CLOSED);
    for (int i = 0; atomic_load(&pool.state) != CLOSED; i++)
        if (i < SPINS)
            pause_briefly();
        else
            sched_yield();
    atomic_flag_clear(&busy);
}

double kd_tree_sum(const double *x, int64_t n)
{
    if (n <= 1)
        return n == 1 ? x[0] : 0;
    const int64_t half = n / 2;
    return kd_tree_sum(x, half) + kd_tree_sum(x + half, n - half);
}
