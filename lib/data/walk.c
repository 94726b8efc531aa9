// Walking folders in sorted order: a stack of listings, one a level.
#include "data/walk.h"
#include "base/memory.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct names { char **v; int n, room; } names;

struct level {
    char *path;
    names names; int at;
    dev_t dev; ino_t ino;                                // to recognise a link that leads back up
};

struct kd_walk {
    const char *const *source; int n, at;
    struct level *level; int depth, room;
    kd_found found;
    char *path, *folder;                                 // behind found
};

// Listings ------------------------------------------------------------------------------------------------------

void kd_walk_free_names(char **v, int n)
{
    for (int i = 0; i < n; i++) free(v[i]);
    free(v);
}

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int add_name(names *l, const char *name, kd_err *err)
{
    if (l->n == l->room) {
        const int room = l->room ? 2 * l->room : 64;
        char **v = kd_realloc(l->v, (size_t)room * sizeof *v);
        if (!v) return kd_fail_memory(err, "the names in a folder");
        l->v = v, l->room = room;
    }
    if (!(l->v[l->n] = kd_strdup(name))) return kd_fail_memory(err, "the names in a folder");
    l->n++;
    return 0;
}

// Sorted names in a folder. *number: errno if it cannot be read. dots: ones that begin with a dot too
static int list_folder(names *l, const char *path, bool dots, int *number, kd_err *err)
{
    DIR *d = opendir(path);
    *number = d ? 0 : errno;
    if (!d) return 0;
    int code = 0;
    const struct dirent *e;
    while (!code && (errno = 0, e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && (dots || *e->d_name != '.')) code = add_name(l, e->d_name, err);
    if (!code) *number = errno;
    closedir(d);
    if (l->n) qsort(l->v, (size_t)l->n, sizeof *l->v, compare);
    return code;
}

static char *join(const char *folder, const char *name)
{
    kd_str s = {0};
    kd_err ignored = {0};
    const size_t n = strlen(folder);
    if (kd_str_printf(&s, &ignored, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name)) return free(s.p), NULL;
    return s.p;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

int kd_walk_folders(char ***out, int *n_out, int n, const char *const *sources, kd_err *err)
{
    names all = {0};
    int code = 0;
    for (int i = 0; i < n && !code; i++) {
        names here = {0};
        int number = 0;
        if (is_folder(sources[i])) code = list_folder(&here, sources[i], false, &number, err);
        for (int k = 0; k < here.n && !code; k++) {
            char *path = join(sources[i], here.v[k]);
            if (!path) code = kd_fail_memory(err, "a path");
            else if (is_folder(path)) code = add_name(&all, here.v[k], err);
            free(path);
        }
        kd_walk_free_names(here.v, here.n);
    }
    if (all.n) qsort(all.v, (size_t)all.n, sizeof *all.v, compare);
    int kept = 0;
    for (int i = 0; i < all.n; i++) {
        if (kept && !strcmp(all.v[kept - 1], all.v[i])) free(all.v[i]);
        else all.v[kept++] = all.v[i];
    }
    if (code) kd_walk_free_names(all.v, kept);
    else *out = all.v, *n_out = kept;
    return code;
}

// The stack -----------------------------------------------------------------------------------------------------

static void pop(kd_walk *w)
{
    struct level *l = &w->level[--w->depth];
    kd_walk_free_names(l->names.v, l->names.n);
    free(l->path);
}

// Enters a folder, or says in found->why why not. Takes path over.
static int enter(kd_walk *w, char *path, const struct stat *st, kd_err *err)
{
    w->found.why = NULL;
    for (int i = 0; i < w->depth; i++) {
        if (w->level[i].dev == st->st_dev && w->level[i].ino == st->st_ino) {
            w->found.why = "a link to a folder that contains it";
            w->found.harmless = true;
            free(w->path);
            w->path = path;
            return 0;
        }
    }
    if (w->depth == w->room) {
        const int room = w->room ? 2 * w->room : 16;
        struct level *more = kd_realloc(w->level, (size_t)room * sizeof *more);
        if (!more) { free(path); return kd_fail_memory(err, "a folder"); }
        w->level = more, w->room = room;
    }
    struct level *l = &w->level[w->depth++];
    *l = (struct level){ .path = path, .dev = st->st_dev, .ino = st->st_ino };
    int number;
    KD_TRY(list_folder(&l->names, path, true, &number, err));
    if (!number) return 0;
    w->found.why = strerror(number);
    w->found.harmless = false;
    free(w->path);
    if (!(w->path = kd_strdup(path))) return kd_fail_memory(err, "a path");
    pop(w);
    return 0;
}

// Sets found for something that stands at `path` (taken over), or enters it; *is_found says which.
static int visit(kd_walk *w, char *path, const char *name, bool *is_found, kd_err *err)
{
    struct stat st;
    *is_found = true;
    w->found = (kd_found){0};
    if (name && *name == '.') {
        w->found.why = is_folder(path) ? "a hidden folder" : "a hidden file";
        w->found.harmless = true;
    } else if (strcmp(path, "-") && stat(path, &st)) {
        w->found.why = strerror(errno);
    } else if (strcmp(path, "-") && S_ISDIR(st.st_mode)) {
        KD_TRY(enter(w, path, &st, err));
        *is_found = w->found.why;
        return 0;
    } else if (name && !S_ISREG(st.st_mode)) {           // a named pipe that a person gives as SOURCE itself is read
        w->found.why = "not a regular file";
    }
    free(w->path);
    w->path = path;
    return 0;
}

int kd_walk_next(kd_walk *w, const kd_found **found, kd_err *err)
{
    *found = NULL;
    for (bool got = false; !got;) {
        if (w->depth && w->level[w->depth - 1].at == w->level[w->depth - 1].names.n) {
            pop(w);
            continue;
        }
        if (!w->depth && w->at == w->n) return 0;
        struct level *l = w->depth ? &w->level[w->depth - 1] : NULL;
        const char *name = l ? l->names.v[l->at++] : NULL;
        char *path = l ? join(l->path, name) : kd_strdup(w->source[w->at++]);
        if (!path) return kd_fail_memory(err, "a path");
        if (w->depth == 1) {                             // directly below a source: the folder's name is the class
            free(w->folder);
            if (!(w->folder = kd_strdup(name))) { free(path); return kd_fail_memory(err, "a path"); }
        }
        const int depth = w->depth;
        KD_TRY(visit(w, path, name, &got, err));
        w->found.folder = depth >= 2 ? w->folder : NULL;
    }
    w->found.path = w->path;
    *found = &w->found;
    return 0;
}

// Opening -------------------------------------------------------------------------------------------------------

static int start(kd_walk **out, int n, const char *const *sources, kd_err *err)
{
    kd_walk *w = *out = kd_alloc(sizeof *w);
    if (!w) return kd_fail_memory(err, "a folder");
    w->source = sources, w->n = n;
    return 0;
}

static int check_source(const char *source, kd_err *err)
{
    struct stat st;
    if (!strcmp(source, "-")) return 0;
    if (stat(source, &st)) return kd_fail(err, KD_EUSAGE, "%s: %s", source, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return 0;
    kd_walk *w;
    KD_TRY(start(&w, 1, &source, err));
    const kd_found *f = NULL;
    bool any = false;
    const char *trouble = NULL;
    while (!any && !kd_walk_next(w, &f, err) && f) {
        any = !f->why;
        if (f->why && !f->harmless && !trouble) trouble = f->why;
    }
    kd_walk_close(w);
    if (err->code || any) return err->code;
    return kd_fail(err, KD_EUSAGE, "%s: %s", source, trouble ? trouble : "no files in it");
}

int kd_walk_open(kd_walk **w, int n, const char *const *sources, kd_err *err)
{
    *w = NULL;
    for (int i = 0; i < n; i++) KD_TRY(check_source(sources[i], err));
    return start(w, n, sources, err);
}

void kd_walk_close(kd_walk *w)
{
    if (!w) return;
    while (w->depth) pop(w);
    free(w->level);
    free(w->path);
    free(w->folder);
    kd_free(w);
}
