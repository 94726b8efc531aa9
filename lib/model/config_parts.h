// What the files of the config reader share; nobody else includes it. In the order in which kd_config_parse calls them.
#ifndef KD_CONFIG_PARTS_H
#define KD_CONFIG_PARTS_H
#include "base/json.h"
#include "base/memory.h"
#include "model/config.h"

/// config_keys.c: the model's type must be one that we have, and every key known. Unknown ones are an error, or if
/// `unknown` is not NULL are added to it: "model.foo, dataset.bar".
int kd_config_check_keys(const kd_json *top, kd_str *unknown, kd_err *err);

/// config_defaults.c: *filled is a new document, the user's over k-diffusion's defaults, key order as Python's jsonmerge
/// leaves it, derived values (d_ffs, self_attns, ...) put in. The user's document keeps its values.
int kd_config_fill(json_t **filled, const kd_json *user, kd_err *err);

/// config_model.c, config_training.c: from the filled document into the struct. Integers written as 3.0 become 3 there.
int kd_config_read_model(kd_config *c, const kd_json *top, kd_err *err);
int kd_config_read_training(kd_config *c, const kd_json *top, bool foreign, kd_err *err);

/// config_toy.c: a toy_mixture's config has a reader of its own, in place of all these.
bool kd_config_is_toy(const kd_json *top);
int kd_config_read_toy(kd_config *c, const kd_json *top, kd_err *err);

/// config_rules.c: sizes that must fit each other.
int kd_config_check_sizes(const kd_config *c, kd_err *err);

// config_value.c: readers beside those of base/json.h, which take the container and a key
int kd_config_int(const kd_json *o, const char *key, int64_t lo, int64_t hi, int64_t *to, kd_err *err);
int kd_config_num(const kd_json *o, const char *key, double lo, double hi, double *to, kd_err *err);
int kd_config_positive(const kd_json *o, const char *key, double *to, kd_err *err);        // above 0
int kd_config_bool(const kd_json *o, const char *key, bool *to, kd_err *err);
/// A list of exactly n integers.
int kd_config_ints(const kd_json *o, const char *key, size_t n, int64_t lo, int64_t hi, int64_t *to, kd_err *err);
/// One of n names: its number. "expected karras, soft-min-snr or snr, got \"minsnr\"".
int kd_config_choice(const kd_json *o, const char *key, const char *const *names, int n, int *to, kd_err *err);
bool kd_config_has(const kd_json *o, const char *key);        // given and not null
#endif
