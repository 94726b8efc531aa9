// What a file or stream is and holds, as one JSON document: what kd-info prints.
#ifndef KD_INFO_H
#define KD_INFO_H
#include "formats/safetensors.h"
#include <jansson.h>

/// Reads `path` ("-": stdin) to its end and describes it. *doc is the caller's to json_decref:
///   file, kind ("model/1"; "model", "images" or "tensors" for another program's file), checksum ("good" or "none"),
///   metadata {key: text}, history [line]
///   images {n, h, w, c, dtype, labels {class: count}}     for a stream of images; else
///   frames, elements, bytes, tensors [{name, dtype, shape}]
/// A file of PyTorch (kind "checkpoint" or "tensors") has elements, bytes, tensors, and `values` {path: value}: all that is no tensor; its
/// metadata are `format`, and `config` if it has one.
/// with_stats   adds min, max, mean (of finite values; null without any) and, if there are others, not_finite: how many
/// errors       those of the readers; KD_EFORMAT for an unknown kind
int kd_info_of(json_t **doc, const char *path, bool with_stats, kd_err *err);

/// The part of it about tensors: elements, bytes, tensors.
int kd_info_tensors(json_t *doc, const kd_frame *f, bool with_stats, kd_err *err);

#endif
