// SIGINT and SIGTERM set a flag. Without SA_RESTART, so that a read that waits returns; the second signal kills.
#include "base/io.h"
#include <signal.h>

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    caught = number;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

void kd_catch_signals(void)
{
    struct sigaction a = { .sa_handler = on_signal };
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

int kd_interrupted(void) { return caught; }

int kd_fail_interrupted(kd_err *err)
{
    return kd_fail(err, caught == SIGTERM ? KD_ETERM : KD_EINT, "interrupted");
}
