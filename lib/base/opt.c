// The command line: one table of options gives parsing here, and --help and completion in opt_help.c.
#include "base/opt.h"
#include "base/memory.h"
#include "base/opt_table.h"
#include "base/parallel.h"
#include "base/talk.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef KD_VERSION
#define KD_VERSION "unknown"
#endif

// Values -------------------------------------------------------------------------------------------------------

static int fail_range(const kd_opt *o, const char *name, const char *what, const char *got, kd_err *err)
{
    if (o->lo == -INFINITY && o->hi == INFINITY)
        return kd_fail(err, KD_EUSAGE, "%s: expected %s, got '%s'", name, what, got);
    if (o->hi == INFINITY)
        return kd_fail(err, KD_EUSAGE, "%s: expected %s of at least %.15g, got '%s'", name, what, o->lo, got);
    return kd_fail(err, KD_EUSAGE, "%s: expected %s %.15g to %.15g, got '%s'", name, what, o->lo, o->hi, got);
}

static int take_int(const kd_opt *o, const char *name, const char *s, kd_err *err)
{
    char *end;
    errno = 0;
    const long long v = strtoll(s, &end, 10);
    const bool number = *s && !s[strspn(s, "+-0123456789")] && !*end && end != s;
    if (!number || errno || (double)v < o->lo || (double)v > o->hi)
        return fail_range(o, name, "an integer", s, err);
    *(int64_t *)o->to = v;
    return 0;
}

static int take_u64(const kd_opt *o, const char *name, const char *s, kd_err *err)
{
    errno = 0;
    const unsigned long long v = strtoull(s, NULL, 10);
    if (!*s || s[strspn(s, "0123456789")] || errno)
        return kd_fail(err, KD_EUSAGE, "%s: expected an integer 0 to 18446744073709551615, got '%s'", name, s);
    *(uint64_t *)o->to = v;
    return 0;
}

static int take_num(const kd_opt *o, const char *name, const char *s, kd_err *err)
{
    char *end;
    const double v = strtod(s, &end);
    const bool number = *s && !s[strspn(s, "+-.eE0123456789")] && !*end && end != s && isfinite(v);
    if (!number || v < o->lo || v > o->hi)
        return fail_range(o, name, "a number", s, err);
    *(double *)o->to = v;
    return 0;
}

static int take_choice(const kd_opt *o, const char *name, const char *s, kd_err *err)
{
    enum { MOST = 64 };
    const char *known[MOST];
    int n = 0;
    char *list = kd_strdup(o->choices), *at = list;
    if (!list)
        return kd_fail_memory(err, "options");
    for (char *word; (word = strsep(&at, "|")) && n < MOST; n++) {
        known[n] = word;
        if (!strcmp(word, s))
            *(const char **)o->to = s;
    }
    if (*(const char **)o->to != s) {
        const char *near = kd_nearest(s, known, n);
        kd_fail(err, KD_EUSAGE, "%s: expected %s, got '%s'%s%s%s", name, o->choices, s, near ? " (did you mean " : "",
                near ? near : "", near ? "?)" : "");
    }
    free(list);
    return err->code;
}

static int take_value(const kd_opt *o, const char *name, const char *s, kd_err *err)
{
    switch (o->type) {
    case KD_OPT_T_INT: return take_int(o, name, s, err);
    case KD_OPT_T_U64: return take_u64(o, name, s, err);
    case KD_OPT_T_NUM: return take_num(o, name, s, err);
    case KD_OPT_T_CHOICE: return take_choice(o, name, s, err);
    default: *(const char **)o->to = s; return 0;
    }
}

// Words --------------------------------------------------------------------------------------------------------

typedef struct parser {
    const kd_opt *o;            // the tool's options, then the common ones
    int argc, at;               // argv[at] is looked at
    char **argv;
    int words;                  // words found so far: moved to argv[1 .. words], where kd_args points
    bool only_words;            // after --
    bool version, complete, help;
    kd_common *common;
    kd_err *err;
} parser;

static int fail_unknown(parser *p, const char *given, int n)
{
    enum { MOST = 128 };
    const char *known[MOST];
    char word[64];
    int count = 0;
    for (const kd_opt *o = p->o; o->type && count < MOST; o++)
        if (option_takes_dash(o))
            known[count++] = o->name;
    snprintf(word, sizeof word, "%.*s", n, given);
    const char *near = kd_nearest(word, known, count);
    return kd_fail(p->err, KD_EUSAGE, "unknown option --%.*s%s%s%s", n, given, near ? " (did you mean --" : " (see --help)",
                   near ? near : "", near ? "?)" : "");
}

