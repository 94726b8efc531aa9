// Tensors on the host: dtype, shape, bytes, name. What files hold and tools pass around; the op graph has values of its own.
#ifndef KD_TENSOR_H
#define KD_TENSOR_H
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { KD_F32, KD_F64, KD_F16, KD_BF16, KD_I64, KD_I32, KD_I16, KD_I8, KD_U64, KD_U32, KD_U16, KD_U8, KD_BOOL,
               KD_DTYPES } kd_dtype;
size_t kd_dtype_size(kd_dtype t);
const char *kd_dtype_name(kd_dtype t);                    // safetensors' names: "F32", "BF16", ...
bool kd_dtype_parse(const char *name, kd_dtype *t);

enum { KD_MAX_DIMS = 8 };
typedef struct kd_shape { int n; int64_t d[KD_MAX_DIMS]; } kd_shape;
kd_shape kd_shape_of(int n, const int64_t *d);
#define KD_SHAPE(...) kd_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
int64_t kd_shape_count(const kd_shape *s);                // product; 1 for a scalar
bool kd_shape_same(const kd_shape *a, const kd_shape *b);
char *kd_shape_str(char *buf, size_t room, const kd_shape *s);   // "[2,3]"

typedef struct kd_tensor {
    char *name;                                           // owned
    kd_dtype dtype;
    kd_shape shape;
    void *data;                                           // kd_alloc'ed and owned, or borrowed
    bool borrowed;
} kd_tensor;
int64_t kd_tensor_count(const kd_tensor *t);
size_t kd_tensor_bytes(const kd_tensor *t);
void kd_tensor_release(kd_tensor *t);                     // frees data that are its own: what is read out of a frame is not there twice

/// Where the first value is that is NaN or infinite, which would make its whole image no number; -1 if there is none.
int64_t kd_find_not_finite(const float *v, int64_t count);

/// An ordered list of named tensors, and string metadata: what one safetensors frame holds.
typedef struct kd_frame {
    kd_tensor *t; int n, room;
    char **key, **value; int n_meta, room_meta;           // owned strings
} kd_frame;
kd_frame *kd_frame_new(void);
void kd_frame_free(kd_frame *f);
/// Appends a tensor. data NULL: allocates zeroed memory (then write into (*out)->data); else borrows the caller's.
/// The name is copied and must be new to the frame. out may be NULL; *out is valid until the next kd_frame_add.
int kd_frame_add(kd_frame *f, const char *name, kd_dtype dtype, kd_shape shape, void *data, kd_tensor **out, kd_err *err);
kd_tensor *kd_frame_get(const kd_frame *f, const char *name);          // NULL if there is none
int kd_frame_set_meta(kd_frame *f, const char *key, const char *value, kd_err *err);   // replaces; value NULL removes
const char *kd_frame_meta(const kd_frame *f, const char *key);         // NULL if there is none

/// Converts n elements between any two dtypes. Float to integer rounds to nearest even and saturates (NaN: 0), and
/// integers saturate too; to a narrower float rounds once to nearest even, NaN stays NaN. BOOL: anything but 0 is 1.
void kd_convert(void *to, kd_dtype to_type, const void *from, kd_dtype from_type, int64_t n);

#endif
