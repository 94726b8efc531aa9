// JSON (jansson) with errors that name the place: "cfg.json: model.depths: expected 3 integers, got 2".
#ifndef KD_JSON_H
#define KD_JSON_H
#include "base/err.h"
#include "base/memory.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// A value and where it stands. Plain data on the stack: `up` points to the caller's own kd_json of the container, which
/// must live as long. Nothing is owned; the document's root belongs to whoever parsed it (json_decref).
typedef struct kd_json {
    const json_t *v;             // NULL: no such key
    const char *file;            // for messages
    int code;                    // of errors about it: KD_EUSAGE for a config, KD_EFORMAT for a file's header
    const struct kd_json *up;
    const char *key;             // in an object; NULL in an array
    size_t index;                // in an array
} kd_json;

/// Parses one document of n bytes, UTF-8. Duplicate keys, anything after the value, nesting beyond jansson's 2048
/// levels and integers beyond 64 bits are refused, with line and column. *root is the caller's to json_decref.
int kd_json_parse(json_t **root, const char *file, int code, const char *text, size_t n, kd_err *err);
kd_json kd_json_top(const json_t *root, const char *file, int code);

kd_json kd_json_at(const kd_json *object, const char *key);        // .v NULL if it is missing (or not an object)
kd_json kd_json_item(const kd_json *array, size_t index);          // .v NULL past the end
bool kd_json_given(const kd_json *j);                              // is there, and is not null

/// Fails with "file: path: message".
int kd_json_fail(const kd_json *j, kd_err *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/// "model.depths[2]" into buf; returns buf.
const char *kd_json_path(const kd_json *j, char *buf, size_t room);
/// What a value is, for "got ...": "a string", "the number 3", "nothing".
const char *kd_json_what(const kd_json *j, char *buf, size_t room);

// Each writes *to only if the value is there and right; a missing value or null is an error. Numbers with a fraction
// of zero (3.0) pass as integers, as Python's JSON users write them.
int kd_json_int(const kd_json *j, int64_t lo, int64_t hi, int64_t *to, kd_err *err);
int kd_json_num(const kd_json *j, double lo, double hi, double *to, kd_err *err);
int kd_json_bool(const kd_json *j, bool *to, kd_err *err);
int kd_json_str(const kd_json *j, const char **to, kd_err *err);   // points into the document
int kd_json_object(const kd_json *j, kd_err *err);                 // checks that it is one
int kd_json_array(const kd_json *j, size_t *n, kd_err *err);
/// Exactly n integers: "expected 3 integers, got 2".
int kd_json_ints(const kd_json *j, size_t n, int64_t lo, int64_t hi, int64_t *to, kd_err *err);

/// Appends the text of a value; flags are jansson's (JSON_INDENT(1), JSON_COMPACT, JSON_REAL_PRECISION(9), ...).
int kd_json_print(kd_str *s, const json_t *v, size_t flags, kd_err *err);

/// A value as Python's json.dumps prints it, in particular its floats, with the fewest digits that read back as the same number.
/// indent 0: on one line. free() it; NULL if memory ran out.
char *kd_json_python(const json_t *v, int indent);

/// Every key must be one of `known`: "model.dephts: unknown key (did you mean depths?)".
int kd_json_known(const kd_json *object, const char *const *known, int n, kd_err *err);

#endif
