// Memory: checked sizes, aligned blocks, growing strings.
#ifndef KD_MEMORY_H
#define KD_MEMORY_H
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KD_ALIGN = 64 };                    // bytes: a cache line, and the longest vector

/// Aligned to KD_ALIGN, zeroed; NULL if there is none (or the KD_FAIL_ALLOC=n test hook says so: the n-th call fails).
void *kd_alloc(size_t bytes);
void *kd_realloc(void *p, size_t bytes);   // plain realloc with the same hook; for lists, not aligned. Free with free()
void kd_free(void *p);                     // for kd_alloc'ed blocks; NULL is fine
char *kd_strdup(const char *s);            // free with free()

/// a * b into *out; false on overflow of int64 or a negative factor.
bool kd_mul(int64_t a, int64_t b, int64_t *out);

/// A growing byte string, NUL terminated. Zero-initialise; free(s.p).
typedef struct kd_str { char *p; size_t n, room; } kd_str;
int kd_str_add(kd_str *s, const char *bytes, size_t n, kd_err *err);
int kd_str_printf(kd_str *s, kd_err *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/// Bytes of memory of the machine (or of the cgroup that limits us), and this process's peak so far.
int64_t kd_memory_total(void);
int64_t kd_memory_peak(void);

#endif
