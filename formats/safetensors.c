// Reading and writing safetensors frames. Page: formats/safetensors.md
#include "formats/safetensors.h"
#include "formats/safetensors_header.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 8, FIRST_BLOCK = 1 << 26 };

// Reading ------------------------------------------------------------------------------------------------------

// What else people hand to us. A frame's length is at most 10^8, so bytes 4..7 of one are zero; no pickle's are.
static const char *known_as(const unsigned char *p, size_t n)
{
    if (n >= 4 && !memcmp(p, "PK\3\4", 4))
        return "a zip archive, as PyTorch's .pth files are: kd-init --from makes a model of one";
    const bool pickle = n > 1 && ((p[0] == 0x80 && p[1] >= 2 && p[1] <= 5) || (p[0] == 'c' && memchr(p, '\n', n)));
    if (pickle && n >= PREFIX && (p[4] | p[5] | p[6] | p[7]))
        return "a pickle, as PyTorch's old .pth files are: kd-init --from makes a model of one";
    if (n >= 8 && !memcmp(p, "\x89PNG\r\n\x1a\n", 8))
        return "a PNG picture, not safetensors";
    return NULL;
}

static int fail_short(kd_in *in, const char *what, uint64_t got, uint64_t want, kd_err *err)
{
    return kd_fail(err, KD_EFORMAT, "%s: %s ends after %" PRIu64 " of %" PRIu64 " bytes", kd_in_name(in), what, got, want);
}

// Exactly n bytes into fresh memory (kd_free). A pipe cannot tell how much it holds, so what it claims is not believed:
// memory grows as bytes come.
static int read_block(kd_in *in, const char *what, uint64_t n, void **out, kd_err *err)
{
    const int64_t left = kd_in_left(in);
    *out = NULL;
    if (left >= 0 && n > (uint64_t)left)
        return fail_short(in, what, (uint64_t)left, n, err);
    uint64_t room = left >= 0 || n < FIRST_BLOCK ? n : FIRST_BLOCK, have = 0;
    char *p = kd_alloc(room);
    while (p) {
        size_t got;
        if (kd_in_read(in, p + have, room - have, &got, err))
            break;
        have += got;
        if (have < room) {
            fail_short(in, what, have, n, err);
            break;
        }
        if (room == n) {
            *out = p;
            return 0;
        }
        room = n - room < room ? n : 2 * room;
        char *larger = kd_alloc(room);
        if (larger)
            memcpy(larger, p, have);
        kd_free(p);
        p = larger;
    }
    if (!p)
        kd_fail_memory(err, what);
    kd_free(p);
    return err->code;
}

// The text of the header; NULL at the end of the input.
static int read_header(kd_in *in, char **text, uint64_t *n, kd_err *err)
{
    const void *peeked;
    unsigned char prefix[PREFIX];
    size_t got;
    *text = NULL;
    const size_t looked = kd_in_peek(in, &peeked, 64);
    const char *foreign = looked && kd_in_offset(in) == 0 ? known_as(peeked, looked) : NULL;
    if (foreign)
        return kd_fail(err, KD_EFORMAT, "%s: %s", kd_in_name(in), foreign);
    KD_TRY(kd_in_read(in, prefix, sizeof prefix, &got, err));
    if (got == 0)
        return 0;
    if (got < PREFIX)
        return kd_fail(err, KD_EFORMAT, "%s: %zu bytes where a header's length takes 8", kd_in_name(in), got);
    *n = 0;
    for (int i = 0; i < PREFIX; i++)
        *n |= (uint64_t)prefix[i] << 8 * i;
    if (*n < 2 || *n > KD_FRAME_LIMIT)
        return kd_fail(err, KD_EFORMAT, "%s: not safetensors: header length %" PRIu64 ", expected 2 to %d", kd_in_name(in), *n,
                       KD_FRAME_LIMIT);
    void *block;
    KD_TRY(read_block(in, "header", *n, &block, err));
    *text = block;
    return 0;
}

struct kd_frame_in {
    kd_in *in;
    kd_frame *frame;
    char *text; uint64_t n;                   // the header, for the checksum
    kd_hash *hash;                            // of the data taken
    uint64_t start, taken, bytes;             // of the data: where it begins in the input, taken so far, all
};

int kd_frame_in_open(kd_frame_in **out, kd_in *in, kd_err *err)
{
    char *text;
    uint64_t n;
    int64_t bytes = 0;
    *out = NULL;
    if (read_header(in, &text, &n, err) || !text)
        return err->code;
    kd_frame_in *f = kd_alloc(sizeof *f);
    if (!f) {
        kd_free(text);
        return kd_fail_memory(err, kd_in_name(in));
    }
    *f = (kd_frame_in){ .in = in, .text = text, .n = n, .start = kd_in_offset(in), .frame = kd_frame_new(), .hash = kd_hash_new() };
    if (!f->frame || !f->hash)
        kd_fail_memory(err, kd_in_name(in));
    else if (!kd_header_parse(f->frame, kd_in_name(in), text, n, &bytes, err) && kd_in_left(in) >= 0 && bytes > kd_in_left(in))
        fail_short(in, "data", (uint64_t)kd_in_left(in), (uint64_t)bytes, err);
    f->bytes = (uint64_t)bytes;
    if (err->code)
        kd_frame_in_close(f);
    else
        *out = f;
    return err->code;
}

