#include "train/log.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct kd_log { FILE *f; char *path; bool file; };

static int fail(const kd_log *log, int code, kd_err *err)
{
    return kd_fail(err, errno == EPIPE ? KD_EPIPE : code, "%s: %s", log->path, strerror(errno));
}

// Step and elapsed time of a line; false if it is not one of ours.
static bool parse_line(const char *line, size_t n, int64_t *step, double *elapsed)
{
    json_t *j = json_loadb(line, n, 0, NULL), *s = json_object_get(j, "step"), *e = json_object_get(j, "elapsed");
    const bool good = json_is_integer(s);
    if (good) *step = json_integer_value(s);
    if (json_is_number(e)) *elapsed = json_number_value(e);
    json_decref(j);
    return good;
}

// Cuts the file after the last line of a step up to `step`.
static int cut(kd_log *log, int64_t step, double *elapsed, kd_err *err)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    off_t keep = 0;

    while ((n = getline(&line, &room, log->f)) > 0 && line[n - 1] == '\n') {
        int64_t at;
        double seconds = *elapsed;
        if (!parse_line(line, (size_t)n, &at, &seconds) || at > step) break;
        *elapsed = seconds;
        keep += n;
    }
    free(line);
    if (fseeko(log->f, keep, SEEK_SET) || ftruncate(fileno(log->f), keep)) return fail(log, KD_EFAIL, err);
    return 0;
}

int kd_log_open(kd_log **to, const char *path, int64_t step, double *elapsed, kd_err *err)
{
    struct stat st;
    *to = NULL;
    *elapsed = 0;
    kd_log *log = kd_alloc(sizeof *log);
    if (!log || !(log->path = kd_strdup(path))) {
        kd_free(log);
        return kd_fail_memory(err, "the log");
    }
    log->file = stat(path, &st) ? errno == ENOENT : S_ISREG(st.st_mode);
    const int fd = open(path, log->file ? O_RDWR | O_CREAT | O_CLOEXEC : O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0 || !(log->f = fdopen(fd, log->file ? "r+" : "w"))) {
        fail(log, KD_EUSAGE, err);
        if (fd >= 0) close(fd);
    } else if (log->file && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        kd_fail(err, KD_EUSAGE, "%s: another process is training this run", path);
    } else if (log->file) {
        cut(log, step, elapsed, err);
    }
    if (log->f) setvbuf(log->f, NULL, _IOLBF, 0);     // for those who watch it
    if (err->code) {
        kd_log_close(log);
        return err->code;
    }
    *to = log;
    return 0;
}

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
    if (log->f) fclose(log->f);
    free(log->path);
    kd_free(log);
}
