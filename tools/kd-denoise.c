// kd-denoise: one call of a model as a filter, with its loss and gradients. Formats of input and output: formats/denoised.md.
#include "base/memory.h"
#include "base/opt.h"
#include "base/talk.h"
#include "device/device.h"
#include "diffusion/cond.h"
#include "formats/denoised.h"
#include "formats/safetensors.h"
#include <stdio.h>
#include <string.h>

struct args {
    const char *model, *input;
    int64_t batch;
    bool loss, grad, vjp, raw;
    kd_common common;
};

struct run {
    const struct args *a;
    kd_model *model;
    kd_backend *be;
    kd_denoiser *denoiser;
    kd_frame *in, *out;
    kd_call_inputs c;
    kd_call_shape shape;
    float *inner, *denoised, *logvar, *vjp, *loss, *grad, *part;       // NULL where not asked for; grad and part [params->total]
    float *whole, *grad_x; double mean;                    // of calls of the network itself
};

static int parse(struct args *a, int argc, char **argv, kd_err *err)
{
    const kd_opt opts[] = {
        KD_OPT_ARG("MODEL", &a->model, 1, "Model or checkpoint, - for standard input"),
        KD_OPT_ARG("INPUT", &a->input, 0, "Tensors: x, sigma (or t), class_cond, ... (default -, standard input)"),
        KD_OPT_FLAG(0, "loss", &a->loss, "Write the loss of each image at x0 + sigma noise"),
        KD_OPT_FLAG(0, "grad", &a->grad, "Write the gradient of the mean loss with respect to each parameter"),
        KD_OPT_FLAG(0, "vjp", &a->vjp, "Write the gradient of sum(denoised * v) with respect to x"),
        KD_OPT_INT('b', "batch", &a->batch, 1, 65536,
                   "Images per model call (default 64); affects only memory and the last bits of gradients"),
        KD_OPT_FLAG(0, "raw", &a->raw, "Use a checkpoint's trained weights, not their moving average"),
        KD_OPT_END };
    KD_TRY(kd_cli_parse("kd-denoise", "Call a model once; compute losses and gradients", opts,
                        KD_WITH_OUT | KD_WITH_THREADS | KD_WITH_DEVICE, argc, argv, &a->common, err));
    if (!strcmp(a->model, "-") && !strcmp(a->input, "-"))
        return kd_fail(err, KD_EUSAGE, "MODEL and INPUT cannot both be stdin");
    return 0;
}

static const char *input_name(const struct args *a) { return strcmp(a->input, "-") ? a->input : "stdin"; }

static int need(const struct run *r, const void *tensor, const char *name, const char *what, kd_err *err)
{
    return tensor ? 0 : kd_fail(err, KD_EUSAGE, "%s: no tensor %s: %s needs it", input_name(r->a), name, what);
}

static int check_inputs(const struct run *r, kd_err *err)
{
    const struct args *a = r->a;
    const kd_call_inputs *c = &r->c;
    const char *loss = a->loss ? "--loss" : "--grad";
    const bool train = a->loss || a->grad;
    if (c->t) {
        KD_TRY(need(r, c->x, "x", "a call", err));
        if (a->vjp) return kd_fail(err, KD_EUSAGE, "--vjp: of a denoiser only, which takes sigma in place of t");
        return train ? need(r, c->target, "target", loss, err) : 0;
    }
    if (!train) KD_TRY(need(r, c->x, "x", "a call", err));
    if (a->vjp) KD_TRY(need(r, c->x, "x", "--vjp", err));
    if (a->vjp) KD_TRY(need(r, c->v, "v", "--vjp", err));
    if (train) KD_TRY(need(r, c->x0, "x0", loss, err));
    return train ? need(r, c->noise, "noise", loss, err) : 0;
}

static int load(struct run *r, kd_err *err)
{
    const struct args *a = r->a;
    KD_TRY(kd_model_load(&r->model, a->model, a->raw, err));
    if (r->model->warning) kd_say("%s", r->model->warning);
    KD_TRY(kd_safetensors_load(a->input, &r->in, err));
    const kd_config *c = r->model->config;
    r->shape = (kd_call_shape){ c->size[0], c->size[1], c->channels, c->mapping_cond_dim, c->unet_cond_dim, c->cross_cond_dim,
                                kd_denoiser_channels(c) };
    KD_TRY(kd_call_inputs_read(&r->c, r->in, input_name(a), r->shape, err));
    KD_TRY(check_inputs(r, err));
    KD_TRY(kd_device_open(&r->be, a->common.device, err));
    return kd_denoiser_new(&r->denoiser, r->model, r->be, err);
}

static int make_room(struct run *r, kd_err *err)
{
    const struct args *a = r->a;
    const kd_call_inputs *c = &r->c;
    const size_t n = (size_t)c->n, pixels = n * (size_t)(r->shape.h * r->shape.w), size = pixels * (size_t)r->shape.c;
    const size_t total = (size_t)r->model->params->total;
    const bool denoise = c->sigma && c->x;
    const struct { float **to; bool wanted; size_t count; } blocks[] = {
        { &r->inner, denoise, size }, { &r->denoised, denoise, size }, { &r->vjp, a->vjp, size },
        { &r->logvar, denoise && r->model->config->has_variance, n }, { &r->loss, (a->loss || a->grad) && c->sigma, n },
        { &r->whole, c->t, pixels * (size_t)r->shape.out }, { &r->grad_x, c->t && a->grad, size }, { &r->grad, a->grad, total },
        { &r->part, a->grad, total } };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (blocks[i].wanted && !(*blocks[i].to = kd_alloc((blocks[i].count + 1) * sizeof(float))))
            return kd_fail_memory(err, "results");
    return 0;
}

