// Talk on stderr: one status line on a terminal, plain lines elsewhere. Only tools call this.
#ifndef KD_TALK_H
#define KD_TALK_H
#include <stdbool.h>
#include <stdint.h>

/// Sets who talks, once at the start of a tool: name for prefixes, quiet for -q.
void kd_talk_init(const char *tool, bool quiet);

/// One plain line "TOOL: text" (nothing with -q). Clears a status line first.
void kd_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/// A status line, rewritten at most six times a second, shown only if stderr is a terminal and not -q.
void kd_status(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void kd_status_clear(void);
bool kd_talk_is_terminal(void);

/// Status "unit done/total  speed unit/s  time left". First call starts the clock; done == total clears the line.
void kd_progress(const char *unit, int64_t done, int64_t total);

/// Seconds on a monotonic clock.
double kd_clock(void);

/// "1h02m", "3m20s", "12s" into buf (at least 16 bytes); returns buf.
char *kd_duration(char *buf, double seconds);

#endif