static int note_given(kd_common *c, const void *to, kd_err *err)
{
    const void **more = kd_realloc(c->given, (size_t)(c->n_given + 1) * sizeof *more);
    if (!more)
        return kd_fail_memory(err, "options");
    c->given = more;
    c->given[c->n_given++] = to;
    return 0;
}

bool kd_given(const kd_common *common, const void *to)
{
    for (int i = 0; i < common->n_given; i++)
        if (common->given[i] == to)
            return true;
    return false;
}

// Gives an option its value: what stands behind `=` or the letter, else the next word.
static int take(parser *p, const kd_opt *o, const char *name, const char *joined)
{
    if (o->type == KD_OPT_T_FLAG) {
        if (joined)
            return kd_fail(p->err, KD_EUSAGE, "%s takes no value, got '%s'", name, joined);
        *(bool *)o->to = true;
        return note_given(p->common, o->to, p->err);
    }
    if (!joined && p->at + 1 >= p->argc)
        return kd_fail(p->err, KD_EUSAGE, "%s needs a value", name);
    KD_TRY(note_given(p->common, o->to, p->err));
    return take_value(o, name, joined ? joined : p->argv[++p->at], p->err);
}

static int take_long(parser *p, const char *s)
{
    const int n = (int)strcspn(s, "=");
    const char *joined = s[n] ? s + n + 1 : NULL;
    for (const kd_opt *o = p->o; o->type; o++)
        if (option_takes_dash(o) && !strncmp(o->name, s, (size_t)n) && !o->name[n]) {
            char name[80];
            snprintf(name, sizeof name, "--%s", o->name);
            return take(p, o, name, joined);
        }
    return fail_unknown(p, s, n);
}

static int take_letters(parser *p, const char *s)
{
    for (; *s; s++) {
        const kd_opt *o = p->o;
        while (o->type && !(option_takes_dash(o) && o->letter == *s))
            o++;
        const char name[] = { '-', *s, 0 };
        if (!o->type)
            return kd_fail(p->err, KD_EUSAGE, "unknown option %s (see --help)", name);
        const bool flag = o->type == KD_OPT_T_FLAG;
        KD_TRY(take(p, o, name, flag || !s[1] ? NULL : s + 1));
        if (!flag)
            break;
    }
    return 0;
}

static int parse_words(parser *p)
{
    for (p->at = 1; p->at < p->argc; p->at++) {
        char *s = p->argv[p->at];
        if (p->only_words || s[0] != '-' || !s[1])
            p->argv[++p->words] = s;
        else if (!strcmp(s, "--"))
            p->only_words = true;
        else if (s[1] == '-')
            KD_TRY(take_long(p, s + 2));
        else
            KD_TRY(take_letters(p, s + 1));
        if (p->help || p->version || p->complete)          // asked for: nothing after it matters
            return 0;
    }
    return 0;
}

// Words go to ARG and ARGS entries in the table's order.
static int give_words(parser *p)
{
    int used = 0;
    for (const kd_opt *o = p->o; o->type; o++) {
        const int left = p->words - used;
        if (option_takes_dash(o))
            continue;
        if (left < (int)o->lo)
            return kd_fail(p->err, KD_EUSAGE, "missing %s (see --help)", o->name);
        if (o->type == KD_OPT_T_ARGS) {
            *(kd_args *)o->to = (kd_args){ left, (const char **)(p->argv + 1 + used) };
            used = p->words;
        } else if (left) {
            *(const char **)o->to = p->argv[1 + used++];
        }
    }
    if (used < p->words)
        return kd_fail(p->err, KD_EUSAGE, "unexpected word '%s' (see --help)", p->argv[1 + used]);
    return 0;
}

// History ------------------------------------------------------------------------------------------------------

static int add_quoted(kd_str *s, const char *word, kd_err *err)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%";
    bool odd = false;                                      // bytes that a line of text should not hold
    for (const char *c = word; *c; c++)
        odd |= (unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f;
    if (*word && !word[strspn(word, plain)])
        return kd_str_add(s, word, strlen(word), err);
    KD_TRY(kd_str_printf(s, err, odd ? "$'" : "'"));
    for (const char *c = word; *c; c++)
        if (odd && ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f))
            KD_TRY(kd_str_printf(s, err, "\\%03o", (unsigned char)*c));
        else if (*c == '\'' || (odd && *c == '\\'))
            KD_TRY(kd_str_printf(s, err, odd ? "\\%c" : "'\\%c'", *c));
        else
            KD_TRY(kd_str_add(s, c, 1, err));
    return kd_str_add(s, "'", 1, err);
}

