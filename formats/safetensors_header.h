// Private to safetensors.c and images.c: the header of a frame, as text and as tensors without data.
#ifndef KD_SAFETENSORS_HEADER_H
#define KD_SAFETENSORS_HEADER_H
#include "base/memory.h"
#include "formats/safetensors.h"

enum { KD_FRAME_ALIGN = 64 };

/// Parses a header's JSON. Appends its tensors to `frame` in the order of their data, with data NULL, and its metadata.
/// All rules of formats/safetensors.md that concern the header are checked; *bytes is the length of the data.
int kd_header_parse(kd_frame *frame, const char *file, const char *text, size_t n, int64_t *bytes, kd_err *err);

/// The header of a frame as bytes: length, JSON, spaces. kd_xxh3 is set to sixteen zeros, in the last place of the
/// metadata; a kd_xxh3 of the frame itself is left out.
/// room   0, or the total length (8 + N, a multiple of 64) to pad to: a header that was reserved. KD_EFAIL if too small.
/// at     where the sixteen digits are in *out
int kd_header_build(kd_str *out, const kd_frame *frame, size_t room, size_t *at, kd_err *err);

/// The same as the reference implementation writes it: tensors in the frame's order, metadata as they are, padded to 8.
int kd_header_build_plain(kd_str *out, const kd_frame *frame, kd_err *err);

/// Finds the value of kd_xxh3 in a header's JSON; NULL if it is not sixteen digits, written without escapes.
char *kd_header_checksum(char *text, size_t n);

#endif
