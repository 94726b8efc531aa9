// Talk on stderr. State is the process's, as stderr is.
#include "base/talk.h"
#include "base/err.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static struct {
    const char *tool;
    bool quiet, terminal, shown;         // shown: a status line stands on the terminal
    double last;                         // when it was written
    double started;                      // kd_progress: the first call
    int64_t first;                       // and what was done then
} talk = { .tool = "kd", .last = -1, .started = -1 };

void kd_talk_init(const char *tool, bool quiet)
{
    talk.tool = tool;
    talk.quiet = quiet;
    talk.terminal = isatty(STDERR_FILENO);
}

bool kd_talk_is_terminal(void) { return talk.terminal; }

double kd_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

char *kd_duration(char *buf, double seconds)
{
    const double most = 359999999;       // 99999h59m: fits the buffer
    const unsigned s = seconds > 0 ? (unsigned)((seconds < most ? seconds : most) + 0.5) : 0;
    const unsigned hours = s / 3600 % 100000, minutes = s / 60 % 60;
    if (hours)
        snprintf(buf, 16, "%uh%02um", hours, minutes);
    else if (minutes)
        snprintf(buf, 16, "%um%02us", minutes, s % 60);
    else
        snprintf(buf, 16, "%us", s);
    return buf;
}

void kd_status_clear(void)
{
    if (talk.shown)
        fputs("\r\033[K", stderr);
    talk.shown = false;
}

void kd_say(const char *fmt, ...)
{
    if (talk.quiet)
        return;
    char line[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    kd_plain(line);
    kd_status_clear();
    fprintf(stderr, "%s: %s\n", talk.tool, line);
}

static void put_status(char *line)
{
    struct winsize w;
    kd_plain(line);
    if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &w) && w.ws_col > 1 && strlen(line) >= w.ws_col)
        line[w.ws_col - 1] = 0;          // a wrapped line could not be rewritten
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    talk.shown = true;
}

static bool status_is_due(void)
{
    const double now = kd_clock();
    if (talk.quiet || !talk.terminal || (talk.last >= 0 && now - talk.last < 1.0 / 6))
        return false;
    talk.last = now;
    return true;
}

void kd_status(const char *fmt, ...)
{
    if (!status_is_due())
        return;
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    put_status(line);
}

void kd_progress(const char *unit, int64_t done, int64_t total)
{
    const double now = kd_clock();
    if (talk.started < 0) {
        talk.started = now;
        talk.first = done;
    }
    if (done >= total) {
        kd_status_clear();
        talk.started = -1;               // the next call begins another run
        return;
    }
    if (!status_is_due())
        return;
    const double seconds = now - talk.started, speed = seconds > 0 ? (double)(done - talk.first) / seconds : 0;
    char line[256], left[16];
    int n = snprintf(line, sizeof line, "%s %lld/%lld", unit, (long long)done, (long long)total);
    if (speed > 0)
        snprintf(line + n, sizeof line - (size_t)n, "  %.3g %s/s  %s left", speed, unit,
                 kd_duration(left, (double)(total - done) / speed));
    put_status(line);
}
