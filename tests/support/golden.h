// Reference files of tests/golden for tests: tensors as doubles, tolerances, the error that is compared with them.
// A file that cannot be read ends the test program with a message: nothing can be tested without it.
#ifndef KD_TEST_GOLDEN_H
#define KD_TEST_GOLDEN_H
#include "base/json.h"
#include "tensor/tensor.h"

/// tests/golden/NAME.safetensors; kd_frame_free it.
kd_frame *golden_load(const char *name);
/// A tensor's values as double, or float; malloc'ed. n: NULL, or receives their number.
double *golden_f64(const kd_frame *f, const char *name, int64_t *n);
float *golden_f32(const kd_frame *f, const char *name, int64_t *n);
/// A metadata value, parsed as JSON; json_decref it.
json_t *golden_json(const kd_frame *f, const char *key);
/// A number of tests/golden/tolerances.json: what float32 PyTorch reaches.
double golden_tolerance(const char *group, const char *key);

/// max |a - b| / max |b|, the error that tolerances.json holds for float32 PyTorch too. NaN if there is one in a.
double golden_error(const float *a, const double *b, int64_t n);
/// Prints what was measured and what is allowed, the larger of three times `peer` and 1e-6; 1 if it is more (or NaN), else 0.
/// which: more to say, or "".
int golden_judge(const char *name, const char *what, double error, double peer, const char *which);
/// The same for tensor `what` of two frames, with tolerances.json's `tolerance` for case `name`. Another shape ends the program.
int golden_compare(const kd_frame *got, const kd_frame *want, const char *name, const char *what, const char *tolerance);
/// All gradients of NAME.grads: the worst of a tensor, relative to the larger of its own maximum and a thousandth of the
/// model's largest gradient, and all together. The number of these tensors is returned in *n; 0 to 2 are too large.
int golden_compare_gradients(const kd_frame *got, const char *name, int *n);

#endif
