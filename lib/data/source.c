// Sources: the walk over files, the table of kinds, and the steps a file goes through: known kind, whole, then its pictures.
#include "data/source.h"
#include "base/memory.h"
#include "data/reader.h"
#include "data/walk.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// The first that knows a file reads it. Kinds with a magic number stand before those without.
static const kd_reader_kind *const kinds[] = { &kd_read_picture, &kd_read_idx, &kd_read_idx_labels, &kd_read_unetcu, &kd_read_cifar10 };

struct kd_source {
    kd_walk *walk;
    kd_labels labels;
    char **classes; int n_classes;                       // of KD_LABELS_DIR
    const kd_reader_kind *kind;                          // of the file being read, NULL between files
    kd_reader reader;
    char *path;
    int64_t label;                                       // the folder's, -1: what the kind says
    int64_t given;                                       // pictures of this file
};

void kd_item_free(kd_item *i)
{
    free(i->path);
    free(i->why);
    free(i->bytes);
    kd_picture_free(&i->picture);
    *i = (kd_item){0};
}

int kd_source_open(kd_source **out, int n, const char *const *sources, kd_labels labels, kd_err *err)
{
    *out = NULL;
    kd_source *s = kd_alloc(sizeof *s);
    if (!s) return kd_fail_memory(err, "a source");
    s->labels = labels;
    int code = kd_walk_open(&s->walk, n, sources, err);
    if (!code && labels == KD_LABELS_DIR) {
        code = kd_walk_folders(&s->classes, &s->n_classes, n, sources, err);
        if (!code && !s->n_classes) code = kd_fail(err, KD_EUSAGE, "%s: no folders in it to be classes", sources[0]);
    }
    if (code) kd_source_close(s);
    else *out = s;
    return code;
}

int kd_source_classes(const kd_source *s, const char *const **names)
{
    *names = (const char *const *)s->classes;
    return s->n_classes;
}

static void close_file(kd_source *s)
{
    if (s->kind && s->kind->close) s->kind->close(&s->reader);
    kd_bytes_close(s->reader.in);
    free(s->reader.remark);
    s->kind = NULL;
    s->reader = (kd_reader){0};
}

void kd_source_close(kd_source *s)
{
    if (!s) return;
    close_file(s);
    free(s->path);
    kd_walk_free_names(s->classes, s->n_classes);
    kd_walk_close(s->walk);
    kd_free(s);
}

// One file --------------------------------------------------------------------------------------------------------

// Ends a file: what became of it. Takes `why` (malloc'ed or NULL) over.
static int end_file(kd_source *s, kd_item *item, kd_item_kind kind, char *why, kd_err *err)
{
    close_file(s);
    item->kind = kind;
    item->why = why;
    item->path = kd_strdup(s->path);
    return item->path ? 0 : kd_fail_memory(err, "a path");
}

static int end_file_because(kd_source *s, kd_item *item, kd_item_kind kind, const char *why, kd_err *err)
{
    char *copy = kd_strdup(why);
    if (!copy) return kd_fail_memory(err, "a path");
    return end_file(s, item, kind, copy, err);
}

// A file's own trouble becomes an item; the machine's (memory, disk, an interrupt) stays an error.
// The path in front of the reason goes: the item carries it.
static int end_bad_file(kd_source *s, kd_item *item, const kd_err *why, kd_err *err)
{
    if (kd_interrupted()) return kd_fail_interrupted(err);           // a signal may look like a file that does not open
    if (why->code != KD_EFORMAT && why->code != KD_EUSAGE) return kd_fail(err, why->code, "%s", why->msg);
    const size_t n = strlen(s->path);
    const bool named = !strncmp(why->msg, s->path, n) && !strncmp(why->msg + n, ": ", 2);
    return end_file_because(s, item, KD_ITEM_BAD, named ? why->msg + n + 2 : why->msg, err);
}

static int find_kind(kd_source *s, kd_err *why)
{
    const char *slash = strrchr(s->path, '/');
    kd_head head = { .path = s->path, .name = slash && slash[1] ? slash + 1 : s->path };
    KD_TRY(kd_bytes_peek(s->reader.in, &head.bytes, KD_BYTES_PEEK, &head.n, why));
    if (!head.n) return kd_fail(why, KD_EFORMAT, "an empty file");
    head.size = kd_bytes_left(s->reader.in);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !s->kind; i++)
        if (kinds[i]->knows(&head)) s->kind = kinds[i];
    const char *sniffed = kd_sniff(head.bytes, head.n);
    if (!s->kind && sniffed) return kd_fail(why, KD_EFORMAT, "%s: not a kind that is read", sniffed);
    if (!s->kind) return kd_fail(why, KD_EFORMAT, "not a picture");
    s->reader.path = head.path, s->reader.name = head.name, s->reader.labels = s->labels;
    return 0;
}

