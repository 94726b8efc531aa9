// What a network file needs: parameters by name, conditions, and short names for layers.
#ifndef KD_NET_H
#define KD_NET_H
#include "model/config.h"
#include "op/op.h"

// Parameters -------------------------------------------------------------------------------------------------------

typedef enum {
    KD_INIT_ZERO, KD_INIT_ONE,
    KD_INIT_VALUE,            // all `init_value`
    KD_INIT_FAN_IN,           // uniform in +-1/sqrt(fan_in): `init_value`, or if 0 the product of all sizes but the first
    KD_INIT_NORMAL,           // mean 0, deviation 1
    KD_INIT_ORTHOGONAL,       // rows (or columns, the fewer) orthonormal, evenly distributed among all such matrices
    KD_INIT_ROPE,             // [heads,n] of k-diffusion's AxialRoPE: element (h, j) is pi 10^((j heads + h) / (heads n))
    KD_INIT_LOG_ROPE,         // logarithms of the first version's: even from ln pi to ln 5 pi, the same for all heads
    KD_INIT_FIR,              // [4,4] `init_value` times the outer product of [1,3,3,1]/8 with itself
} kd_init;
enum { KD_TAG_DECAY = 1, KD_TAG_MAPPING = 2, KD_TAG_BUFFER = 4 };   // weight decay; lower rate; not trained

typedef struct kd_param_info {
    char *name; kd_shape shape;
    kd_init init; float init_value; unsigned tags;
    float most;               // the optimizer cuts what is above: INFINITY but for transformer v1's scales
    bool idle;                // the loss does not depend on it (a trainer's graph tells): the optimizer leaves it alone
    int group;                // k-diffusion's parameter group: 0 decayed, 1 not, 2 mapping decayed, 3 mapping not; -1 buffer
    int64_t count, offset;    // elements; place in the flat arrays (a multiple of 16 elements)
} kd_param_info;

/// All parameters and buffers of a model, in groups 0..3 and then buffers, each group in the order in which the
/// network declares them; so a group is one contiguous run of the flat arrays.
typedef struct kd_params {
    kd_param_info *p; int n, room;
    int64_t total;            // elements of a flat array, padding included
    int64_t trained;          // of these, the ones before the buffers
    int64_t group_end[5];     // end offset of groups 0..3 and of the buffers
    int64_t n_trained;        // parameters that are trained, in elements without padding (what "Parameters: 12,345" means)
} kd_params;
const kd_param_info *kd_params_find(const kd_params *ps, const char *name);
void kd_params_free(kd_params *ps);

/// Adds one; false if memory ran out. The name is new.
bool kd_params_declare(kd_params *ps, const char *name, kd_shape shape, kd_init init, float value, unsigned tags);

/// Declares what a config's network has.
int kd_params_of(kd_params **ps, const kd_config *c, kd_err *err);

/// Initial values into a flat array: a function of (seed, parameter's name) alone. The networks declare the peers' rules:
///   linear layers, convolutions    FAN_IN, weight and bias, unless one of the following lines names them
///   embeddings, Fourier features   NORMAL
///   norms                          scales and weights ONE, biases ZERO
///   transformers                   ZERO: attention's `out_proj`, `down_proj`, `norm.linear`, and the last layer (v2:
///                                  `patch_out.proj`, v1: `out_proj`). Attention's scale: v2 10, v1 ln 10. v2: `splits.N.fac` 1/2
///   image_v1                       ZERO: a residual block's last convolution, attention's `out_proj`, adaptive norms' `mapper`,
///                                  `proj_out`, each with its bias. ORTHOGONAL: 1x1 `skip` convolutions and the weights of
///                                  `mapping`, whose biases are FAN_IN
///   guided_diffusion               ZERO: a residual block's second convolution, attention's `proj_out`, the last convolution
/// So the output of a fresh network is F = 0 for every input.
void kd_params_init(const kd_params *ps, uint64_t seed, float *flat);

// Networks ---------------------------------------------------------------------------------------------------------

