// Bytes in and out. An output file appears whole or not at all; pipes, devices and /dev/fd/N are written straight.
#ifndef KD_IO_H
#define KD_IO_H
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kd_in kd_in;
typedef struct kd_out kd_out;

/// Opens a file, or stdin for "-". errors KD_EUSAGE if it cannot be opened ("model.st: No such file or directory").
int kd_in_open(kd_in **in, const char *path, kd_err *err);
void kd_in_close(kd_in *in);

/// Reads exactly n bytes, or up to the end. *got is less than n only at the end of the input. errors KD_EFAIL on EIO.
int kd_in_read(kd_in *in, void *to, size_t n, size_t *got, kd_err *err);
/// The same at an offset (as kd_in_offset counts), whatever was taken before, and taking nothing. Regular files only.
int kd_in_read_at(kd_in *in, uint64_t offset, void *to, size_t n, size_t *got, kd_err *err);
/// Looks at up to n (<= 4096) bytes without taking them; returns how many there are.
size_t kd_in_peek(kd_in *in, const void **bytes, size_t n);
/// Bytes left if the input is a regular file, else -1. For checking a length before allocating for it.
int64_t kd_in_left(const kd_in *in);
uint64_t kd_in_offset(const kd_in *in);
const char *kd_in_name(const kd_in *in);              // the path, or "stdin"

/// Reads a whole file into memory (at most `limit` bytes, else KD_EFORMAT); *bytes is the caller's to free().
/// One NUL byte is put after the data, not counted in *n.
int kd_read_file(const char *path, size_t limit, void **bytes, size_t *n, kd_err *err);
/// The same for what is left of an open input.
int kd_in_read_rest(kd_in *in, size_t limit, void **bytes, size_t *n, kd_err *err);

/// Opens an output. A path that names nothing or a regular file (links followed) is written to a temporary file
/// beside it, fsynced and renamed by kd_out_commit. "-", pipes, devices, /dev/fd/N: straight.
/// errors KD_EUSAGE if binary and the output is a terminal, or the folder does not exist; KD_EFAIL otherwise.
int kd_out_open(kd_out **out, const char *path, bool binary, kd_err *err);
int kd_out_write(kd_out *out, const void *bytes, size_t n, kd_err *err);
/// Writes at an absolute offset (for patching a header); only if kd_out_is_file.
int kd_out_patch(kd_out *out, uint64_t offset, const void *bytes, size_t n, kd_err *err);
bool kd_out_is_file(const kd_out *out);               // has a temporary file: can be patched
uint64_t kd_out_offset(const kd_out *out);
int kd_out_flush(kd_out *out, kd_err *err);           // so that a reader of a pipe sees what is there
const char *kd_out_name(const kd_out *out);
/// KD_FAIL_WRITE=n in the environment (a test hook) makes the n-th write, fsync or rename fail with ENOSPC.
/// Makes it final: flush, fsync, rename, fsync of the folder. Without it kd_out_close removes the temporary file.
int kd_out_commit(kd_out *out, kd_err *err);
void kd_out_close(kd_out *out);                       // NULL is fine

/// Catches SIGINT and SIGTERM; kd_interrupted then says which signal came (0: none). A second one kills.
/// Temporary files of unfinished outputs are removed in kd_out_close, which the tool reaches.
void kd_catch_signals(void);
/// A read that waits for a pipe, or a write that waits for one, then fails with kd_fail_interrupted; files are unaffected.
int kd_interrupted(void);
int kd_fail_interrupted(kd_err *err);                 // KD_EINT or KD_ETERM, "interrupted"

/// XXH3, 64 bits, by libxxhash. Streaming.
typedef struct kd_hash kd_hash;
kd_hash *kd_hash_new(void);
void kd_hash_add(kd_hash *h, const void *bytes, size_t n);
uint64_t kd_hash_get(const kd_hash *h);
void kd_hash_free(kd_hash *h);
uint64_t kd_hash_of(const void *bytes, size_t n);

#endif
