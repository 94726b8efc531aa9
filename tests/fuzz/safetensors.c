// Any bytes to the reader of frames, as a file and through a pipe. A frame it accepts is written and read again.
#include "feed.h"
#include "formats/safetensors.h"
#include "base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/// What was read can be written: the reader lets nothing through that the writer or it itself refuses.
static void again(const kd_frame *frame)
{
    kd_err err = {0};
    kd_out *out = NULL;
    kd_frame *copy = NULL;
    int fd = memfd_create("again", MFD_CLOEXEC);
    feed f = feed_of(fd);
    if (kd_out_open(&out, f.path, true, &err) || kd_safetensors_write(out, frame, &err) || kd_out_commit(out, &err)) abort();
    kd_out_close(out);
    if (kd_safetensors_load(f.path, &copy, &err) || copy->n != frame->n) abort();
    kd_frame_free(copy);
    feed_end(f);
}

static void read_all(const char *path)
{
    kd_err err = {0};
    kd_in *in = NULL;
    kd_frame *frame = NULL;
    if (kd_in_open(&in, path, &err)) abort();
    while (kd_safetensors_read(in, &frame, &err) == 0 && frame) {
        kd_frame_kind(frame);
        again(frame);
        kd_frame_free(frame);
    }
    if (err.code && (err.code != KD_EFORMAT || !err.msg[0])) abort();   // a bad file is that and nothing else, with a reason
    kd_in_close(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    feed_both(bytes, n, read_all);
    return 0;
}
