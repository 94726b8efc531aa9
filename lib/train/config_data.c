#include "train/config_data.h"
#include "base/memory.h"
#include "data/prep.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 5 };                     // files of a data set
typedef struct sources { char *path[MOST]; int n; kd_labels labels; } sources;

// Adds LOCATION FOLDER FILE if it can be read.
static int add(sources *s, const char *location, const char *folder, const char *file, kd_err *err)
{
    kd_str path = {0};
    if (kd_str_printf(&path, err, "%s%s%s", location, folder, file) || access(path.p, R_OK)) free(path.p);
    else s->path[s->n++] = path.p;
    return err->code;
}

// Where torchvision keeps what it downloads, and where a person may have put it.
static int find_mnist(sources *s, const char *location, kd_err *err)
{
    static const char *const folders[] = { "/MNIST/raw/", "/raw/", "/" };
    for (int i = 0; i < 3 && !s->n; i++) {
        KD_TRY(add(s, location, folders[i], "train-images-idx3-ubyte", err));
        if (!s->n) KD_TRY(add(s, location, folders[i], "train-images-idx3-ubyte.gz", err));
    }
    return 0;
}

static int find_cifar10(sources *s, const char *location, kd_err *err)
{
    static const char *const files[MOST] = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                             "data_batch_5.bin" };
    for (int i = 0; i < MOST; i++) KD_TRY(add(s, location, "/cifar-10-batches-bin/", files[i], err));
    for (int i = 0; i < MOST && s->n == i; i++) KD_TRY(add(s, location, "/", files[i], err));
    return 0;
}

static int find(sources *s, const kd_config *c, kd_err *err)
{
    const char *type = c->dataset_type, *location = c->dataset_location;
    char *hint = kd_config_dataset_hint(c);
    if (type && location && !strcmp(type, "cifar10")) KD_TRY(find_cifar10(s, location, err));
    if (hint && !s->n) kd_fail(err, KD_EUSAGE, "%s: no images on stdin, and %s", c->path, hint);
    free(hint);
    if (err->code || s->n) return err->code;
    if (!type || !location)
        return kd_fail(err, KD_EUSAGE, "%s: no images on stdin, and dataset.location is missing: kd-prep FOLDER | kd-train ...", c->path);
    if (!strcmp(type, "mnist")) KD_TRY(find_mnist(s, location, err));
    else KD_TRY(add(s, location, "", "", err));
    s->labels = !c->classes ? KD_LABELS_NONE : !strncmp(type, "imagefolder", 11) ? KD_LABELS_DIR : KD_LABELS_AUTO;
    if (!s->n) return kd_fail(err, KD_EUSAGE, "%s: no images on stdin, and dataset.location %s holds no %s data", c->path, location, type);
    return 0;
}

// An unlinked file in $TMPDIR, seen as /dev/fd/N by those who want a path.
static int open_unlinked(int *fd, kd_str *path, kd_err *err)
{
    const char *folder = getenv("TMPDIR");
    KD_TRY(kd_str_printf(path, err, "%s/kd-train-XXXXXX", folder && *folder ? folder : "/tmp"));
    *fd = mkostemp(path->p, O_CLOEXEC);
    if (*fd < 0) return kd_fail(err, KD_EFAIL, "%s: %s", path->p, strerror(errno));
    unlink(path->p);
    path->n = 0;
    return kd_str_printf(path, err, "/dev/fd/%d", *fd);
}

static int prepare(const kd_prep *p, const sources *s, const char *to, kd_err *err)
{
    kd_prep_totals totals;
    kd_out *out;
    KD_TRY(kd_out_open(&out, to, true, err));
    if (!kd_prep_run(p, s->n, (const char *const *)s->path, out, &totals, err)) kd_out_commit(out, err);
    kd_out_close(out);
    return err->code;
}

int kd_config_data(kd_dataset *d, const kd_config *c, int64_t limit, void (*say)(const char *line), kd_err *err)
{
    sources s = { .labels = KD_LABELS_AUTO };
    kd_str path = {0};
    int fd = -1;
    *d = (kd_dataset){0};

    if (find(&s, c, err)) goto done;
    const kd_prep p = { .h = c->size[0], .w = c->size[1], .filter = KD_BICUBIC, .filter_name = "bicubic", .crop = true,
                        .background = { 255, 255, 255 }, .channels = c->channels == 1 ? 1 : 3, .labels = s.labels, .limit = -1,
                        .say = say };
    if (open_unlinked(&fd, &path, err) || prepare(&p, &s, path.p, err)) goto done;
    kd_dataset_read(d, path.p, limit, err);
done:
    if (fd >= 0) close(fd);
    free(path.p);
    for (int i = 0; i < s.n; i++) free(s.path[i]);
    return err->code;
}
