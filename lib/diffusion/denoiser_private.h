// A denoiser's programs: one for each kind of call and number of images, planned when first needed; the latest few are
// kept. Private to denoiser.c (the cache and the inputs that all kinds share), denoise.c and network_call.c.
#ifndef KD_DENOISER_PRIVATE_H
#define KD_DENOISER_PRIVATE_H
#include "diffusion/denoiser.h"

enum { KD_CALLS_KEPT = 4 };            // a batch, the last and smaller one, and another kind of either

typedef struct kd_call kd_call;

/// A kind of call: how its graph is built, from the conditions and leaves in call->lg.
typedef struct kd_call_kind {
    int (*build)(kd_call *call, const kd_denoiser *d, kd_err *err);
} kd_call_kind;
/// D and the network's own output; with the vector-Jacobian product; the loss; with its gradients; the network alone; with a
/// loss and gradients.
extern const kd_call_kind kd_call_denoise, kd_call_vjp, kd_call_loss, kd_call_gradient, kd_call_network, kd_call_network_gradient;

enum { KD_CALL_OUTS = 6 };

/// A program of one kind for n images.
struct kd_call {
    const kd_call_kind *kind; int64_t n, cross_len;
    uint64_t used;                     // when last; 0: the place is free
    kd_program *p;
    kd_loss_graph lg;                  // its conditions and leaves serve all kinds
    kd_val *x, *c_in, *c_out, *c_skip, *v, *target;        // x, v, target: fed
    kd_val *inner, *denoised, *logvar, *vjp, *whole, *grad_x;
    kd_val **grad;                     // of the loss, [params->n], NULL for buffers; NULL if not asked for
};

struct kd_denoiser {
    const kd_config *c;
    kd_params *ps;
    const kd_model *m;                 // NULL: made from weights on the backend
    kd_backend *be;
    kd_dtype compute;
    float *w;                          // on the backend
    bool own_w;                        // lent by the model
    kd_call call[KD_CALLS_KEPT];
    uint64_t clock;
    float *rows;                       // host: row factors and zeros for an absent condition
    int64_t rows_room;
};

/// The program of a kind of call for n images, ready to be fed.
int kd_call_of(kd_call **call, kd_denoiser *d, const kd_call_kind *kind, int64_t n, const kd_cond *cond, kd_err *err);
/// For builders: a graph with inputs for the conditions, and x.
int kd_call_begin(kd_call *call, const kd_denoiser *d, kd_err *err);
/// For builders: appends the gradient of the mean loss with respect to the parameters, and to x if there is one.
int kd_call_append_gradient(kd_call *call, const kd_denoiser *d, kd_err *err);
int kd_call_set_conditions(kd_denoiser *d, const kd_call *call, const kd_cond *cond, kd_err *err);
/// The gradient as a flat array [params->total], 0 for what the loss does not depend on.
int kd_call_get_gradient(const kd_call *call, const kd_params *ps, float *grad, kd_err *err);
/// d->rows with room for this many floats.
int kd_denoiser_rows(kd_denoiser *d, int64_t room, kd_err *err);
/// A toy_mixture's denoised images are known (toy.h): it has no network and no weights on the backend.
bool kd_denoiser_is_toy(const kd_denoiser *d);

#endif
