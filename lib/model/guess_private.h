// Private to guess*.c: what a guess knows and makes.
#ifndef KD_GUESS_PRIVATE_H
#define KD_GUESS_PRIVATE_H
#include "base/memory.h"
#include "model/guess.h"

typedef struct kd_guess {
    const kd_frame *f;         // the weights
    const char *file;
    kd_str config;             // JSON as a user would write it
    kd_str told, taken;        // what shapes say, what they cannot
} kd_guess;

/// Size d of a weight, 0 if there is none of that name.
int64_t kd_guess_size(const kd_guess *g, int d, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/// How many numbered modules there are: one more than the largest N of names that begin with prefix and N.
int kd_guess_count(const kd_guess *g, const char *prefix);
/// Is there a weight of this name?
bool kd_guess_has(const kd_guess *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/// Channels and side of square patches from their product: colour first. false if neither 3 nor 1 channels fit.
bool kd_guess_patch(int64_t product, int64_t *channels, int64_t *side);
/// "before[1, 2, 3], "
int kd_guess_list(kd_str *s, const char *before, const int64_t *v, int n, kd_err *err);
/// Fails with KD_EUSAGE: none can be guessed, and why.
int kd_guess_cannot(const kd_guess *g, kd_err *err, const char *why);

/// The networks, a file each: they fill in config, told and taken.
int kd_guess_transformer_v2(kd_guess *g, kd_err *err);
int kd_guess_transformer_v1(kd_guess *g, kd_err *err);
int kd_guess_image_v1(kd_guess *g, kd_err *err);
int kd_guess_guided(kd_guess *g, kd_err *err);
#endif
