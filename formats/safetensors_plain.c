// Frames as the reference implementation writes them: for files that are to be the peer's.
#include "formats/safetensors.h"
#include "formats/safetensors_header.h"
#include <stdlib.h>
#include <string.h>

// Its types in the order of their declaration, which its sorting goes by, the last first.
static int rank(kd_dtype t)
{
    static const kd_dtype order[] = { KD_BOOL, KD_U8, KD_I8, KD_I16, KD_U16, KD_F16, KD_BF16, KD_I32, KD_U32, KD_F32, KD_F64, KD_I64,
                                      KD_U64 };
    int i = 0;
    while (order[i] != t)
        i++;
    return i;
}

static int compare(const void *x, const void *y)
{
    const kd_tensor *a = x, *b = y;
    return a->dtype != b->dtype ? rank(b->dtype) - rank(a->dtype) : strcmp(a->name, b->name);
}

int kd_safetensors_write_plain(kd_out *out, const kd_frame *frame, kd_err *err)
{
    kd_frame sorted = *frame;
    kd_str header = {0};
    if (!(sorted.t = kd_alloc((size_t)frame->n * sizeof *sorted.t)))
        return kd_fail_memory(err, kd_out_name(out));
    if (frame->n)
        memcpy(sorted.t, frame->t, (size_t)frame->n * sizeof *sorted.t);
    qsort(sorted.t, (size_t)frame->n, sizeof *sorted.t, compare);
    if (!kd_header_build_plain(&header, &sorted, err))
        kd_out_write(out, header.p, header.n, err);
    for (int i = 0; i < sorted.n && !err->code; i++)
        kd_out_write(out, sorted.t[i].data, kd_tensor_bytes(&sorted.t[i]), err);
    kd_free(sorted.t);
    free(header.p);
    return err->code;
}
