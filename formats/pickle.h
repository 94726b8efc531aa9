// Python pickles, read as data: a fixed list of opcodes, and only the names that the caller allows. Page: formats/pickle.md
#ifndef KD_PICKLE_H
#define KD_PICKLE_H
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    KD_PY_NONE, KD_PY_BOOL, KD_PY_INT, KD_PY_FLOAT, KD_PY_STR,
    KD_PY_LONG,                // an integer of more than 64 bits, as its little-endian bytes in `s`
    KD_PY_BYTES,               // n bytes in `s`, as many as there are: no NUL ends them
    KD_PY_LIST, KD_PY_TUPLE,   // items
    KD_PY_DICT,                // items: key, value, key, value, ...
    KD_PY_NAME,                // an allowed name, by its number in the caller's table
    KD_PY_CALL,                // an allowed name with a tuple of arguments, and with its state if BUILD gave one (then n is 2). It is
                               // never called: it is for the caller to read
    KD_PY_OUTSIDE,             // a persistent id: one item, which says what stands here
} kd_py_type;

/// A value. It may be part of several others, or of itself: who walks over them limits depth and number.
typedef struct kd_py {
    kd_py_type type;
    uint32_t n, room;          // items in use
    int name;                  // of NAME and CALL; BOOL: 0 or 1
    union {
        int64_t i;
        double f;
        const char *s;         // n bytes, inside the pickle: not NUL terminated, any bytes
        struct kd_py **item;   // OUTSIDE: one; CALL: the arguments, and the state
    };
} kd_py;

/// What a name is good for: to be called with arguments; to make a dict; to be called and then given a state; to make an object
/// without arguments, a CALL, and then give it a dict of attributes (its second item).
typedef enum { KD_PY_CALLS, KD_PY_MAKES_DICT, KD_PY_TAKES_STATE, KD_PY_MAKES_OBJECT } kd_py_use;
/// A name that a pickle may speak of: what Python finds at module.name. MAKES_OBJECT: any name, in the module or below it.
typedef struct kd_py_name { const char *module, *name; kd_py_use use; } kd_py_name;

typedef struct kd_pickle kd_pickle;

enum { KD_PICKLE_MAX = 16 << 20 };       // bytes, without those of values of type BYTES

/// Bytes of memory that a pickle of so many bytes on disk backs, for its values and for what is made of them: a base, and a factor times as
/// many. A packed one backs more, for real ones shrink to a quarter; its unpacked bytes are among those it pays for.
size_t kd_pickle_backs(size_t on_disk, bool packed);
enum { KD_PICKLE_BASE = 1 << 20, KD_PICKLE_FACTOR = 64, KD_PICKLE_FACTOR_PACKED = 256 };

/// Are these the first bytes of a pickle of protocols 2 to 5? Not if they may be a safetensors file's. n: as many as there are, up to 64
bool kd_pickle_knows(const void *bytes, size_t n);

/// Reads one pickle, which ends at its STOP, from n bytes (which must stay: strings point into them). Memory: at most what
/// kd_pickle_backs allows for the bytes read, bytes of values of type BYTES not counted; packed ones are in the caller's hands by then.
/// file    for messages: "x.pth: pickle: global posix.system at byte 123 is not allowed"
/// at      where the pickle starts in the file, for the same
/// names   those allowed, `module` NULL at the end
/// packed  bytes that the n bytes take on disk if they were deflated there; else 0
/// used    set to the bytes it took
/// errors  KD_EFORMAT with the opcode's place in the file; above KD_PICKLE_MAX bytes; KD_EFAIL without memory
int kd_pickle_read(kd_pickle **p, const char *file, const void *bytes, size_t n, size_t at, size_t packed, const kd_py_name *names,
                   size_t *used, kd_err *err);
void kd_pickle_free(kd_pickle *p);

/// Takes bytes of memory from what the pickle backs, before they are allocated for something that is made of its values.
/// errors  KD_EFORMAT if that is more than is left
int kd_pickle_spend(kd_pickle *p, size_t bytes, kd_err *err);
/// What malloc takes for so many bytes (glibc's bookkeeping and rounding).
size_t kd_pickle_cost(size_t bytes);

/// The value it makes. Everything belongs to the pickle.
const kd_py *kd_pickle_value(const kd_pickle *p);
/// The persistent ids, in the order in which they stand.
size_t kd_pickle_outside(const kd_pickle *p, const kd_py *const **list);

/// The value of a text key in a dict (the last, if there are several), or NULL.
const kd_py *kd_py_get(const kd_py *dict, const char *key);
/// Is it this text?
bool kd_py_is(const kd_py *v, const char *text);
/// What it is, for messages: "a list", "the number 3".
const char *kd_py_what(const kd_py *v, char *buf, size_t room);
#endif
