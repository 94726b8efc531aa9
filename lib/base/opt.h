// The command line of a tool: one option table gives parsing, --help and shell completion.
#ifndef KD_OPT_H
#define KD_OPT_H
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum { KD_OPT_T_END, KD_OPT_T_INT, KD_OPT_T_U64, KD_OPT_T_NUM, KD_OPT_T_STR, KD_OPT_T_FLAG, KD_OPT_T_CHOICE,
               KD_OPT_T_ARG, KD_OPT_T_ARGS } kd_opt_type;

typedef struct kd_opt {
    kd_opt_type type;
    int letter;              // short name, or 0
    const char *name;        // long name without dashes; for ARG and ARGS the word in the usage line
    void *to;                // int64_t*, uint64_t*, double*, const char**, bool*, const char**, kd_args*
    double lo, hi;           // INT and NUM: allowed range, ends included. ARG, ARGS: least and most words
    const char *choices;     // CHOICE: "a|b|c"
    const char *metavar;     // word after the option in --help: N, X, FILE, ...
    const char *help;        // one line; a default is written here by hand: "(default 64)"
} kd_opt;

typedef struct kd_args { int n; const char **v; } kd_args;   // points into argv

#define KD_OPT_INT(c, n, p, l, h, help)  { KD_OPT_T_INT, c, n, p, l, h, 0, "N", help }
#define KD_OPT_U64(c, n, p, help)        { KD_OPT_T_U64, c, n, p, 0, 0, 0, "N", help }
#define KD_OPT_NUM(c, n, p, l, h, help)  { KD_OPT_T_NUM, c, n, p, l, h, 0, "X", help }
#define KD_OPT_STR(c, n, p, meta, help)  { KD_OPT_T_STR, c, n, p, 0, 0, 0, meta, help }
#define KD_OPT_FLAG(c, n, p, help)       { KD_OPT_T_FLAG, c, n, p, 0, 0, 0, 0, help }
#define KD_OPT_CHOICE(c, n, p, ch, help) { KD_OPT_T_CHOICE, c, n, p, 0, 0, ch, 0, help }
#define KD_OPT_ARG(n, p, l, help)        { KD_OPT_T_ARG, 0, n, p, l, 1, 0, 0, help }   // l: 1 if it must be given
#define KD_OPT_ARGS(n, p, l, help)       { KD_OPT_T_ARGS, 0, n, p, l, 1 << 20, 0, 0, help }
#define KD_OPT_END                       { KD_OPT_T_END, 0, 0, 0, 0, 0, 0, 0, 0 }

/// What every tool knows. Filled by kd_cli_parse from the options all tools share.
typedef struct kd_common {
    bool quiet;              // -q: errors only
    bool no_history;         // --no-history: leave the command line out of what is written
    const char *out;         // -o FILE; "-" (stdout) by default
    int64_t threads;         // --threads; 0: all cores (then $OMP_NUM_THREADS)
    const char *device;      // --device: what kd_device_open takes
    char *history;           // "kd-sample -n 4 model.safetensors", arguments quoted for a shell; owned. NULL with --no-history
    const void **given; int n_given;   // for kd_given; owned
} kd_common;

enum { KD_WITH_OUT = 1, KD_WITH_THREADS = 2, KD_WITH_DEVICE = 4 };   // which common options the tool has beside -q, --no-history

/// Starts a tool: parses argv by the table and the common options, ignores SIGPIPE and SIGXFSZ (writes then fail
/// with KD_EPIPE or a sentence), sets the thread count. `--opt value` and `--opt=value`; letters may be joined; `--` ends
/// options; `-` is a word.
/// `--help`, `--version` and the hidden `--complete` print to stdout and exit 0, or 1 with a sentence if stdout cannot be
/// written: the only exit in the library, on the tool's behalf before any work.
/// `--complete` prints a line for each option: "--name", a tab, and what it takes ("FILE", "N", "a|b|c" or nothing).
/// Words are moved to the front of argv (kd_args points there).
/// summary   one line for --help and the man page's NAME
/// errors    KD_EUSAGE: "unknown option --foo (did you mean --food?)", "--batch: expected an integer 1 to 65536, got 'x'"
int kd_cli_parse(const char *tool, const char *summary, const kd_opt *opts, int with, int argc, char **argv,
                 kd_common *common, kd_err *err);
void kd_cli_free(kd_common *common);

/// Was an option given that is stored there (an entry's `to`)? So that no value has to mean "not given".
bool kd_given(const kd_common *common, const void *to);

/// Prints "TOOL: message" on stderr if there is an error (quietly for KD_EPIPE) and returns the exit status. What was
/// printed on stdout and could not be written is an error too: "stdout: No space left on device".
int kd_tool_exit(const char *tool, const kd_err *err);

/// The known word nearest to `word` (edit distance at most 1/3 of its length, at least 1), or NULL. For "did you mean".
const char *kd_nearest(const char *word, const char *const *known, int n);

#endif
