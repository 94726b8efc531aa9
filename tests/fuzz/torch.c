// Any bytes to the reader of PyTorch's files. All that it accepts can be read, and described.
#include "base/io.h"
#include "feed.h"
#include "formats/torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void use(const kd_torch *t)
{
    kd_err err = {0};
    uint64_t sum = 0;
    for (int i = 0; i < t->tensors->n; i++)
        sum += kd_hash_of(t->tensors->t[i].data, kd_tensor_bytes(&t->tensors->t[i]));
    volatile uint64_t sink = sum;                     // so that the reads above happen
    (void)sink;
    json_t *doc = json_object();
    if (!doc || kd_torch_describe(doc, t, true, &err)) abort();
    json_decref(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    kd_err err = {0};
    kd_torch *t = NULL;
    feed f = feed_file(bytes, n);
    if (kd_torch_load(&t, f.path, &err) && (err.code != KD_EFORMAT || !err.msg[0])) abort();
    if (t) use(t);
    kd_torch_free(t);
    feed_end(f);
    return 0;
}
