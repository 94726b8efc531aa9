// Zip archives that are in memory: what torch.save writes. Page: formats/zip.md
#ifndef KD_ZIP_H
#define KD_ZIP_H
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// A member. The name is without the one folder that all members lie in, and not NUL terminated.
typedef struct kd_zip_member {
    const char *name; size_t n_name;
    const uint8_t *packed; size_t n_packed;              // inside the archive
    size_t size;                                         // unpacked
    size_t at;                                           // of the packed bytes, in the archive
    uint32_t crc;
    bool deflated;                                       // else stored
} kd_zip_member;

typedef struct kd_zip kd_zip;

/// Reads the directory at the end of n bytes, which must stay. Every offset and length is checked, members lie one after another
/// without overlap, each local header agrees with the directory. Zip64 is known; encryption, other methods than stored and
/// deflate, archives in parts, two members of one name, and members that do not share their first folder are refused.
/// file    for messages; must stay
/// errors  KD_EFORMAT "x.pth: zip: ..."
int kd_zip_open(kd_zip **z, const char *file, const void *bytes, size_t n, kd_err *err);
void kd_zip_close(kd_zip *z);

/// The member of a name (without the folder), or NULL.
const kd_zip_member *kd_zip_find(const kd_zip *z, const char *name);

/// Member i in the order of their names, or NULL past the last.
const kd_zip_member *kd_zip_at(const kd_zip *z, size_t i);

/// The bytes of a member, checked against its CRC-32.
/// bytes   inside the archive if it is stored; else in *block, which is the caller's to kd_free (NULL if stored). A deflated
///         member that claims more than deflate can make of its bytes is refused before memory is taken for it.
int kd_zip_read(const kd_zip *z, const kd_zip_member *m, const uint8_t **bytes, void **block, kd_err *err);
#endif
