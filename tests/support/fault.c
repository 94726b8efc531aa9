#include "tests/support/fault.h"
#include "base/err.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

int fault_each_allocation(const char *first, const char *second)
{
    int n = 1, status;
    do {
        const pid_t child = fork();
        if (child == 0) {
            char text[16];
            snprintf(text, sizeof text, "%d", n);
            setenv("KD_FAIL_ALLOC", text, 1);
            execl("/proc/self/exe", first, second, (char *)NULL);
            _exit(99);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == KD_EFAIL || WEXITSTATUS(status) == 0);
    } while (WEXITSTATUS(status) && ++n < 10000);
    return n;
}
