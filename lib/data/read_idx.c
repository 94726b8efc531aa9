// MNIST's IDX files (LeCun, Cortes, Burges; http://yann.lecun.com/exdb/mnist/), plain or gzip:
//   offset  bytes
//   0       2      zero
//   2       1      element type: 8 for bytes, the only one read here
//   3       1      number of dimensions d: 3 for pictures [n, h, w], 1 for labels [n]
//   4       4 d    the dimensions, big-endian
//   4+4d           the elements
// The labels of train-images-idx3-ubyte are in train-labels-idx1-ubyte beside it (.gz or not).
#include "base/memory.h"
#include "data/codec.h"
#include "data/reader.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct idx { int64_t n, at, dim[3]; uint8_t *labels; };  // labels: NULL, or [n], malloc'ed

static uint32_t big_endian(const uint8_t *b) { return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]; }

static bool is_idx(const kd_head *h)
{
    const char *kind = kd_sniff(h->bytes, h->n);
    return kind && !strcmp(kind, "idx");
}
static bool knows_images(const kd_head *h) { return is_idx(h) && h->bytes[3] != 1; }
static bool knows_labels(const kd_head *h) { return is_idx(h) && h->bytes[3] == 1; }

static int read_header(kd_bytes *in, int dims, int64_t *dim, kd_err *err)
{
    uint8_t b[16];
    size_t got;
    KD_TRY(kd_bytes_read(in, b, 4, &got, err));
    if (got < 4) return kd_fail(err, KD_EFORMAT, "IDX: the header ends too early");
    if (b[0] || b[1]) return kd_fail(err, KD_EFORMAT, "not IDX");
    if (b[2] != 8) return kd_fail(err, KD_EFORMAT, "IDX: elements of type 0x%02X: only bytes (0x08) are read", b[2]);
    if (b[3] != dims) return kd_fail(err, KD_EFORMAT, "IDX: %d dimensions, expected %d", b[3], dims);
    KD_TRY(kd_bytes_read(in, b, 4 * (size_t)dims, &got, err));
    if (got < 4 * (size_t)dims) return kd_fail(err, KD_EFORMAT, "IDX: the header ends too early");
    for (int i = 0; i < dims; i++) dim[i] = big_endian(b + 4 * i);
    return 0;
}

static int check_end(kd_bytes *in, kd_err *err)
{
    uint8_t more;
    size_t got;
    KD_TRY(kd_bytes_read(in, &more, 1, &got, err));
    return got ? kd_fail(err, KD_EFORMAT, "IDX: more data than the header says") : 0;
}

// The sibling's path ----------------------------------------------------------------------------------------------

// Puts `to` for the last `from` in the name of a path. false if it is not there, or they differ in length.
static bool rename_part(char *path, const char *from, const char *to)
{
    char *name = strrchr(path, '/'), *last = NULL;
    name = name ? name + 1 : path;
    for (char *p = name; (p = strstr(p, from)); p++) last = p;
    if (!last || strlen(from) != strlen(to)) return false;
    memcpy(last, to, strlen(to));
    return true;
}

/// The file beside `path` with its labels (or, backwards, with the images): train-images-idx3-ubyte <-> train-labels-idx1-ubyte,
/// as it is, with .gz, or without. *found is malloc'ed; NULL if there is none. *expected: the name looked for, or NULL
static int find_sibling(const char *path, bool labels, char **found, char **expected, kd_err *err)
{
    *found = *expected = NULL;
    const size_t n = strlen(path);
    char *s = malloc(n + 4);                             // room for ".gz"
    if (!s) return kd_fail_memory(err, "a path");
    memcpy(s, path, n + 1);
    const bool known = labels ? rename_part(s, "images", "labels") && rename_part(s, "idx3", "idx1")
                              : rename_part(s, "labels", "images") && rename_part(s, "idx1", "idx3");
    if (!known) return free(s), 0;
    const char *name = strrchr(s, '/');
    if (!(*expected = kd_strdup(name ? name + 1 : s))) return free(s), kd_fail_memory(err, "a path");
    if (access(s, F_OK)) {
        if (n > 3 && !strcmp(s + n - 3, ".gz")) s[n - 3] = 0;
        else memcpy(s + n, ".gz", 4);
    }
    if (access(s, F_OK)) free(s);
    else *found = s;
    return 0;
}

