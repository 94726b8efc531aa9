// What the files of the config reader share; nobody else includes it. In the order in which kd_config_parse calls them.
#ifndef KD_CONFIG_PARTS_H
#define KD_CONFIG_PARTS_H
#include "base/json.h"
#include "base/memory.h"
#include "model/config.h"

/// config_keys.c: which network model.type names, and every key known. Unknown ones are an error, or if `unknown` is not
/// NULL are added to it: "model.foo, dataset.bar".
int kd_config_check_keys(const kd_json *top, kd_model_type *type, kd_str *unknown, kd_err *err);

/// config_defaults.c: *filled is a new document, the user's over k-diffusion's defaults, key order as Python's jsonmerge
/// leaves it, derived values (d_ffs, self_attns, ...) put in. null stands for the default where that is no truth value. The user's
/// document keeps its values.
int kd_config_fill(json_t **filled, const kd_json *user, kd_model_type type, kd_err *err);

/// Drops what is null and has a default, in objects of objects; null is kept where the default is null or a truth value.
void kd_config_drop_nulls(json_t *own, const json_t *base);

/// config_model.c, config_training.c: from the filled document into the struct. Integers written as 3.0 become 3 there.
int kd_config_read_model(kd_config *c, const kd_json *top, kd_err *err);
int kd_config_read_training(kd_config *c, const kd_json *top, bool foreign, kd_err *err);
int kd_config_read_density(kd_config *c, const kd_json *density, kd_err *err);             // config_density.c

/// config_toy.c: a toy_mixture's config has a reader of its own, in place of all these.
bool kd_config_is_toy(const kd_json *top);
int kd_config_read_toy(kd_config *c, const kd_json *top, kd_err *err);

/// config_rules.c: sizes that must fit each other, and what training cannot do with this network.
int kd_config_check_sizes(const kd_config *c, kd_err *err);
int kd_config_check_training(const kd_config *c, kd_err *err);

// One network each: from the model object into the struct, and its sizes.
int kd_config_read_v2(kd_config *c, const kd_json *model, kd_err *err);                    // config_transformer.c
int kd_config_read_v1(kd_config *c, const kd_json *model, kd_err *err);
int kd_config_read_image_v1(kd_config *c, const kd_json *model, kd_err *err);              // config_image_v1.c
int kd_config_check_image_v1(const kd_config *c, kd_err *err);
int kd_config_fill_guided(json_t *all, const kd_json *top, kd_err *err);                   // config_guided.c
int kd_config_read_guided(kd_config *c, const kd_json *model, kd_err *err);
int kd_config_check_guided(const kd_config *c, kd_err *err);
extern const char *const kd_guided_keys[];

/// Keys of model that say something of a discrete schedule's steps: with wrapper eps or vd only.
extern const char *const kd_config_steps_keys[];                                           // config_model.c

/// "nearest 28 or 32": the multiples of `unit` around v.
const char *kd_config_multiples(char buf[64], int64_t v, int64_t unit);

enum { KD_MAX_SIZE = 1 << 16, KD_MAX_WIDTH = 1 << 16, KD_MAX_DEPTH = 1 << 10, KD_MAX_FF = 1 << 20 };

// config_value.c: readers beside those of base/json.h, which take the container and a key
int kd_config_int(const kd_json *o, const char *key, int64_t lo, int64_t hi, int64_t *to, kd_err *err);
int kd_config_num(const kd_json *o, const char *key, double lo, double hi, double *to, kd_err *err);
int kd_config_positive(const kd_json *o, const char *key, double *to, kd_err *err);        // above 0
/// Also what Python takes for a truth value: 0, 1 and other numbers, and null for false.
int kd_config_bool(const kd_json *o, const char *key, bool *to, kd_err *err);
int kd_json_truth(const kd_json *j, bool *to, kd_err *err);
int kd_config_rate(const kd_json *o, const char *key, double *to, kd_err *err);            // dropout: 0 to below 1
int kd_json_rate(const kd_json *j, double *to, kd_err *err);
/// A list of exactly n integers.
int kd_config_ints(const kd_json *o, const char *key, size_t n, int64_t lo, int64_t hi, int64_t *to, kd_err *err);
/// One of n names: its number. "expected karras, soft-min-snr or snr, got \"minsnr\"".
int kd_config_choice(const kd_json *o, const char *key, const char *const *names, int n, int *to, kd_err *err);
bool kd_config_has(const kd_json *o, const char *key);        // given and not null
#endif
