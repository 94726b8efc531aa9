// The bytes of a file, unpacked on the way if it is gzip (RFC 1952): what every reader of a source reads.
#ifndef KD_BYTES_H
#define KD_BYTES_H
#include "base/io.h"

typedef struct kd_bytes kd_bytes;
enum { KD_BYTES_PEEK = 4096 };

/// Opens a file, or stdin for "-". errors those of kd_in_open
int kd_bytes_open(kd_bytes **b, const char *path, kd_err *err);
void kd_bytes_close(kd_bytes *b);                        // NULL is fine

/// Looks at up to n (<= KD_BYTES_PEEK) bytes without taking them; fewer at the end of the file.
/// errors KD_EFORMAT if they cannot be unpacked
int kd_bytes_peek(kd_bytes *b, const uint8_t **bytes, size_t n, size_t *got, kd_err *err);
/// Reads exactly n bytes, fewer only at the end of the file.
/// errors KD_EFORMAT "gzip: ..." (cut short, damaged, wrong checksum), KD_EFAIL for a failing disk
int kd_bytes_read(kd_bytes *b, void *to, size_t n, size_t *got, kd_err *err);
/// Reads the rest; *to is the caller's to free(). errors as kd_bytes_read, and KD_EFORMAT above `limit` bytes
int kd_bytes_rest(kd_bytes *b, size_t limit, uint8_t **to, size_t *n, kd_err *err);

bool kd_bytes_packed(const kd_bytes *b);                 // was gzip
/// Bytes left if that is known (a plain regular file), else -1.
int64_t kd_bytes_left(const kd_bytes *b);
#endif
