#include "train/run_files.h"
#include "base/memory.h"
#include "train/lock.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *join(const char *name, const char *format, int64_t step)
{
    kd_str s = {0};
    kd_err none = {0};
    char tail[64];
    snprintf(tail, sizeof tail, format, (long long)step);
    if (!kd_str_printf(&s, &none, "%s%s", name, tail)) return s.p;
    free(s.p);
    return NULL;
}

char *kd_run_checkpoint(const char *name, int64_t step) { return join(name, "_%08lld.safetensors", step); }
char *kd_run_demo(const char *name, int64_t step) { return join(name, "_demo_%08lld.png", step); }

static char *with_end(const char *name, const char *end)
{
    kd_str s = {0};
    kd_err none = {0};
    if (!kd_str_printf(&s, &none, "%s%s", name, end)) return s.p;
    free(s.p);
    return NULL;
}

char *kd_run_log(const char *name) { return with_end(name, "_log.jsonl"); }
char *kd_run_metrics(const char *name) { return with_end(name, "_metrics.csv"); }

// Step of "BASE<middle>00018000<end>", or -1 if an entry is not called so. *rest, if wanted, is what follows <end>.
static int64_t step_of(const char *entry, const char *base, const char *middle, const char *end, const char **rest)
{
    const size_t b = strlen(base), m = strlen(middle), e = strlen(end);
    if (strncmp(entry, base, b) || strncmp(entry + b, middle, m)) return -1;
    const char *digits = entry + b + m;
    size_t n = 0;
    while (isdigit((unsigned char)digits[n])) n++;
    if (n != 8 || strncmp(digits + n, end, e)) return -1;
    if (rest) *rest = digits + n + e;
    else if (digits[n + e]) return -1;
    return strtoll(digits, NULL, 10);
}

// Calls fn for each entry of the run's folder; stops at its first failure.
typedef struct visit { const char *name, *base; kd_str folder; void *arg; } visit;
typedef int (*visit_fn)(const visit *v, const char *entry, kd_err *err);

// Its folder, with the slash. To be freed, also on failure.
static int begin_visit(visit *v, const char *name, void *arg, kd_err *err)
{
    const char *slash = strrchr(name, '/');
    *v = (visit){ .name = name, .base = slash ? slash + 1 : name, .arg = arg };
    if (!*v->base) return kd_fail(err, KD_EUSAGE, "--name %s: a name is missing after the folder", name);
    return slash ? kd_str_add(&v->folder, name, (size_t)(slash - name) + 1, err) : kd_str_add(&v->folder, "./", 2, err);
}

static int fail_folder(const visit *v, kd_err *err)
{
    return kd_fail(err, KD_EUSAGE, "--name %s: folder %s: %s", v->name, v->folder.p, strerror(errno));
}

static int each_entry(const char *name, visit_fn fn, void *arg, kd_err *err)
{
    visit v;
    DIR *dir = NULL;

    if (begin_visit(&v, name, arg, err)) goto done;
    if (!(dir = opendir(v.folder.p))) {
        fail_folder(&v, err);
        goto done;
    }
    for (struct dirent *e; !err->code && (e = readdir(dir)); ) fn(&v, e->d_name, err);
done:
    if (dir) closedir(dir);
    free(v.folder.p);
    return err->code;
}

static char *path_of(const visit *v, const char *entry, kd_err *err)
{
    kd_str s = {0};
    if (!kd_str_printf(&s, err, "%s%s", v->base == v->name ? "" : v->folder.p, entry)) return s.p;
    free(s.p);
    return NULL;
}

// One process at a time -------------------------------------------------------------------------------------------------

struct kd_run_lock { int fd; char *path; };

int kd_run_lock_take(kd_run_lock **to, const char *name, kd_err *err)
{
    bool made;
    visit v;
    kd_str path = {0};
    *to = NULL;
    kd_run_lock *l = kd_alloc(sizeof *l);
    if (!l) return kd_fail_memory(err, "a run's lock");
    l->fd = -1;
    if (begin_visit(&v, name, NULL, err)) goto done;
    if (access(v.folder.p, F_OK)) {
        fail_folder(&v, err);
        goto done;
    }
    if (kd_str_printf(&path, err, "%s.%s.lock", v.base == name ? "" : v.folder.p, v.base)) goto done;
    l->path = path.p;
    path.p = NULL;
    kd_lock_open(&l->fd, &made, l->path, "held by another process that is training this run", err);
done:
    free(v.folder.p);
    free(path.p);
    if (err->code) kd_run_lock_free(l);
    else *to = l;
    return err->code;
}