typedef struct kd_net {
    kd_graph *g;
    kd_params *params;        // declared while building when `declare`, else looked up
    bool declare;
    bool out_of_memory;       // while declaring: the graph does not know
    bool train;               // dropout on
    bool checkpointing;       // recompute blocks
    kd_val *index, *rng;      // for dropout: I64 [N], the images' numbers, and U64 [2], seed and step; NULL if !train
    kd_val **leaf;            // graph leaf of params->p[i]; [params->n]
} kd_net;

/// What a denoiser's inner model is given. Absent: NULL.
typedef struct kd_net_in {
    kd_val *x;                // [N,H,W,C], already scaled by c_in
    kd_val *c_noise;          // [N,1]: kd_net_time of what the wrapper tells it
    kd_val *class_cond;       // I64 [N], 0..classes (classes itself is "no class")
    kd_val *aug_cond;         // [N,9]; NULL means zeros
    kd_val *mapping_cond;     // [N,mapping_cond_dim]
    kd_val *unet_cond;        // [N,H,W,unet_cond_dim], beside x
    kd_val *cross_cond;       // [N,L,cross_cond_dim]
    kd_val *cross_padding;    // [N,L], 1 where cross_cond has nothing; NULL: nowhere
} kd_net_in;

/// Inputs of a graph for all that config's network is given of n images but x, named as the fields. len: L of cross_cond.
kd_net_in kd_net_conditions(kd_graph *g, const kd_config *c, int64_t n, int64_t len);

/// What it gives. f is NULL if the graph has an error.
typedef struct kd_net_out {
    kd_val *f;                // [N,H,W,C]: F, eps or v
    kd_val *logvar;           // [N,1], a log variance of each image; NULL without has_variance
    kd_val *range;            // [N,H,W,C], where each pixel's variance lies between its bounds, -1 to 1; NULL without learn_sigma
    kd_val *whole;            // [N,H,W,C or 2C]: f, or f and range as they leave the network
} kd_net_out;

/// What a network makes of what it is told: ln(told)/4 (k-diffusion's networks), or as it is (guided_diffusion).
double kd_net_time(const kd_config *c, double told);

/// Finds or declares the parameter `leaf` of the present scope ("qkv_proj.weight").
kd_val *kd_net_param(kd_net *m, const char *leaf, kd_shape shape, kd_init init, float value, unsigned tags);

/// What is above `most` is cut from this parameter after each optimizer step.
kd_val *kd_net_bounded(kd_net *m, const char *leaf, kd_shape shape, kd_init init, float value, unsigned tags, float most);

/// Where the tokens of an H x W grid lie, as a constant [H*W,2] of (y, x): the longer side spans [-1, 1], the shorter one
/// [-min/max, min/max], tokens at the centres of even cells. A 2x2 merge's mean position is the centre of its cell in the
/// grid of half the size, so this holds at every level. aspect: height of a token over its width.
/// Peer: k_diffusion/models/axial_rope.py make_axial_pos.
kd_val *kd_axial_positions(kd_graph *g, int64_t h, int64_t w, double aspect);

/// The network of a config. Conditions the config asks for must be there (asserted; kd_denoise tells a user).
kd_net_out kd_net_forward(kd_net *m, const kd_config *c, const kd_net_in *in);

// One file each
kd_net_out kd_image_transformer_v2(kd_net *m, const kd_config *c, const kd_net_in *in);
kd_net_out kd_image_transformer_v1(kd_net *m, const kd_config *c, const kd_net_in *in);
kd_net_out kd_image_v1(kd_net *m, const kd_config *c, const kd_net_in *in);
kd_net_out kd_guided_diffusion(kd_net *m, const kd_config *c, const kd_net_in *in);

/// Their modules in the peers' order, NULL at the end: parameters of a group lie in this order, those of a module of many
/// ("u_net.d_blocks") by its number, whatever the order in which the forward pass meets them; within one by declaration.
extern const char *const kd_image_transformer_v2_modules[], *const kd_image_transformer_v1_modules[];
extern const char *const kd_image_v1_modules[], *const kd_guided_diffusion_modules[];

#endif
