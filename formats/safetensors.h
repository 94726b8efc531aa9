// The one container: safetensors frames, in files and back to back in pipes. Page: formats/safetensors.md
#ifndef KD_SAFETENSORS_H
#define KD_SAFETENSORS_H
#include "base/io.h"
#include "tensor/tensor.h"

/// What a reader of frames does with the data of a tensor before it is in memory.
enum { KD_FRAME_LIMIT = 100 * 1000 * 1000 };          // largest header, as in the reference implementation

/// Reads the next frame; *frame is NULL at a clean end of input. Every length, offset and product is checked: dtype
/// known, no gap, no overlap, shape times size equals length, nothing allocated that the input cannot back (a pipe's
/// tensors grow as bytes come). Nothing seeks.
/// If the frame carries kd_xxh3, the data and header are verified.
/// errors  KD_EFORMAT "model.safetensors: tensor b: offsets 16..48 overlap ..." with the place, expected and found
int kd_safetensors_read(kd_in *in, kd_frame **frame, kd_err *err);

/// A frame that is being read: its header is known and checked as above, its data stand in the input. For frames that
/// are larger than what a program wants in memory.
typedef struct kd_frame_in kd_frame_in;
/// Reads a header; *f is NULL at a clean end of input. `in` stays the caller's and must outlive it.
int kd_frame_in_open(kd_frame_in **f, kd_in *in, kd_err *err);
void kd_frame_in_close(kd_frame_in *f);                        // NULL is fine
/// Its metadata and its tensors, in the order of the data, which is NULL until kd_frame_in_all. Owned by f.
kd_frame *kd_frame_in_frame(const kd_frame_in *f);
kd_frame *kd_frame_in_take(kd_frame_in *f);                    // closes f: the frame is the caller's
int64_t kd_frame_in_bytes(const kd_frame_in *f);               // of all its data
/// Where a tensor's data begin in the input, for kd_in_read_at.
uint64_t kd_frame_in_offset(const kd_frame_in *f, const kd_tensor *t);
/// Reads all data into memory, or of the tensors that `keep` wants (below), and verifies kd_xxh3. Nothing was read before.
typedef bool (*kd_keep_fn)(void *arg, const kd_frame *frame, const char *name);
int kd_frame_in_all(kd_frame_in *f, kd_keep_fn keep, void *arg, kd_err *err);
/// Or bit by bit, in order: the next n bytes; all before a tensor's, passed by; all that is left, passed by, and kd_xxh3
/// verified. Only after kd_frame_in_end is it known that what was read is good.
int kd_frame_in_read(kd_frame_in *f, void *to, size_t n, kd_err *err);
int kd_frame_in_pass(kd_frame_in *f, const kd_tensor *t, kd_err *err);
int kd_frame_in_end(kd_frame_in *f, kd_err *err);

/// Reads a file that is one frame and nothing after it.
int kd_safetensors_load(const char *path, kd_frame **frame, kd_err *err);

/// The same, but keeps only the tensors that `keep` wants: others are checked and summed, and hold no memory after.
/// keep   called with the frame (its metadata is complete) and a tensor's name, in the order of the data
int kd_safetensors_read_some(kd_in *in, kd_keep_fn keep, void *arg, kd_frame **frame, kd_err *err);
int kd_safetensors_load_some(const char *path, kd_keep_fn keep, void *arg, kd_frame **frame, kd_err *err);
/// From an open input, of which the frame must be the rest.
int kd_safetensors_read_last(kd_in *in, kd_keep_fn keep, void *arg, kd_frame **frame, kd_err *err);

/// Writes one frame: tensors in their order, header padded with spaces so that data starts at a multiple of 64 bytes,
/// kd_xxh3 set. Metadata first in the header.
int kd_safetensors_write(kd_out *out, const kd_frame *frame, kd_err *err);

/// Writes one frame as the reference implementation does, byte for byte: larger elements first, then by name; header without
/// spaces between, padded to a multiple of 8; no checksum, and none of our metadata that the frame does not have.
int kd_safetensors_write_plain(kd_out *out, const kd_frame *frame, kd_err *err);

/// "FILE:NAME", split at the last colon: loads the file and returns its frame and the tensor (inside the frame).
int kd_safetensors_pick(const char *file_name, kd_frame **frame, const kd_tensor **t, kd_err *err);

/// The kind of record: metadata key `kd` ("images/1"), or NULL for a peer's file.
const char *kd_frame_kind(const kd_frame *frame);
/// Checks that the kind is `want` ("model/1"); a frame without kind passes if `foreign`.
int kd_frame_want(const kd_frame *frame, const char *file, const char *want, bool foreign, kd_err *err);

/// Appends a command line to kd_history (NULL: leaves it as it is).
int kd_frame_add_history(kd_frame *frame, const char *line, kd_err *err);

/// One-line size summary and checksum state for kd-info are in tools/kd-info.c, on top of these.
#endif