void kd_frame_in_close(kd_frame_in *f)
{
    if (!f)
        return;
    kd_free(f->text);
    kd_hash_free(f->hash);
    kd_frame_free(f->frame);
    kd_free(f);
}

kd_frame *kd_frame_in_take(kd_frame_in *f)
{
    kd_frame *frame = f->frame;
    f->frame = NULL;
    kd_frame_in_close(f);
    return frame;
}

kd_frame *kd_frame_in_frame(const kd_frame_in *f) { return f->frame; }
int64_t kd_frame_in_bytes(const kd_frame_in *f) { return (int64_t)f->bytes; }

uint64_t kd_frame_in_offset(const kd_frame_in *f, const kd_tensor *t)
{
    uint64_t at = f->start;
    for (const kd_tensor *before = f->frame->t; before < t; before++)
        at += kd_tensor_bytes(before);
    return at;
}

static void add_taken(kd_frame_in *f, const void *data, size_t n)
{
    kd_hash_add(f->hash, data, n);
    f->taken += n;
}

// The input ends in the middle of the data.
static int fail_within(const kd_frame_in *f, kd_err *err)
{
    const kd_tensor *t = f->frame->t;
    uint64_t left = f->taken;
    char what[200];
    for (; left >= kd_tensor_bytes(t); t++)
        left -= kd_tensor_bytes(t);
    snprintf(what, sizeof what, "tensor %s", t->name);
    return fail_short(f->in, what, left, kd_tensor_bytes(t), err);
}

int kd_frame_in_read(kd_frame_in *f, void *to, size_t n, kd_err *err)
{
    size_t got;
    KD_TRY(kd_in_read(f->in, to, n, &got, err));
    add_taken(f, to, got);
    return got < n ? fail_within(f, err) : 0;
}

static int pass_to(kd_frame_in *f, uint64_t place, kd_err *err)
{
    char bytes[1 << 15];
    while (f->taken < place) {
        const uint64_t left = place - f->taken;
        KD_TRY(kd_frame_in_read(f, bytes, left < sizeof bytes ? left : sizeof bytes, err));
    }
    return 0;
}

int kd_frame_in_pass(kd_frame_in *f, const kd_tensor *t, kd_err *err)
{
    return pass_to(f, kd_frame_in_offset(f, t) - f->start, err);
}

// A file that another program changed may still carry our key: its sum then cannot match, and saying so is right.
static int verify(kd_frame_in *f, kd_err *err)
{
    const char *file = kd_in_name(f->in), *want = kd_frame_meta(f->frame, "kd_xxh3");
    if (!want)
        return 0;
    char *at = kd_header_checksum(f->text, f->n), got[17];
    if (!at)
        return kd_fail(err, KD_EFORMAT, "%s: kd_xxh3: expected sixteen hexadecimal digits, got \"%.20s\"", file, want);
    memset(at, '0', 16);
    kd_hash_add(f->hash, f->text, f->n);
    snprintf(got, sizeof got, "%016" PRIx64, kd_hash_get(f->hash));
    if (strcmp(got, want))
        return kd_fail(err, KD_EFORMAT, "%s: checksum is %s, expected %.16s: the file was damaged or changed", file, got, want);
    return 0;
}

int kd_frame_in_end(kd_frame_in *f, kd_err *err)
{
    KD_TRY(pass_to(f, f->bytes, err));
    return verify(f, err);
}

int kd_frame_in_all(kd_frame_in *in, kd_keep_fn keep, void *arg, kd_err *err)
{
    kd_frame *f = in->frame;
    int kept = 0;
    for (int i = 0; i < f->n; i++) {
        kd_tensor *t = &f->t[i];
        char what[200];
        snprintf(what, sizeof what, "tensor %s", t->name);
        void *data;
        KD_TRY(read_block(in->in, what, kd_tensor_bytes(t), &data, err));
        add_taken(in, data, kd_tensor_bytes(t));
        if (keep && !keep(arg, f, t->name)) {
            kd_free(data);
            free(t->name);
            t->name = NULL;
            continue;
        }
        t->data = data;
        t->borrowed = false;
        kept++;
    }
    int to = 0;
    for (int i = 0; i < f->n; i++)
        if (f->t[i].name)
            f->t[to++] = f->t[i];
    f->n = kept;
    return verify(in, err);
}

