// What a network file needs: parameters by name, conditions, and short names for layers.
#ifndef KD_NET_H
#define KD_NET_H
#include "model/config.h"
#include "op/op.h"

// Parameters -------------------------------------------------------------------------------------------------------

typedef enum {
    KD_INIT_ZERO, KD_INIT_ONE,
    KD_INIT_VALUE,            // all `init_value`
    KD_INIT_FAN_IN,           // uniform in +-1/sqrt(fan_in), fan_in = product of all sizes but the first
    KD_INIT_NORMAL,           // mean 0, deviation 1
    KD_INIT_ROPE,             // k-diffusion's AxialRoPE frequencies (golden README, section 2)
} kd_init;
enum { KD_TAG_DECAY = 1, KD_TAG_MAPPING = 2, KD_TAG_BUFFER = 4 };   // weight decay; lower rate; not trained

typedef struct kd_param_info {
    char *name; kd_shape shape;
    kd_init init; float init_value; unsigned tags;
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

/// Initial values (golden README, section 15) into a flat array: a function of (seed, parameter's name) alone.
void kd_params_init(const kd_params *ps, uint64_t seed, float *flat);

// Networks ---------------------------------------------------------------------------------------------------------

typedef struct kd_net {
    kd_graph *g;
    kd_params *params;        // declared while building when `declare`, else looked up
    bool declare;
    bool out_of_memory;       // while declaring: the graph does not know
    bool train;               // dropout on
    bool checkpointing;       // recompute blocks
    kd_val *index;            // I64 [N]: image numbers, for dropout; NULL if !train
    kd_val **leaf;            // graph leaf of params->p[i]; [params->n]
} kd_net;

/// What a denoiser's inner model is given. Absent: NULL.
typedef struct kd_net_in {
    kd_val *x;                // [N,H,W,C], already scaled by c_in
    kd_val *c_noise;          // [N,1] = ln(sigma)/4
    kd_val *class_cond;       // I64 [N], 0..classes (classes itself is "no class")
    kd_val *aug_cond;         // [N,9]; NULL means zeros
    kd_val *mapping_cond;     // [N,mapping_cond_dim]
} kd_net_in;

/// Finds or declares the parameter `leaf` of the present scope ("qkv_proj.weight").
kd_val *kd_net_param(kd_net *m, const char *leaf, kd_shape shape, kd_init init, float value, unsigned tags);

/// Where the tokens of an H x W grid lie, as a constant [H*W,2] of (y, x): the longer side spans [-1, 1], the shorter one
/// [-min/max, min/max], tokens at the centres of even cells. A 2x2 merge's mean position is the centre of its cell in the
/// grid of half the size, so this holds at every level. Peer: k_diffusion/models/axial_rope.py make_axial_pos.
kd_val *kd_axial_positions(kd_graph *g, int64_t h, int64_t w);

/// The network of a config: image_transformer_v2.c (and later others). Conditions the config asks for must be there
/// (asserted; kd_denoise tells a user). Returns F [N,H,W,C], or NULL with the graph's error set.
kd_val *kd_net_forward(kd_net *m, const kd_config *c, const kd_net_in *in);
kd_val *kd_image_transformer_v2(kd_net *m, const kd_config *c, const kd_net_in *in);

/// Its modules in k-diffusion's order, NULL at the end: parameters of a group lie in this order, whatever the order in
/// which the forward pass meets them.
extern const char *const kd_image_transformer_v2_modules[];

#endif
