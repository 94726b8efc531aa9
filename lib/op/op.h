// The op set and the graph: a model function builds a static graph from shapes, kd_grad appends its gradient as more
// nodes, a program plans memory once and runs many times. Read ops.def first, then program.h. More constructors: unet.h.
#ifndef KD_OP_H
#define KD_OP_H
#include "op/attr.h"
#include "tensor/tensor.h"

typedef enum {
#define KD_OP(name, outs, f32, what) KD_OP_##name,
#include "op/ops.def"
#undef KD_OP
    KD_OPS
} kd_op_id;

enum { KD_MAX_IN = 8, KD_MAX_OUT = 4 };

typedef struct kd_graph kd_graph;
typedef struct kd_node kd_node;

typedef enum { KD_VAL_INPUT, KD_VAL_FED, KD_VAL_PARAM, KD_VAL_CONST, KD_VAL_RESULT } kd_val_kind;

/// One array of a graph. Owned by the graph.
typedef struct kd_val {
    kd_val_kind kind;
    kd_dtype dtype;
    kd_shape shape;
    const char *name;         // leaves: "x", "mid_level.0.ff.up_proj.weight"; NULL for results
    kd_node *node; int slot;  // results: who computes it
    void *host;               // constants: the values, owned
    int64_t below;            // I64 inputs: values must be 0 to below - 1, checked by kd_program_set; 0: any value
    void *data;               // where it lives on the backend; set by kd_bind or the program's plan
    bool bound;               // by kd_bind: memory of the caller's
    bool pinned;              // by kd_pin: its offset is given
    // the plan's (plan.c)
    int first, last;          // node numbers between which it lives; last is INT_MAX for outputs
    int64_t offset;           // in the arena
    struct kd_val *shares;    // computed in place over this one
    bool used;                // read by some node of the program, or an output
    bool output;              // of the program
    bool inner;               // read by its own unit alone: has no memory
    bool fed;                 // since the last run
    // kd_grad's
    bool wants;               // on the way from a gradient's target
    struct kd_val *grad;      // gradient accumulated so far
} kd_val;

/// One operation.
struct kd_node {
    kd_op_id op;
    const char *name;         // scope of the layer, for profiles and messages: "down_levels.0.1.ff"
    kd_val *in[KD_MAX_IN]; int n_in;      // NULL where an optional input is absent
    kd_val *out[KD_MAX_OUT]; int n_out;   // out[k]->used is false where nobody reads it: the kernel may skip it
    kd_attr a;                // the member of the op's family (attr.h), where it has one
    int block;                // recompute block this node lies in (0: kept)
    int number;               // position in the program's order; -1 if the program does not need it
    kd_node *again;           // kd_grad: the node that repeats this one
};

/// What an op is, beside its kernels.
typedef struct kd_op {
    /// Appends nodes for the gradient. dy[k]: gradient of output k, NULL if none flows. dx[i]: on entry what has been
    /// accumulated for input i so far (or NULL), on return the sum with this node's part; only where kd_wants(n, i).
    /// NULL: no gradient passes (its inputs are data).
    void (*grad)(kd_graph *g, const kd_node *n, kd_val *const *dy, kd_val **dx);
    double (*flops)(const kd_node *n);    // multiplications and additions, for profiles; NULL: counted as 0
    unsigned in_place;        // bit i: out[0] may be written over in[i] if that value dies here
    bool cheap;               // out[0] takes little work from inputs that the gradient keeps in any case: where gradients read
                              // out[0], the node is repeated rather than out[0] kept
} kd_op;
extern const kd_op *const kd_ops[KD_OPS];                 // kd_op_NAME of lib/op/*.c, by ops.def
extern const char *const kd_op_name[KD_OPS], *const kd_op_formula[KD_OPS];

// Graphs ---------------------------------------------------------------------------------------------------------

/// Errors are sticky: a constructor whose inputs do not fit records a sentence and returns NULL, constructors given
/// NULL for a required input return NULL, and kd_graph_error reports the first. So a model reads like its paper.
kd_graph *kd_graph_new(void);
void kd_graph_free(kd_graph *g);
int kd_graph_error(const kd_graph *g, kd_err *err);