static void add_gradient(struct run *r, float share)
{
    for (int64_t i = 0; r->grad && i < r->model->params->total; i++) r->grad[i] += share * r->part[i];
}

// Images k .. k+n-1 of the input, through the network alone.
static int call_network(struct run *r, int64_t k, int64_t n, kd_err *err)
{
    const kd_call_inputs *c = &r->c;
    const int64_t pixels = r->shape.h * r->shape.w, at = k * pixels * r->shape.c, out = k * pixels * r->shape.out;
    const kd_cond cond = kd_cond_at(c, &r->shape, k);
    const float share = (float)n / (float)c->n;
    kd_raw_loss loss = { .target = c->target ? c->target + out : NULL, .grad = r->part, .grad_x = r->grad_x ? r->grad_x + at : NULL };
    const bool train = r->a->loss || r->a->grad;
    KD_TRY(kd_network_call(r->denoiser, n, c->x + at, c->t + k, &cond, r->whole + out, train ? &loss : NULL, err));
    r->mean += (double)n / (double)c->n * loss.loss;
    for (int64_t i = 0; r->grad_x && i < n * pixels * r->shape.c; i++) r->grad_x[at + i] *= share;
    add_gradient(r, share);
    return 0;
}

// Images k .. k+n-1 of the input.
static int call(struct run *r, int64_t k, int64_t n, kd_err *err)
{
    const kd_call_inputs *c = &r->c;
    const int64_t at = k * r->shape.h * r->shape.w * r->shape.c;
    const kd_cond cond = kd_cond_at(c, &r->shape, k);
    if (kd_interrupted()) return kd_fail_interrupted(err);
    if (c->t) return call_network(r, k, n, err);
    const float *sigma = c->sigma + k;
    if (c->x) KD_TRY(kd_denoise_variance(r->denoiser, n, c->x + at, sigma, &cond, r->inner + at, r->denoised + at,
                                         r->logvar ? r->logvar + k : NULL, err));
    if (r->vjp) KD_TRY(kd_denoise_vjp(r->denoiser, n, c->x + at, sigma, &cond, c->v + at, NULL, r->vjp + at, err));
    if (r->loss) KD_TRY(kd_denoiser_loss(r->denoiser, n, c->x0 + at, c->noise + at, sigma, &cond, r->loss + k, r->part, err));
    add_gradient(r, (float)n / (float)c->n);               // 1 for a single call
    return 0;
}

static int add_images(struct run *r, const char *name, const float *images, int64_t channels, kd_err *err)
{
    return images ? kd_frame_add_nchw(r->out, name, images, r->c.n, channels, r->shape, err) : 0;
}

static int add_results(struct run *r, kd_err *err)
{
    const struct args *a = r->a;
    kd_frame *f = r->out = kd_frame_new();
    if (!f) return kd_fail_memory(err, "results");
    KD_TRY(kd_frame_set_meta(f, "kd", "denoised/1", err));
    KD_TRY(kd_frame_set_meta(f, "model", r->model->hash, err));
    if (!a->common.no_history) {
        KD_TRY(kd_frame_set_meta(f, "kd_history", kd_frame_meta(r->model->meta, "kd_history"), err));
        KD_TRY(kd_frame_add_history(f, a->common.history, err));
    }
    KD_TRY(add_images(r, "inner_out", r->inner, r->shape.c, err));
    KD_TRY(add_images(r, "denoised", r->denoised, r->shape.c, err));
    KD_TRY(add_images(r, "vjp_x", r->vjp, r->shape.c, err));
    KD_TRY(add_images(r, "out", r->whole, r->shape.out, err));
    KD_TRY(add_images(r, "grad_x", r->grad_x, r->shape.c, err));
    const float mean = (float)r->mean;
    if (r->logvar) KD_TRY(kd_frame_add(f, "logvar", KD_F32, KD_SHAPE(r->c.n), r->logvar, NULL, err));
    kd_tensor *t;
    if (a->loss && r->loss) KD_TRY(kd_frame_add(f, "loss", KD_F32, KD_SHAPE(r->c.n), r->loss, NULL, err));
    if (a->loss && !r->loss) {
        KD_TRY(kd_frame_add(f, "loss", KD_F32, (kd_shape){ 0 }, NULL, &t, err));
        memcpy(t->data, &mean, sizeof mean);
    }
    return r->grad ? kd_params_add_gradients(f, r->model->params, r->grad, err) : 0;
}

static void run_free(struct run *r)
{
    kd_denoiser_free(r->denoiser);
    kd_backend_close(r->be);
    kd_model_free(r->model);
    kd_frame_free(r->in);
    kd_frame_free(r->out);
    kd_call_inputs_free(&r->c);
    float *blocks[] = { r->inner, r->denoised, r->logvar, r->vjp, r->loss, r->grad, r->part, r->whole, r->grad_x };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) kd_free(blocks[i]);
}

int main(int argc, char **argv)
{
    struct args a = { .input = "-", .batch = 64 };
    struct run r = { .a = &a };
    kd_out *out = NULL;
    kd_err err = {0};
    if (parse(&a, argc, argv, &err)) goto done;
    kd_talk_init("kd-denoise", a.common.quiet);
    kd_catch_signals();
    if (kd_out_open(&out, a.common.out, true, &err) || load(&r, &err) || make_room(&r, &err)) goto done;
    for (int64_t k = 0; k < r.c.n; k += a.batch)
        if (call(&r, k, r.c.n - k < a.batch ? r.c.n - k : a.batch, &err)) goto done;
    if (add_results(&r, &err) || kd_safetensors_write(out, r.out, &err)) goto done;
    kd_out_commit(out, &err);
done:
    kd_out_close(out);
    run_free(&r);
    kd_cli_free(&a.common);
    return kd_tool_exit("kd-denoise", &err);
}