// Labels ----------------------------------------------------------------------------------------------------------

static int read_labels(struct idx *x, const char *path, kd_err *err)
{
    kd_bytes *in;
    int64_t n;
    size_t got = 0;
    kd_err why = {0};                                    // told with the file's name
    int code = kd_bytes_open(&in, path, err);
    if (code) return code;
    code = read_header(in, 1, &n, &why);
    if (!code && n != x->n) code = kd_fail(&why, KD_EFORMAT, "%lld labels for %lld images", (long long)n, (long long)x->n);
    if (!code) code = kd_bytes_rest(in, SIZE_MAX, &x->labels, &got, &why);       // grows as bytes come: n may be a lie
    if (!code && got != (size_t)n) code = kd_fail(&why, KD_EFORMAT, "IDX: %zu labels, the header says %lld", got, (long long)n);
    kd_bytes_close(in);
    return code ? kd_fail(err, code, "%s: %s", path, why.msg) : 0;
}

static int open_labels(kd_reader *r, char **of, kd_err *err)
{
    char *expected;
    KD_TRY(find_sibling(r->path, false, of, &expected, err));
    free(expected);
    return 0;
}

static int find_labels(kd_reader *r, struct idx *x, kd_err *err)
{
    char *path, *expected;
    KD_TRY(find_sibling(r->path, true, &path, &expected, err));
    int code = 0;
    if (path) {
        code = read_labels(x, path, err);
    } else {
        kd_str s = {0};
        code = expected ? kd_str_printf(&s, err, "no labels: no %s beside it", expected)
                        : kd_str_printf(&s, err, "no labels: the name has no images-idx3 that tells their file");
        r->remark = s.p;
    }
    free(path);
    free(expected);
    return code;
}

// Images ----------------------------------------------------------------------------------------------------------

static int open_images(kd_reader *r, char **of, kd_err *err)
{
    (void)of;
    struct idx *x = r->own = kd_alloc(sizeof *x);
    if (!x) return kd_fail_memory(err, "an IDX file");
    KD_TRY(read_header(r->in, 3, x->dim, err));
    x->n = x->dim[0];
    int64_t size;
    const bool fits = x->dim[1] > 0 && x->dim[2] > 0 && kd_mul(x->dim[1], x->dim[2], &size) && size <= KD_PICTURE_PIXELS;
    if (!fits) return kd_fail(err, KD_EFORMAT, "IDX: images of %lldx%lld", (long long)x->dim[2], (long long)x->dim[1]);
    const int64_t left = kd_bytes_left(r->in);
    if (left >= 0 && left / size < x->n)
        return kd_fail(err, KD_EFORMAT, "IDX: %lld images of %lldx%lld in the header, data for %lld", (long long)x->n,
                       (long long)x->dim[2], (long long)x->dim[1], (long long)(left / size));
    return r->labels == KD_LABELS_AUTO ? find_labels(r, x, err) : 0;
}

static int next_image(kd_reader *r, kd_item *item, bool *got, kd_err *err)
{
    struct idx *x = r->own;
    *got = x->at < x->n;
    if (!*got) return check_end(r->in, err);
    KD_TRY(kd_picture_alloc(&item->picture, x->dim[1], x->dim[2], 1, err));
    const size_t size = (size_t)(x->dim[1] * x->dim[2]);
    size_t n;
    KD_TRY(kd_bytes_read(r->in, item->picture.p, size, &n, err));
    if (n < size) return kd_fail(err, KD_EFORMAT, "IDX: ends in image %lld of %lld", (long long)x->at + 1, (long long)x->n);
    item->label = x->labels ? x->labels[x->at] : -1;
    x->at++;
    return 0;
}

static void close_images(kd_reader *r)
{
    struct idx *x = r->own;
    if (x) free(x->labels);
    kd_free(x);
}

const kd_reader_kind kd_read_idx = { .name = "IDX", .channels = 1, .many = true, .knows = knows_images, .open = open_images,
                                     .next = next_image, .close = close_images };
const kd_reader_kind kd_read_idx_labels = { .name = "IDX labels", .channels = 1, .knows = knows_labels, .open = open_labels };