int kd_safetensors_read_some(kd_in *in, kd_keep_fn keep, void *arg, kd_frame **frame, kd_err *err)
{
    kd_frame_in *f;
    *frame = NULL;
    if (kd_frame_in_open(&f, in, err) || !f)
        return err->code;
    if (kd_frame_in_all(f, keep, arg, err))
        kd_frame_in_close(f);
    else
        *frame = kd_frame_in_take(f);
    return err->code;
}

int kd_safetensors_read(kd_in *in, kd_frame **frame, kd_err *err)
{
    return kd_safetensors_read_some(in, NULL, NULL, frame, err);
}

int kd_safetensors_read_last(kd_in *in, kd_keep_fn keep, void *arg, kd_frame **frame, kd_err *err)
{
    const void *bytes;
    KD_TRY(kd_safetensors_read_some(in, keep, arg, frame, err));
    if (!*frame)
        return kd_fail(err, KD_EFORMAT, "%s: empty", kd_in_name(in));
    if (!kd_in_peek(in, &bytes, 1))
        return 0;
    kd_frame_free(*frame);
    *frame = NULL;
    if (kd_in_left(in) > 0)
        return kd_fail(err, KD_EFORMAT, "%s: %" PRId64 " bytes after the last tensor belong to nothing", kd_in_name(in), kd_in_left(in));
    return kd_fail(err, KD_EFORMAT, "%s: more bytes after the last tensor, which belong to nothing", kd_in_name(in));
}

int kd_safetensors_load_some(const char *path, kd_keep_fn keep, void *arg, kd_frame **frame, kd_err *err)
{
    kd_in *in;
    *frame = NULL;
    KD_TRY(kd_in_open(&in, path, err));
    kd_safetensors_read_last(in, keep, arg, frame, err);
    kd_in_close(in);
    return err->code;
}

int kd_safetensors_load(const char *path, kd_frame **frame, kd_err *err)
{
    return kd_safetensors_load_some(path, NULL, NULL, frame, err);
}

int kd_safetensors_pick(const char *file_name, kd_frame **frame, const kd_tensor **t, kd_err *err)
{
    const char *colon = strrchr(file_name, ':');
    *frame = NULL;
    if (!colon || colon == file_name || !colon[1])
        return kd_fail(err, KD_EUSAGE, "%s: expected FILE:NAME, a safetensors file and a tensor in it", file_name);
    kd_str path = {0};
    if (!kd_str_add(&path, file_name, (size_t)(colon - file_name), err) && !kd_safetensors_load(path.p, frame, err)) {
        *t = kd_frame_get(*frame, colon + 1);
        if (!*t) {
            kd_fail(err, KD_EUSAGE, "%s: no tensor %s in it", path.p, colon + 1);
            kd_frame_free(*frame);
            *frame = NULL;
        }
    }
    free(path.p);
    return err->code;
}

// Writing ------------------------------------------------------------------------------------------------------

int kd_safetensors_write(kd_out *out, const kd_frame *f, kd_err *err)
{
    kd_str header = {0};
    size_t at = 0;
    char sum[17];
    kd_hash *hash = kd_hash_new();
    if (!hash)
        return kd_fail_memory(err, kd_out_name(out));
    if (kd_header_build(&header, f, 0, &at, err))
        goto done;
    for (int i = 0; i < f->n; i++)
        kd_hash_add(hash, f->t[i].data, kd_tensor_bytes(&f->t[i]));
    kd_hash_add(hash, header.p + PREFIX, header.n - PREFIX);
    snprintf(sum, sizeof sum, "%016" PRIx64, kd_hash_get(hash));
    memcpy(header.p + at, sum, 16);
    if (kd_out_write(out, header.p, header.n, err))
        goto done;
    for (int i = 0; i < f->n; i++)
        if (kd_out_write(out, f->t[i].data, kd_tensor_bytes(&f->t[i]), err))
            goto done;
done:
    kd_hash_free(hash);
    free(header.p);
    return err->code;
}

// Records ------------------------------------------------------------------------------------------------------

const char *kd_frame_kind(const kd_frame *f) { return kd_frame_meta(f, "kd"); }

int kd_frame_want(const kd_frame *f, const char *file, const char *want, bool foreign, kd_err *err)
{
    const char *kind = kd_frame_kind(f);
    if (kind ? !strcmp(kind, want) : foreign)
        return 0;
    return kd_fail(err, KD_EFORMAT, "%s: expected %s, got %s%.64s", file, want, kind ? "" : "a file that says no kind",
                   kind ? kind : "");
}

int kd_frame_add_history(kd_frame *f, const char *line, kd_err *err)
{
    const char *old = kd_frame_meta(f, "kd_history");
    kd_str s = {0};
    if (!line)
        return 0;
    if (!kd_str_printf(&s, err, "%s%s%s", old ? old : "", old && *old ? "\n" : "", line))
        kd_frame_set_meta(f, "kd_history", s.p, err);
    free(s.p);
    return err->code;
}