void kd_run_lock_free(kd_run_lock *l)
{
    if (!l) return;
    if (l->fd >= 0) {
        kd_lock_remove(l->fd, l->path);
        close(l->fd);
    }
    free(l->path);
    kd_free(l);
}

// Listing --------------------------------------------------------------------------------------------------------------

static int add_checkpoint(const visit *v, const char *entry, kd_err *err)
{
    kd_run_files *l = v->arg;
    const int64_t step = step_of(entry, v->base, "_", ".safetensors", NULL);
    if (step < 0) return 0;
    char **path = kd_realloc(l->path, (size_t)(l->n + 1) * sizeof *path);
    if (path) l->path = path;
    int64_t *steps = kd_realloc(l->step, (size_t)(l->n + 1) * sizeof *steps);
    if (steps) l->step = steps;
    if (!path || !steps) return kd_fail_memory(err, "a list of files");
    char *p = path_of(v, entry, err);
    if (!p) return err->code;
    int i = l->n++;
    for (; i > 0 && steps[i - 1] < step; i--) steps[i] = steps[i - 1], path[i] = path[i - 1];
    steps[i] = step;
    path[i] = p;
    return 0;
}

int kd_run_list(kd_run_files *l, const char *name, kd_err *err)
{
    *l = (kd_run_files){0};
    if (each_entry(name, add_checkpoint, l, err)) kd_run_list_free(l);
    return err->code;
}

void kd_run_list_free(kd_run_files *l)
{
    for (int i = 0; i < l->n; i++) free(l->path[i]);
    free(l->path);
    free(l->step);
    *l = (kd_run_files){0};
}

int kd_run_list_find(const kd_run_files *l, const char *path)
{
    struct stat a, b;
    if (stat(path, &a)) return -1;
    for (int i = 0; i < l->n; i++)
        if (!stat(l->path[i], &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino) return i;
    return -1;
}

void kd_run_list_cut(kd_run_files *l, int n)
{
    while (l->n > n) free(l->path[--l->n]);
}

static bool is_empty(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) && st.st_size == 0;
}

static int find_any(const visit *v, const char *entry, kd_err *err)
{
    char **found = v->arg, *old = *found;
    const size_t b = strlen(v->base);
    const bool log = !strncmp(entry, v->base, b) && (!strcmp(entry + b, "_log.jsonl") || !strcmp(entry + b, "_metrics.csv"));
    if (!log && step_of(entry, v->base, "_", ".safetensors", NULL) < 0 && step_of(entry, v->base, "_demo_", ".png", NULL) < 0) return 0;
    char *p = path_of(v, entry, err);
    if (!p) return err->code;
    if ((log && is_empty(p)) || (old && strcmp(old, p) <= 0)) {       // the first by name, so that the message is the same everywhere
        free(p);
        return 0;
    }
    free(old);
    *found = p;
    return 0;
}

int kd_run_exists(char **found, const char *name, kd_err *err)
{
    *found = NULL;
    return each_entry(name, find_any, found, err);
}

// Deleting -------------------------------------------------------------------------------------------------------------

static int delete(const char *path, kd_err *err)
{
    if (!unlink(path) || errno == ENOENT) return 0;
    return kd_fail(err, KD_EFAIL, "%s: cannot be deleted: %s", path, strerror(errno));
}

int kd_run_prune(const char *name, int64_t step, int64_t keep, kd_err *err)
{
    kd_run_files l;
    if (keep == 0) return 0;
    KD_TRY(kd_run_list(&l, name, err));
    for (int i = 0; i < l.n; i++)
        if (l.step[i] <= step && --keep < 0 && delete(l.path[i], err)) break;
    kd_run_list_free(&l);
    return err->code;
}

static int sweep(const visit *v, const char *entry, kd_err *err)
{
    const char *rest;
    if (*entry != '.' || step_of(entry + 1, v->base, "_", ".safetensors.", &rest) < 0 || strlen(rest) != 6) return 0;
    char *p = path_of(v, entry, err);
    if (p) delete(p, err);
    free(p);
    return err->code;
}

int kd_run_sweep(const char *name, kd_err *err) { return each_entry(name, sweep, NULL, err); }

int kd_run_replace(const kd_run_files *l, int64_t step, kd_err *err)
{
    for (int i = 0; i < l->n; i++)
        if (l->step[i] != step) KD_TRY(delete(l->path[i], err));
    return 0;
}
