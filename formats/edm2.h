// EDM2's references: pickled statistics, read without running what is in them. Page: formats/edm2.md
#ifndef KD_EDM2_H
#define KD_EDM2_H
#include "base/io.h"
#include "tensor/tensor.h"

typedef struct kd_edm2 {
    int64_t n;                 // images; 0: the file does not say
    kd_frame *arrays;          // "fid.mu" [d], "fid.sigma" [d,d], and so on: F64 in C order; no metadata
} kd_edm2;

/// Are these the first bytes of a pickle? n: as many as there are, up to 64
bool kd_edm2_knows(const void *bytes, size_t n);
/// Reads an input to its end. Memory: twice the file.
/// errors  KD_EFORMAT that says what was met: "ref.pkl: pickle: global posix.system at byte 154 is not allowed",
///         "ref.pkl: fid.mu: expected an array, got a list"
int kd_edm2_read(kd_edm2 **e, kd_in *in, kd_err *err);
void kd_edm2_free(kd_edm2 *e);

#endif