static int make_history(char **line, const char *tool, int argc, char **argv, kd_err *err)
{
    kd_str s = {0};
    int code = kd_str_printf(&s, err, "%s", tool);
    for (int i = 1; i < argc && !code; i++) {
        code = kd_str_add(&s, " ", 1, err);
        if (!code)
            code = add_quoted(&s, argv[i], err);
    }
    if (code)
        free(s.p);
    else
        *line = s.p;
    return code;
}

// ---------------------------------------------------------------------------------------------------------------

static int join_tables(kd_opt **joined, const kd_opt *own, const kd_opt *shared, kd_err *err)
{
    int n = 0, m = 0;
    while (own[n].type)
        n++;
    while (shared[m].type)
        m++;
    kd_opt *o = kd_alloc(sizeof *o * (size_t)(n + m + 1));
    if (!o)
        return kd_fail_memory(err, "options");
    memcpy(o, own, sizeof *o * (size_t)n);
    memcpy(o + n, shared, sizeof *o * (size_t)(m + 1));
    *joined = o;
    return 0;
}

int kd_cli_parse(const char *tool, const char *summary, const kd_opt *opts, int with, int argc, char **argv,
                 kd_common *common, kd_err *err)
{
    parser p = { .argc = argc, .argv = argv, .common = common, .err = err };
    *common = (kd_common){ .out = "-", .device = "auto" };
    enum { OUT = 0, THREADS, DEVICE, ALWAYS };
    const kd_opt all[] = {
        KD_OPT_STR('o', "out", &common->out, "FILE", "Output file, which appears only when complete (default -, standard output)"),
        KD_OPT_INT(0, "threads", &common->threads, 0, 4096, "Number of threads, 0 for all cores (default 0, or $OMP_NUM_THREADS)"),
        KD_OPT_STR(0, "device", &common->device, "auto|cpu|cuda|FILE",
                   "Compute device: auto, cpu, cuda, cuda:N or the path of a plug-in (default auto)"),
        KD_OPT_FLAG('q', "quiet", &common->quiet, "Print errors only"),
        KD_OPT_FLAG(0, "no-history", &common->no_history, "Do not store the command line in the output"),
        KD_OPT_FLAG('h', "help", &p.help, "Print this help and exit"),
        KD_OPT_FLAG(0, "version", &p.version, "Print the version and exit"),
        KD_OPT_FLAG(0, "complete", &p.complete, NULL),
    };
    kd_opt shared[sizeof all / sizeof *all + 1] = {0};
    int n = 0;
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++)
        if (i >= ALWAYS || (i == OUT && with & KD_WITH_OUT) || (i == THREADS && with & KD_WITH_THREADS) ||
            (i == DEVICE && with & KD_WITH_DEVICE))
            shared[n++] = all[i];

    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);                 // a write past `ulimit -f` fails with EFBIG
    kd_opt *table = NULL;
    if (make_history(&common->history, tool, argc, argv, err) || join_tables(&table, opts, shared, err))
        return err->code;
    p.o = table;
    if (!parse_words(&p)) {
        if (p.help || p.version || p.complete) {
            if (p.version)
                printf("%s (kd) %s\n", tool, KD_VERSION);
            else
                (p.help ? option_help : option_complete)(tool, summary, opts, shared);
            exit(kd_tool_exit(tool, err));
        }
        give_words(&p);
    }
    kd_free(table);
    if (common->no_history) {
        free(common->history);
        common->history = NULL;
    }
    kd_talk_init(tool, common->quiet);
    kd_threads_set(common->threads);
    return err->code;
}

void kd_cli_free(kd_common *common)
{
    free(common->history);
    free(common->given);
    common->history = NULL;
    common->given = NULL;
    common->n_given = 0;
}

// What was printed with printf may still be in its buffer. A full one that could not be written has left the error mark
// only, without its reason.
static int end_stdout(kd_err *err)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return 0;
    if (errno == EPIPE)
        return kd_fail(err, KD_EPIPE, "closed");
    return kd_fail(err, KD_EFAIL, "stdout: %s", errno ? strerror(errno) : "cannot be written");
}

int kd_tool_exit(const char *tool, const kd_err *err)
{
    kd_err last = *err;
    kd_status_clear();
    end_stdout(&last);
    if (last.code && last.msg[0])
        fprintf(stderr, "%s: %s\n", tool, last.msg);
    return last.code;
}
