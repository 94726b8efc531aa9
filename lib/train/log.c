#include "train/log.h"
#include "base/memory.h"
#include "train/lock.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct kd_log { FILE *f; char *path; bool file, made; int64_t scored; };        // scored: the latest step with scores, or -1

static int fail(const kd_log *log, int code, kd_err *err)
{
    return kd_fail(err, errno == EPIPE ? KD_EPIPE : code, "%s: %s", log->path, strerror(errno));
}

// Reading ---------------------------------------------------------------------------------------------------------------

typedef struct log_line { int64_t step; double elapsed; bool has_elapsed, scores; } log_line;

// False if it is not one of ours.
static bool parse_line(const char *text, size_t n, log_line *l)
{
    json_t *j = json_loadb(text, n, 0, NULL), *step = json_object_get(j, "step"), *elapsed = json_object_get(j, "elapsed");
    *l = (log_line){ .scores = json_object_get(j, "scores") != NULL, .has_elapsed = json_is_number(elapsed) };
    const bool good = text[n - 1] == '\n' && json_is_integer(step)
                      && (l->scores || json_object_get(j, "note") || json_object_get(j, "loss"));
    if (good) l->step = json_integer_value(step);
    if (l->has_elapsed) l->elapsed = json_number_value(elapsed);
    json_decref(j);
    return good;
}

// The beginning of a line, where writing ended.
static bool is_half(const char *text, size_t n)
{
    static const char begin[] = "{\"step\": ";
    const size_t most = sizeof begin - 1;
    return text[n - 1] != '\n' && !strncmp(text, begin, n < most ? n : most);
}

// Where the lines up to `step` end. Among them, and at the file's beginning, none may be foreign: then it is not a log, and
// cutting it would lose what is in it. Later ones may be damaged, for they were not brought to the disk before a checkpoint.
static int scan(kd_log *log, int64_t step, off_t *keep, double *elapsed, kd_err *err)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t n;
    long number = 0;
    log_line l = { .step = -1 };

    *keep = 0;
    rewind(log->f);
    for (int64_t at = -1; (n = getline(&text, &room, log->f)) > 0; at = l.step) {
        number++;
        if (!parse_line(text, (size_t)n, &l)) {
            if (!is_half(text, (size_t)n) && (number == 1 || at < step))
                kd_fail(err, KD_EUSAGE, "%s: line %ld is not one of a training log: it is left alone, --log names another file",
                        log->path, number);
            break;
        }
        if (l.step > step) break;
        if (l.has_elapsed) *elapsed = l.elapsed;
        if (l.scores) log->scored = l.step;
        *keep += n;
    }
    if (n < 0 && !feof(log->f)) fail(log, KD_EFAIL, err);        // what could not be read is not cut
    free(text);
    return err->code;
}

int kd_log_resume(kd_log *log, int64_t step, double *elapsed, kd_err *err)
{
    off_t keep;
    *elapsed = 0;
    log->scored = -1;
    if (!log->file) return 0;
    KD_TRY(scan(log, step, &keep, elapsed, err));
    if (fseeko(log->f, keep, SEEK_SET) || ftruncate(fileno(log->f), keep)) return fail(log, KD_EFAIL, err);
    return 0;
}

bool kd_log_scored(const kd_log *log, int64_t step) { return log->scored == step; }

// Opening ---------------------------------------------------------------------------------------------------------------

static int open_file(kd_log *log, kd_err *err)
{
    int fd;
    double elapsed = 0;
    off_t keep;
    KD_TRY(kd_lock_open(&fd, &log->made, log->path, "another process is training this run", err));
    if (!(log->f = fdopen(fd, "r+"))) {
        fail(log, KD_EUSAGE, err);
        close(fd);
        return err->code;
    }
    setvbuf(log->f, NULL, _IOLBF, 0);                 // for those who watch it
    return scan(log, -1, &keep, &elapsed, err);
}

