// PyTorch's files (torch.save: .pth, .pt), zip and legacy, read without running what is in them. Page: formats/torch.md
#ifndef KD_TORCH_H
#define KD_TORCH_H
#include "base/io.h"
#include "tensor/tensor.h"
#include <jansson.h>

typedef struct kd_torch {
    kd_frame *tensors;         // under dotted paths ("opt.state.0.exp_avg"), in the order of the file; no metadata
    json_t *rest;              // all else, nested as in the file; a tensor in a list is null, in a dict it is left out
    bool legacy;               // of PyTorch before 1.6: no checksums
    struct kd_torch_store *store;                        // what the tensors' data points into
} kd_torch;

/// Are these the first bytes of such a file, or of any pickle? n: as many as there are, up to 64
bool kd_torch_knows(const void *bytes, size_t n);

/// Reads a file to its end. Tensors have their own shape, C order, this machine's byte order; a view shares its storage's bytes.
/// The rest has text, numbers, true, false, null; NaN and infinities are the texts "nan", "inf", "-inf". Keys that are numbers
/// become text.
/// Memory: the file, at most as much again for tensors that are not contiguous, and what kd_pickle_backs allows for the values; for
/// members that are deflated (torch.save's are stored) kd_pickle_backs of the file, and as much for tensors that are not contiguous.
/// errors  KD_EFORMAT that says what is wrong or not allowed: "x.pth: storage 1 is missing in the archive"; those of kd_in_open
int kd_torch_read(kd_torch **t, kd_in *in, kd_err *err);
int kd_torch_load(kd_torch **t, const char *path, kd_err *err);
void kd_torch_free(kd_torch *t);

/// "opt.param_groups.0.lr" and the like: calls `see` for each value of `rest` that is not a dict, nor a list with a dict in it.
/// A code other than 0 ends the walk and is returned.
int kd_torch_each(const json_t *rest, int (*see)(void *arg, const char *path, const json_t *value, kd_err *err), void *arg, kd_err *err);

/// What kd-info says of it (formats/info.h), put into doc.
int kd_torch_describe(json_t *doc, const kd_torch *t, bool with_stats, kd_err *err);
#endif
