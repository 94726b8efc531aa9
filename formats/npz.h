// npz: archives of numpy's arrays. Page: formats/npz.md
#ifndef KD_NPZ_H
#define KD_NPZ_H
#include "base/io.h"
#include "tensor/tensor.h"

typedef struct kd_npz {
    kd_frame *arrays;              // by name, in C order; no metadata
    struct kd_npz_memory *memory;  // what they lie in
} kd_npz;

/// Are these the first bytes of a zip archive? It may be PyTorch's too.
bool kd_npz_knows(const void *bytes, size_t n);
/// Reads an input to its end; a regular file is mapped instead, so stored arrays take no memory.
/// errors  KD_EFORMAT "ref.npz: mu.npy: ..."; KD_EUSAGE if no member's name ends with .npy: an archive of another kind
int kd_npz_read(kd_npz **z, kd_in *in, kd_err *err);
void kd_npz_free(kd_npz *z);

#endif