static int open_other(kd_log *log, kd_err *err)
{
    const int fd = open(log->path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && (log->f = fdopen(fd, "w"))) {
        setvbuf(log->f, NULL, _IOLBF, 0);
        return 0;
    }
    fail(log, KD_EUSAGE, err);
    if (fd >= 0) close(fd);
    return err->code;
}

int kd_log_open(kd_log **to, const char *path, kd_err *err)
{
    struct stat st;
    *to = NULL;
    kd_log *log = kd_alloc(sizeof *log);
    if (!log || !(log->path = kd_strdup(path))) {
        kd_free(log);
        return kd_fail_memory(err, "the log");
    }
    log->scored = -1;
    log->file = stat(path, &st) ? errno == ENOENT : S_ISREG(st.st_mode);
    if (log->file ? open_file(log, err) : open_other(log, err)) kd_log_close(log);
    else *to = log;
    return err->code;
}

// Writing ---------------------------------------------------------------------------------------------------------------

// Numbers with enough digits to be read back; JSON knows no NaN.
static int number(kd_str *s, const char *key, const char *format, double value, kd_err *err)
{
    KD_TRY(kd_str_printf(s, err, ", \"%s\": ", key));
    if (!isfinite(value)) return kd_str_printf(s, err, "null");
    char text[64];
    snprintf(text, sizeof text, format, value);
    return kd_str_printf(s, err, "%s", text);
}

static int put(kd_log *log, const kd_str *s, kd_err *err)
{
    return fprintf(log->f, "%s}\n", s->p) < 0 ? fail(log, KD_EFAIL, err) : 0;
}

int kd_log_step(kd_log *log, int64_t step, const kd_step_stats *s, double images_per_s, double elapsed, kd_err *err)
{
    kd_str line = {0};
    if (kd_str_printf(&line, err, "{\"step\": %lld", (long long)step) || number(&line, "loss", "%.9g", s->loss, err)
        || number(&line, "ema_loss", "%.9g", s->ema_loss, err) || number(&line, "lr", "%.9g", s->lr, err)
        || number(&line, "grad_norm", "%.9g", s->grad_norm, err)
        || (!isnan(s->gns) && number(&line, "gns", "%.9g", s->gns, err)) || number(&line, "images_per_s", "%.4g", images_per_s, err)
        || number(&line, "elapsed", "%.3f", elapsed, err)) goto done;
    put(log, &line, err);
done:
    free(line.p);
    return err->code;
}

int kd_log_note(kd_log *log, int64_t step, const char *note, kd_err *err)
{
    kd_str line = {0};
    json_t *text = json_string(note);
    char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    if (!quoted) kd_fail_memory(err, "the log");
    else if (!kd_str_printf(&line, err, "{\"step\": %lld, \"note\": %s", (long long)step, quoted)) put(log, &line, err);
    free(quoted);
    json_decref(text);
    free(line.p);
    return err->code;
}

int kd_log_scores(kd_log *log, int64_t step, const kd_scores *s, bool random, kd_err *err)
{
    kd_str line = {0};
    kd_str_printf(&line, err, "{\"step\": %lld, \"scores\": {", (long long)step);
    for (int i = 0; !err->code && i < s->n; i++)
        kd_str_printf(&line, err, "%s\"%s\": %.9g", i ? ", " : "", s->score[i].name, s->score[i].value);
    if (!err->code && !kd_str_printf(&line, err, "}%s", random ? ", \"random features\": true" : "")) put(log, &line, err);
    if (!err->code) log->scored = step;
    free(line.p);
    return err->code;
}

int kd_log_sync(kd_log *log, kd_err *err)
{
    if (fflush(log->f)) return fail(log, KD_EFAIL, err);
    return log->file && fsync(fileno(log->f)) ? fail(log, KD_EFAIL, err) : 0;
}

void kd_log_close(kd_log *log)
{
    if (!log) return;
    if (log->f) {
        fflush(log->f);
        if (log->made) kd_lock_remove(fileno(log->f), log->path);
        fclose(log->f);
    }
    free(log->path);
    kd_free(log);
}