// Opens s->path, finds its kind, lets the kind read its header.
static int open_file(kd_source *s, char **of, kd_err *why)
{
    KD_TRY(kd_bytes_open(&s->reader.in, s->path, why));
    KD_TRY(find_kind(s, why));
    return s->kind->open ? s->kind->open(&s->reader, of, why) : 0;
}

// Reads a file of many pictures to its end, and opens it again.
static int check_file(kd_source *s, kd_err *why)
{
    struct stat st;
    if (!s->kind->many || !strcmp(s->path, "-") || stat(s->path, &st) || !S_ISREG(st.st_mode)) return 0;
    bool got = true;
    while (got) {
        kd_item item = {0};
        const int code = s->kind->next(&s->reader, &item, &got, why);
        kd_item_free(&item);
        KD_TRY(code);
    }
    close_file(s);
    char *of = NULL;
    return open_file(s, &of, why);
}

static int class_of(const kd_source *s, const char *folder)
{
    for (int lo = 0, hi = s->n_classes; folder && lo < hi;) {
        const int mid = (lo + hi) / 2, c = strcmp(folder, s->classes[mid]);
        if (!c) return mid;
        if (c < 0) hi = mid;
        else lo = mid + 1;
    }
    return -1;
}

// Starts on the next file of the walk. item->kind tells if it ended at once.
static int start_file(kd_source *s, const kd_found *f, kd_item *item, kd_err *err)
{
    free(s->path);
    if (!(s->path = kd_strdup(f->path))) return kd_fail_memory(err, "a path");
    s->given = 0;
    if (f->why) return end_file_because(s, item, f->harmless ? KD_ITEM_PASSED : KD_ITEM_BAD, f->why, err);
    s->label = s->labels == KD_LABELS_DIR ? class_of(s, f->folder) : -1;
    if (s->labels == KD_LABELS_DIR && s->label < 0) return end_file_because(s, item, KD_ITEM_PASSED, "not in a class folder", err);
    kd_err why = {0};
    char *of = NULL;
    if (open_file(s, &of, &why)) return end_bad_file(s, item, &why, err);
    if (of) return end_file(s, item, KD_ITEM_LABELS, of, err);
    if (!s->kind->next) return end_file_because(s, item, KD_ITEM_PASSED, "labels without their images", err);
    return check_file(s, &why) ? end_bad_file(s, item, &why, err) : 0;
}

static int next_picture(kd_source *s, kd_item *item, kd_err *err)
{
    kd_err why = {0};
    bool got;
    item->label = -1;
    if (s->kind->next(&s->reader, item, &got, &why)) {
        kd_item_free(item);
        return s->given ? kd_fail(err, why.code, "%s: %s", s->path, why.msg) : end_bad_file(s, item, &why, err);
    }
    if (!got) {
        if (!s->given) return end_file_because(s, item, KD_ITEM_PASSED, "holds no pictures", err);
        char *remark = s->reader.remark;
        s->reader.remark = NULL;
        return end_file(s, item, KD_ITEM_READ, remark, err);
    }
    s->given++;
    item->kind = KD_ITEM_PICTURE;
    item->channels = s->kind->channels;
    item->classes = s->kind->classes;
    if (s->labels == KD_LABELS_DIR) item->label = s->label;
    if (s->labels == KD_LABELS_NONE) item->label = -1;
    if (!(item->path = kd_strdup(s->path))) return kd_fail_memory(err, "a path");
    return 0;
}

static int step(kd_source *s, kd_item *item, kd_err *err)
{
    while (!s->kind && item->kind == KD_ITEM_END) {
        const kd_found *f;
        KD_TRY(kd_walk_next(s->walk, &f, err));
        if (!f) return 0;
        KD_TRY(start_file(s, f, item, err));
    }
    return item->kind == KD_ITEM_END ? next_picture(s, item, err) : 0;
}

int kd_source_next(kd_source *s, kd_item *item, kd_err *err)
{
    *item = (kd_item){0};
    const int code = step(s, item, err);
    if (code) kd_item_free(item);
    return code;
}
