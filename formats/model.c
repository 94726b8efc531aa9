// Loading weights from model and checkpoint files. Page: formats/model.md
#include "formats/model.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A checkpoint holds four times its weights: only the asked ones stay in memory.
static bool wanted(void *arg, const kd_frame *f, const char *name)
{
    const char *kind = kd_frame_kind(f), *prefix = arg;
    return !kind || strcmp(kind, "checkpoint/1") || !strncmp(name, prefix, strlen(prefix));
}

static int check(kd_frame *f, const char *file, bool bare, bool *checkpoint, kd_err *err)
{
    const char *kind = kd_frame_kind(f);
    *checkpoint = kind && !strcmp(kind, "checkpoint/1");
    if (kind && !*checkpoint && strcmp(kind, "model/1"))
        return kd_fail(err, KD_EFORMAT, "%s: expected a model or a checkpoint, got %.64s", file, kind);
    if (!kd_frame_meta(f, "config") && (kind || !bare))
        return kd_fail(err, KD_EFORMAT, "%s: no config in its metadata: not a model", file);
    if (!f->n)
        return kd_fail(err, KD_EFORMAT, "%s: no weights in it", file);
    return 0;
}

int kd_model_file_read(kd_frame **frame, kd_in *in, bool raw, bool bare, kd_err *err)
{
    char *prefix = raw ? "model." : "ema.";
    bool checkpoint = false;
    KD_TRY(kd_safetensors_read_last(in, wanted, prefix, frame, err));
    if (check(*frame, kd_in_name(in), bare, &checkpoint, err)) {
        kd_frame_free(*frame);
        *frame = NULL;
        return err->code;
    }
    for (int i = 0; checkpoint && i < (*frame)->n; i++) {
        char *name = (*frame)->t[i].name;
        memmove(name, name + strlen(prefix), strlen(name + strlen(prefix)) + 1);
    }
    return 0;
}

int kd_model_file_load(kd_frame **frame, const char *path, bool raw, kd_err *err)
{
    kd_in *in;
    *frame = NULL;
    KD_TRY(kd_in_open(&in, path, err));
    kd_model_file_read(frame, in, raw, false, err);
    kd_in_close(in);
    return err->code;
}

// The tensor with the least name after `last` (NULL: of all). Names are few and differ, so looking through them each
// time is quick enough, and needs no memory.
static const kd_tensor *next_by_name(const kd_frame *f, const char *last)
{
    const kd_tensor *next = NULL;
    for (int i = 0; i < f->n; i++)
        if ((!last || strcmp(f->t[i].name, last) > 0) && (!next || strcmp(f->t[i].name, next->name) < 0))
            next = &f->t[i];
    return next;
}

void kd_model_hash(const kd_frame *f, char hex[17])
{
    uint64_t sum = 0;
    for (const kd_tensor *t = next_by_name(f, NULL); t; t = next_by_name(f, t->name)) {
        char what[256], shape[200];
        const int n = snprintf(what, sizeof what, "%s %s", kd_dtype_name(t->dtype), kd_shape_str(shape, sizeof shape, &t->shape));
        const uint64_t link[4] = { sum, kd_hash_of(t->name, strlen(t->name)), kd_hash_of(what, (size_t)n),
                                   kd_hash_of(t->data, kd_tensor_bytes(t)) };
        sum = kd_hash_of(link, sizeof link);
    }
    snprintf(hex, 17, "%016" PRIx64, sum);
}
