// Attributes: an op's parameters that are not values. Each op that has any has a struct in the union kd_attr, often shared
// with its gradient or its inverse; the comment names the ops. Plug-ins are compiled with these definitions: whoever changes
// one raises KD_BACKEND_ABI. Constructors fill it in, kernels read it:
// n->a.conv.stride. Attributes are plain numbers without pointers, so that a node is repeated, or its attributes handed to
// its gradient's node, by assignment.
#ifndef KD_ATTR_H
#define KD_ATTR_H
#include <stdbool.h>
#include <stdint.h>

// Attributes that callers pass to constructors -----------------------------------------------------------------------

/// Zero padding: pad_h rows above and below, pad_w columns left and right.
typedef struct kd_conv { int64_t stride, pad_h, pad_w; } kd_conv;
#define KD_CONV_SAME(k) ((kd_conv){ 1, (k) / 2, (k) / 2 })

/// x, x sigmoid(x), x P(X < x) by the error function, max(x, 0), x sigmoid(1.702 x)
typedef enum { KD_ACT_NONE, KD_ACT_SILU, KD_ACT_GELU, KD_ACT_RELU, KD_ACT_QUICK_GELU } kd_act;

typedef enum { KD_ATTN_GLOBAL, KD_ATTN_NEIGHBORHOOD, KD_ATTN_WINDOW } kd_attn_kind;
typedef enum { KD_QKV_PARTS, KD_QKV_HEADS } kd_qkv_order;   // feature order (q,k,v) x head x d, or head x (q,k,v) x d
typedef struct kd_attn {
    kd_attn_kind kind;
    int64_t heads;
    int64_t size;             // tokens along a side of the neighborhood (odd) or of the window; not used if global
    int64_t shift;            // window: tokens by which the grid is rolled down and right before it is cut, 0 to size - 1
    kd_qkv_order order;       // of self-attention's features
    double factor;            // of q k^T; constructors take 0 for 1
    double dropout;           // rate at which probabilities are dropped, 0 to below 1 (global only)
    uint32_t layer;           // names dropout's random numbers: kd_rng_node of the scope. Set by constructors
} kd_attn;

/// FIR_DOWN: [1,3,3,1]/8 on each axis, stride 2, one pixel of reflect padding. FIR_UP: its transpose times 4, reflect
/// padding. (k-diffusion's Downsample2d, Upsample2d; H, W >= 2.) MEAN_DOWN: mean of 2x2. NEAREST_UP: each pixel four times.
typedef enum { KD_FIR_DOWN, KD_FIR_UP, KD_MEAN_DOWN, KD_NEAREST_UP } kd_resampling;

/// Largest or mean of size x size, padded by `pad` on each side; what is padded does not count.
typedef struct kd_pooling { bool largest; int64_t size, stride, pad; } kd_pooling;

/// What normals are drawn for (KD_RNG_NOISE, ...), and a number that is added to the step.
typedef struct kd_draw_attr { int purpose; uint32_t step; } kd_draw_attr;

/// The noise levels from and to which a Brownian path goes, and the levels between which it is defined.
typedef struct kd_brownian_attr { double from, to, low, high; } kd_brownian_attr;

// What some inputs hold -----------------------------------------------------------------------------------------------

/// The factors of kd_bound, F32 [N,KD_BOUND_FACTORS].
enum { KD_BOUND_MID, KD_BOUND_HALF, KD_BOUND_TRUE, KD_BOUND_MEAN, KD_BOUND_FIRST, KD_BOUND_WEIGHT, KD_BOUND_FACTORS };

/// The rates of adamw and sgd, F64 [KD_RATES].
enum {
    KD_RATE_LR,                       // learning rates of groups 0 to 3
    KD_RATE_EMA = 4,                  // decay of the average
    KD_RATE_BIAS1, KD_RATE_BIAS2,     // AdamW: 1 - beta1^step, 1 - beta2^step
    KD_RATE_FIRST,                    // SGD: 1 in the first step, whose momentum is the gradient; else 0
    KD_RATES
};

/// The runs of adamw and sgd, F64 [runs,KD_RUN_COLUMNS].
enum {
    KD_RUN_FIRST, KD_RUN_COUNT,       // elements
    KD_RUN_GROUP,                     // 0 to 3; weights of groups 1 and 3 do not decay. -1: idle, only the average moves
    KD_RUN_MOST,                      // weights above it are cut to it after the update; infinity: none are
    KD_RUN_COLUMNS
};

// By op --------------------------------------------------------------------------------------------------------------

typedef union kd_attr {
    kd_conv conv;                                               // conv2d, conv2d_grad_x, conv2d_grad_w
    kd_attn attention;                                          // attention, cross_attention and their gradients
    kd_pooling pool;                                            // pool
    struct { kd_act kind; } activate;                           // activate, activate_grad
    struct { double offset, eps; } rms_norm;                    // rms_norm, rms_norm_grad. offset is added to s
    struct { int64_t groups; double eps; kd_act act; } group_norm;      // group_norm, group_norm_grad
    struct { double eps; } layer_norm;                          // layer_norm
    struct { double eps; } qk_norm_rope;                        // qk_norm_rope, qk_norm_rope_v1
    struct { double max_period; } timestep;                     // timestep: periods are 2 pi to below 2 pi max_period
    struct { int64_t p, q; } patch;                             // patch_merge, patch_split, pixel_unshuffle, pixel_shuffle:
                                                                // rows and columns of a patch
    struct { int64_t first; } slice;                            // slice, slice_grad: where the part begins in x's last axis
    struct { double factor; } scale;                            // scale
    struct { double low, high; } clamp;                         // clamp
    struct { double factor; } image;                            // image_sum, image_spread
    struct { kd_resampling how; bool transposed; } resample;    // resample. transposed: the gradient of `how`
    struct { double rate; uint32_t layer; } dropout;            // dropout, dropout_channels: rate above 0 and below 1; layer
                                                                // as in kd_attn
    struct { bool inverse; } dct2;                              // dct2
    kd_draw_attr normal;                                        // normal
    kd_brownian_attr brownian;                                  // brownian
    struct { double a, b; } mix;                                // mix, advance, extrapolate (a alone)
    struct { double limit; int64_t code; } check;               // check: code is not 0
    struct { double limit; } clip;                              // clip. 0: no limit
    struct { double weight_decay, beta1, beta2, eps; } adamw;   // adamw
    struct { double weight_decay, momentum; bool nesterov; } sgd;       // sgd
} kd_attr;

#endif
