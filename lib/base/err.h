// Errors: a user's mistake or a bad file becomes one sentence and an exit code; a programmer's mistake is an assert.
// The library never prints and never exits.
#ifndef KD_ERR_H
#define KD_ERR_H

enum {
    KD_OK = 0,
    KD_EFAIL = 1,     // the work failed: disk, memory, device, NaN
    KD_EUSAGE = 2,    // wrong option or config, missing file, parts that do not fit each other
    KD_EFORMAT = 3,   // not a valid file or stream
    KD_EINT = 130,    // interrupted (SIGINT) after state was saved; 143 for SIGTERM
    KD_ETERM = 143,
    KD_EPIPE = 141,   // the reader of our output went away: a tool ends quietly
};

typedef struct kd_err {
    int code;         // KD_OK or the first error's code: the tool's exit status
    char msg[4096];   // one line, no newline; empty for KD_EPIPE
} kd_err;

/// Records an error and returns its code. The first error wins: a later call leaves err as it is and returns the
/// first code. Control characters in the message (a file name may hold any byte) are replaced by '?'.
int kd_fail(kd_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/// Replaces control characters in a line by '?', in place: what kd_fail does, for other text that names files.
void kd_plain(char *line);

/// "out of memory" as KD_EFAIL, with what the memory was for.
int kd_fail_memory(kd_err *err, const char *what);

/// Returns from the calling function with the code if an expression is not 0; our only control-flow macro.
#define KD_TRY(expr) do { int kd_try_code_ = (expr); if (kd_try_code_) return kd_try_code_; } while (0)

#endif
