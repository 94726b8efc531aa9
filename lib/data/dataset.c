// A data set in memory. Its pixels live in one mapping that grows: of ordinary memory up to the limit, of an unlinked file
// past it, so that the kernel may drop what is not in use. A mapping grows in place or by moving page tables: no copy, no
// moment with both sizes in memory.
#include "data/dataset.h"
#include "base/memory.h"
#include "base/random.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/// The pixels as they come.
struct pixels {
    uint8_t *map; size_t room;                           // memory, or NULL
    int fd;                                              // the file, or -1
    size_t n, limit;
};

// An unlinked file in $TMPDIR: gone with the process, whatever ends it.
static int open_unlinked(int *fd, kd_err *err)
{
    const char *folder = getenv("TMPDIR");
    kd_str path = {0};
    KD_TRY(kd_str_printf(&path, err, "%s/kd-data-XXXXXX", folder && *folder ? folder : "/tmp"));
    *fd = mkostemp(path.p, O_CLOEXEC);
    if (*fd < 0) kd_fail(err, KD_EFAIL, "%s: %s", path.p, strerror(errno));
    else unlink(path.p);
    free(path.p);
    return err->code;
}

// Written, not stored through a mapping: there a full disk would be a signal.
static int append_to_file(struct pixels *x, const uint8_t *from, size_t n, kd_err *err)
{
    while (n) {
        const ssize_t k = write(x->fd, from, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return kd_fail(err, KD_EFAIL, "data past the limit in memory: %s", strerror(errno));
        from += k, n -= (size_t)k, x->n += (size_t)k;
    }
    return 0;
}

static int spill(struct pixels *x, kd_err *err)
{
    KD_TRY(open_unlinked(&x->fd, err));
    const size_t n = x->n;
    x->n = 0;
    if (n) KD_TRY(append_to_file(x, x->map, n, err));
    if (x->map) munmap(x->map, x->room);
    x->map = NULL, x->room = 0;
    return 0;
}

static int grow(struct pixels *x, size_t need, kd_err *err)
{
    if (need <= x->room) return 0;
    size_t room = x->room ? x->room : 1 << 20;
    while (room < need) room *= 2;                       // address space only: pages come when written
    void *p = x->map ? mremap(x->map, x->room, room, MREMAP_MAYMOVE)
                     : mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return kd_fail_memory(err, "the data set's pixels");
    x->map = p, x->room = room;
    return 0;
}

static int append(struct pixels *x, const uint8_t *from, size_t n, kd_err *err)
{
    if (x->fd < 0 && n > x->limit - x->n) KD_TRY(spill(x, err));
    if (x->fd >= 0) return append_to_file(x, from, n, err);
    KD_TRY(grow(x, x->n + n, err));
    memcpy(x->map + x->n, from, n);
    x->n += n;
    return 0;
}

static int hand_over(struct pixels *x, kd_dataset *d, kd_err *err)
{
    if (x->fd >= 0) {
        void *p = mmap(NULL, x->n, PROT_READ, MAP_SHARED, x->fd, 0);
        if (p == MAP_FAILED) return kd_fail(err, KD_EFAIL, "mapping %zu bytes of data: %s", x->n, strerror(errno));
        x->map = p, x->room = x->n;
    }
    d->map = d->image = x->map, d->map_bytes = x->room;
    x->map = NULL;
    return 0;
}

static int append_run(kd_dataset *d, struct pixels *x, kd_hash *hash, const kd_images_info *info, const kd_images *run, kd_err *err)
{
    int64_t n;
    if (!kd_mul(d->h * d->w * d->c, run->n, &n)) return kd_fail_memory(err, "the data set's pixels");
    uint8_t *quantized = NULL;
    const uint8_t *pixels = run->image;
    if (info->dtype == KD_F32) {
        if (!(pixels = quantized = kd_alloc((size_t)n))) return kd_fail_memory(err, "a run of images");
        kd_images_quantize(quantized, run->image, n, false);
    }
    kd_hash_add(hash, pixels, (size_t)n);
    int code = append(x, pixels, (size_t)n, err);
    kd_free(quantized);
    if (!code && info->has_label) {
        int64_t *more = kd_realloc(d->label, (size_t)(d->n + run->n) * sizeof *more);
        if (!more) return kd_fail_memory(err, "labels");
        d->label = more;
        memcpy(d->label + d->n, run->label, (size_t)run->n * sizeof *more);
    }
    d->n += run->n;
    return code;
}

static int read_all(kd_dataset *d, kd_images_reader *in, struct pixels *x, kd_hash *hash, const char *path, kd_err *err)
{
    const kd_images_info *info = kd_images_info_of(in);
    d->h = info->h, d->w = info->w, d->c = info->c;
    kd_images run;
    do {
        KD_TRY(kd_images_next(in, &run, err));
        if (run.n) KD_TRY(append_run(d, x, hash, info, &run, err));
    } while (run.n);
    if (!d->n) return kd_fail(err, KD_EUSAGE, "%s: no images", strcmp(path, "-") ? path : "stdin");
    if (!(d->meta = kd_frame_new())) return kd_fail_memory(err, "metadata");
    for (int i = 0; i < info->meta->n_meta; i++) KD_TRY(kd_frame_set_meta(d->meta, info->meta->key[i], info->meta->value[i], err));
    // Pixels were hashed as they came; labels and the shape follow.
    if (d->label) kd_hash_add(hash, d->label, (size_t)d->n * sizeof *d->label);
    const int64_t shape[] = { d->n, d->h, d->w, d->c, d->label ? 1 : 0 };
    kd_hash_add(hash, shape, sizeof shape);
    d->hash = kd_hash_get(hash);
    return hand_over(x, d, err);
}

int kd_dataset_read(kd_dataset *d, const char *path, int64_t limit, kd_err *err)
{
    *d = (kd_dataset){0};
    struct pixels x = { .fd = -1, .limit = limit > 0 ? (size_t)limit : 0 };
    kd_images_reader *in = NULL;
    kd_hash *hash = kd_hash_new();
    int code = hash ? kd_images_open(&in, path, err) : kd_fail_memory(err, "a hash");
    if (!code) code = read_all(d, in, &x, hash, path, err);
    if (x.map) munmap(x.map, x.room);
    if (x.fd >= 0) close(x.fd);
    kd_images_close(in);
    kd_hash_free(hash);
    if (code) kd_dataset_free(d);
    return code;
}

void kd_dataset_free(kd_dataset *d)
{
    if (d->map) munmap(d->map, d->map_bytes);
    free(d->label);
    kd_frame_free(d->meta);
    *d = (kd_dataset){0};
}

int64_t kd_dataset_at(const kd_dataset *d, uint64_t seed, uint64_t p)
{
    const uint64_t n = (uint64_t)d->n;
    return (int64_t)kd_permute(seed, p / n, n, p % n);
}