/// Names the backend that will run the graph, before kd_grad: some keep values that others compute again.
typedef struct kd_backend kd_backend;
void kd_graph_for(kd_graph *g, const kd_backend *be);
/// The type of a network's activations: F32 unless set, before the network is built. A network casts its images to it and its
/// results back to F32; products cast their weights to the type of x, whose masters remain F32. What must not lose digits
/// is F32 in any case: noise levels, conditions and all that is computed from them alone, and what ops.def marks.
void kd_graph_compute(kd_graph *g, kd_dtype dtype);
kd_dtype kd_graph_compute_type(const kd_graph *g);

/// Names for what follows: kd_scope_push(g, "mid_level"), ... Nested with dots. Returns the joined name of `leaf` in
/// the present scope, kept by the graph.
void kd_scope_push(kd_graph *g, const char *name);
void kd_scope_pushf(kd_graph *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void kd_scope_pop(kd_graph *g);
const char *kd_scope_name(kd_graph *g, const char *leaf);

/// Recompute (gradient checkpointing): nodes made between begin and end are not kept for the gradient; kd_grad repeats
/// them. Blocks do not nest. Values computed inside and used outside stay kept.
void kd_block_begin(kd_graph *g);
void kd_block_end(kd_graph *g);

/// Leaves. An input is set by the host, and keeps its value until it is set again. A fed value comes from the backend's or
/// the host's memory and must be fed before each run: its memory serves other values once it has been read for the last time.
/// A parameter is memory of the caller's, bound with kd_bind; asking for the same name again returns the same value.
kd_val *kd_input(kd_graph *g, const char *name, kd_dtype dtype, kd_shape shape);
kd_val *kd_feed(kd_graph *g, const char *name, kd_dtype dtype, kd_shape shape);
kd_val *kd_param(kd_graph *g, const char *name, kd_shape shape);                     // F32
kd_val *kd_param_of(kd_graph *g, const char *name, kd_dtype dtype, kd_shape shape);
/// A constant. values (NULL: zeros) are copied.
kd_val *kd_const(kd_graph *g, const char *name, kd_shape shape, const float *values);
kd_val *kd_const_of(kd_graph *g, const char *name, kd_dtype dtype, kd_shape shape, const void *values);

/// The gradient of sum(y * dy) with respect to each wrt[i], as values dx[i] (NULL if y does not depend on it).
/// dy has y's shape. May be called once a graph.
void kd_grad(kd_graph *g, kd_val *y, kd_val *dy, kd_val *const *wrt, int n, kd_val **dx);

// For constructors and gradients (lib/op/*.c)
kd_node *kd_node_new(kd_graph *g, kd_op_id op, int n_in, kd_val *const *in);         // outputs are then set with kd_node_out
kd_val *kd_node_out(kd_graph *g, kd_node *n, int slot, kd_shape shape);              // of the type that ops.def says
kd_val *kd_node_out_as(kd_graph *g, kd_node *n, int slot, kd_dtype dtype, kd_shape shape);
bool kd_wants(const kd_node *n, int i);
kd_val *kd_sum(kd_graph *g, kd_val *acc, kd_val *x);          // acc + x; x if acc is NULL
/// False, with "linear down.0.ff.up_proj: x [64,7,7,256] and w [512,128] do not fit: expected ..." if !ok.
bool kd_want(kd_graph *g, bool ok, kd_op_id op, const char *expected, int n, kd_val *const *in);
/// Records that memory for `what` ran out; returns NULL.
kd_val *kd_no_memory(kd_graph *g, const char *what);
bool kd_draws_fit(const kd_val *index, const kd_val *rng, int64_t images);   // what dropout draws by: I64 [images], U64 [2]
int64_t kd_rows(const kd_val *v);                             // product of all axes but the last
int64_t kd_last(const kd_val *v);                             // the last axis
int64_t kd_count(const kd_val *v);
double kd_node_flops(const kd_node *n);
double kd_graph_flops(const kd_graph *g);                     // sum over its nodes

// Constructors. F32 unless said otherwise; the formula and shapes are in ops.def -----------------------------------

/// b, res: NULL if none. w may have axes of length 1 behind, as the 1x1 convolutions of files: [M,K,1], [M,K,1,1]
kd_val *kd_linear(kd_graph *g, kd_val *x, kd_val *w, kd_val *b, kd_val *res);
kd_val *kd_linear_geglu(kd_graph *g, kd_val *x, kd_val *w);
kd_val *kd_rms_norm(kd_graph *g, kd_val *x, kd_val *s, float offset, float eps);     // s [C] or [N,C]
/// cos and sin of the d/4 angles of each token and head: y * freqs[head][j] for j < d/8, then x * freqs[head][j].
/// freqs [heads,d/8] is k-diffusion's buffer `pos_emb.freqs`; pos [T,2] = (y, x), see kd_axial_positions in model/net.h.
kd_val *kd_rope_table(kd_graph *g, kd_val *freqs, kd_val *pos);
/// qkv [N,H,W,3*heads*d] in feature order (q,k,v) x head x d; scale [heads]; rope from kd_rope_table. v is unchanged.
/// Each head of q and of k becomes a = x sqrt(scale) / sqrt(sum(x^2) + 1e-6), a sum over its d features and not a mean. Then
/// features i and i + d/4 (i < d/4) are rotated by the token's angle i: a_i cos - a_{i+d/4} sin and a_{i+d/4} cos + a_i sin.
/// Features from d/2 on are not rotated.
kd_val *kd_qk_norm_rope(kd_graph *g, kd_val *qkv, kd_val *scale, kd_val *rope);

/// qkv [N,H,W,3*heads*d] -> [N,H,W,heads*d]. In each head, y = softmax(factor q k^T) v over the keys that a query sees:
///   global        all tokens of the image.
///   neighborhood  size x size tokens; size is odd and at most H and W. A query in row i sees the rows from
///                 clamp(i - size/2, 0, H - size) on (size/2 rounded down), and likewise columns. So there are always size^2
///                 keys, and near an edge the square is not centred on the query.
///   window        H and W are multiples of size. The grid is rolled by `shift` in both axes: place (y, x) holds the token
///                 ((y - shift) mod H, (x - shift) mod W). It is then cut into windows of size x size places, and a query sees
///                 the keys of its window, except across the roll's seam: in the first row of windows the places in rows
///                 0 .. shift-1 and the other ones do not see each other, in the first column of windows likewise with
///                 columns, and in the corner window both rules hold. y is at the token's own place, not at the rolled one.
/// index, rng: as kd_dropout's; not used, and may be NULL, where a.dropout is 0.
kd_val *kd_attention(kd_graph *g, kd_val *qkv, kd_val *index, kd_val *rng, kd_attn a);

/// x as another float type; x itself if it has it.
kd_val *kd_cast(kd_graph *g, kd_val *x, kd_dtype dtype);
/// 8-bit levels as pixels: x / 255 * 2 - 1. x U8; no gradient
kd_val *kd_pixels(kd_graph *g, kd_val *x);
kd_val *kd_embedding(kd_graph *g, kd_val *table, kd_val *index);                     // table [R,C], index I64 [N] in 0..R-1
kd_val *kd_fourier(kd_graph *g, kd_val *x, kd_val *w);                               // x [N,k], w [h,k] -> [N,2h]; no gradient
kd_val *kd_patch_merge(kd_graph *g, kd_val *x, int64_t p, int64_t q);
kd_val *kd_patch_split(kd_graph *g, kd_val *x, int64_t p, int64_t q);
kd_val *kd_lerp(kd_graph *g, kd_val *a, kd_val *b, kd_val *f);
kd_val *kd_add(kd_graph *g, kd_val *a, kd_val *b);
kd_val *kd_row_mix(kd_graph *g, kd_val *a, kd_val *sa, kd_val *b, kd_val *sb);       // sa, sb [N]: data, no gradient; b, sb may be NULL
/// Element dropout with rate p. index I64 [N]: the images' numbers. rng U64 [2]: the seed and the step. The uniform of an
/// element is Philox of (seed, KD_RNG_DROPOUT << 16 | node of the scope's name, index, step, element within the image).
kd_val *kd_dropout(kd_graph *g, kd_val *x, kd_val *index, kd_val *rng, double p);
kd_val *kd_dct2(kd_graph *g, kd_val *x, bool inverse);                               // [N,H,W,C]
kd_val *kd_mse(kd_graph *g, kd_val *a, kd_val *b, kd_val *w, kd_val *f);             // w [N], f [H,W] or NULL; gradient for a only

#endif
