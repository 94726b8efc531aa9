// kd-loglik: log-likelihoods of images under a model. Output: formats/loglik.md on stdout, a summary on stderr.
#include "base/io.h"
#include "base/memory.h"
#include "base/opt.h"
#include "base/talk.h"
#include "device/device.h"
#include "diffusion/loglik.h"
#include "diffusion/pictures.h"
#include "diffusion/who.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *model, *images, *classes, *dequantize, *error_norm;
    int64_t count, batch;
    uint64_t seed;
    kd_loglik_opts o;                  // sigmas NAN: the config's
    bool raw;
    kd_common common;
};

// Results of all images; a batch's images and probes.
struct run {
    const struct args *a;
    kd_model *model;
    kd_backend *be;
    kd_denoiser *denoiser;
    kd_pictures *pictures;
    kd_classes classes;
    bool own_labels, spread;           // classes are the pictures' own; 8-bit pixels are dequantised
    int64_t size, n, room, evaluations;
    float *x, *v; double *probe;       // [batch,size], [batch,probes,size], [batch,probes]
    double *nats, *error, *bits; int64_t *calls, *label;               // [room]
};

static int parse(struct args *a, int argc, char **argv, kd_err *err)
{
    kd_loglik_opts *o = &a->o;
    const kd_opt opts[] = {
        KD_OPT_ARG("MODEL", &a->model, 1, "Model or checkpoint, - for standard input"),
        KD_OPT_ARG("IMAGES", &a->images, 0, "Stream of images (default -, standard input)"),
        KD_OPT_INT('n', "count", &a->count, 0, (int64_t)1 << 40, "Number of images to score (default: all)"),
        KD_OPT_INT('b', "batch", &a->batch, 1, 65536, "Images per model call (default 64); affects speed and memory only"),
        KD_OPT_INT(0, "probes", &o->probes, 1, 10000, "Probes per image (default 1); 2 or more give a standard error"),
        KD_OPT_U64(0, "seed", &a->seed, "Seed of the probes and of the dequantization noise (default 0)"),
        KD_OPT_STR('c', "class", &a->classes, "K|K,K|none", "Classes of the images, assigned in turn (default: the images' labels)"),
        KD_OPT_CHOICE(0, "dequantize", &a->dequantize, "uniform|none",
                      "Noise to add to 8-bit pixels within their level (default uniform)"),
        KD_OPT_NUM(0, "rtol", &o->rtol, 0, INFINITY, "Relative error tolerance of a step (default 1e-4)"),
        KD_OPT_NUM(0, "atol", &o->atol, 0, INFINITY, "Absolute error tolerance of a step (default 1e-4)"),
        KD_OPT_CHOICE(0, "error-norm", &a->error_norm, "image|batch", "Error that controls the steps (default image)"),
        KD_OPT_INT(0, "max-calls", &o->max_calls, 1, 1 << 30, "Most evaluations per image (default 100000)"),
        KD_OPT_NUM(0, "sigma-min", &o->sigma_min, -INFINITY, INFINITY, "Noise level at which the ODE starts (default: the config's)"),
        KD_OPT_NUM(0, "sigma-max", &o->sigma_max, -INFINITY, INFINITY, "Noise level at which the ODE ends (default: the config's)"),
        KD_OPT_FLAG(0, "raw", &a->raw, "Use a checkpoint's trained weights, not their moving average"),
        KD_OPT_END };
    KD_TRY(kd_cli_parse("kd-loglik", "Compute the log-likelihood of images under a model", opts,
                        KD_WITH_OUT | KD_WITH_THREADS | KD_WITH_DEVICE, argc, argv, &a->common, err));
    o->batch_norm = a->error_norm && !strcmp(a->error_norm, "batch");
    if (!strcmp(a->model, "-") && !strcmp(a->images, "-")) return kd_fail(err, KD_EUSAGE, "MODEL and IMAGES cannot both be stdin");
    return 0;
}

static void tick(void *arg)
{
    struct run *r = arg;
    kd_status("%lld images, %lld evaluations", (long long)r->n, (long long)++r->evaluations);
}

static int prepare(struct run *r, struct args *a, kd_err *err)
{
    KD_TRY(kd_model_load(&r->model, a->model, a->raw, err));
    if (r->model->warning) kd_say("%s", r->model->warning);
    const kd_config *c = r->model->config;
    const char *condition = kd_config_condition(c);
    if (condition) return kd_fail(err, KD_EUSAGE, "the model needs a %s: only kd-denoise takes one", condition);
    if (isnan(a->o.sigma_min)) a->o.sigma_min = c->sigma_min;
    if (isnan(a->o.sigma_max)) a->o.sigma_max = c->sigma_max;
    a->o.tick = tick, a->o.arg = r;
    KD_TRY(kd_pictures_open(&r->pictures, a->images, c->size[0], c->size[1], c->channels, 0, err));
    const kd_images_info *info = kd_pictures_info(r->pictures);
    r->own_labels = c->classes && !a->classes;
    if (r->own_labels && !info->has_label)
        return kd_fail(err, KD_EUSAGE, "the model has %lld classes and the images no labels: say --class", (long long)c->classes);
    KD_TRY(kd_classes_parse(&r->classes, a->classes, c->classes, err));
    r->spread = info->dtype == KD_U8 && !(a->dequantize && !strcmp(a->dequantize, "none"));
    if (info->dtype != KD_U8 && a->dequantize && !strcmp(a->dequantize, "uniform"))
        return kd_fail(err, KD_EUSAGE, "--dequantize uniform: the images are floats, which have no levels to spread over");
    r->size = c->size[0] * c->size[1] * c->channels;
    r->x = kd_alloc((size_t)(a->batch * r->size) * sizeof *r->x);
    r->v = kd_alloc((size_t)(a->batch * a->o.probes * r->size) * sizeof *r->v);
    r->probe = kd_alloc((size_t)(a->batch * a->o.probes) * sizeof *r->probe);
    if (!r->x || !r->v || !r->probe) return kd_fail_memory(err, "a batch of images");
    KD_TRY(kd_device_open(&r->be, a->common.device, err));
    return kd_denoiser_new(&r->denoiser, r->model, r->be, err);
}

static int make_room(struct run *r, int64_t more, kd_err *err)
{
    if (r->n + more <= r->room) return 0;
    r->room = 2 * r->room + more;
    void **lists[] = { (void **)&r->nats, (void **)&r->error, (void **)&r->bits, (void **)&r->calls, (void **)&r->label };
    for (int i = 0; i < 5; i++) {
        void *p = kd_realloc(*lists[i], (size_t)r->room * 8);
        if (!p) return kd_fail_memory(err, "results");
        *lists[i] = p;
    }
    return 0;
}

// Mean and standard error over an image's probes.
static void reduce(struct run *r, int64_t j)
{
    const int64_t k = r->a->o.probes, i = r->n + j;
    double mean = 0, square = 0;
    for (int64_t p = 0; p < k; p++) mean += r->probe[j * k + p] / (double)k;
    for (int64_t p = 0; p < k; p++) square += (r->probe[j * k + p] - mean) * (r->probe[j * k + p] - mean);
    r->nats[i] = mean, r->error[i] = k > 1 ? sqrt(square / (double)(k - 1) / (double)k) : 0;
    r->bits[i] = kd_bits_per_dim(mean, r->size);
}

// The next batch; *n is 0 at the end.
static int score(struct run *r, int64_t *n, kd_err *err)
{
    const struct args *a = r->a;
    const int64_t classes = r->model->config->classes, probes = a->o.probes, left = a->count < 0 ? a->batch : a->count - r->n;
    KD_TRY(make_room(r, a->batch, err));
    int64_t *label = r->label + r->n;
    KD_TRY(kd_pictures_take(r->pictures, left < a->batch ? left : a->batch, r->x, label, n, err));
    for (int64_t j = 0; j < *n; j++) {
        const uint64_t index = (uint64_t)(r->n + j);
        if (classes && !r->own_labels) label[j] = kd_class_of(&r->classes, (kd_draw){ a->seed, index });
        if (classes && (label[j] < 0 || label[j] > classes))
            return kd_fail(err, KD_EUSAGE, "image %lld has the label %lld, the model %lld classes: say --class", (long long)index,
                           (long long)label[j], (long long)classes);
        if (r->spread) kd_dequantize(r->x + j * r->size, r->x + j * r->size, r->size, a->seed, index);
        kd_loglik_probes(r->v + j * probes * r->size, probes, r->size, a->seed, index);
    }
    if (*n == 0) return 0;
    KD_TRY(kd_loglik(r->denoiser, &a->o, *n, r->x, classes ? label : NULL, r->v, r->probe, r->calls + r->n, err));
    for (int64_t j = 0; j < *n; j++) reduce(r, j);
    r->n += *n;
    return 0;
}

static int set_number(kd_frame *f, const char *key, double v, kd_err *err)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", v);
    return kd_frame_set_meta(f, key, text, err);
}

static int fill(const struct run *r, kd_frame *f, kd_err *err)
{
    const struct args *a = r->a;
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)a->seed);
    KD_TRY(kd_frame_set_meta(f, "kd", "loglik/1", err));
    KD_TRY(kd_frame_set_meta(f, "model", r->model->hash, err));
    KD_TRY(kd_frame_set_meta(f, "seed", seed, err));
    KD_TRY(set_number(f, "probes", (double)a->o.probes, err));
    KD_TRY(kd_frame_set_meta(f, "dequantized", r->spread ? "uniform" : "none", err));
    KD_TRY(set_number(f, "sigma_min", a->o.sigma_min, err));
    KD_TRY(set_number(f, "sigma_max", a->o.sigma_max, err));
    KD_TRY(set_number(f, "rtol", a->o.rtol, err));
    KD_TRY(set_number(f, "atol", a->o.atol, err));
    KD_TRY(kd_frame_set_meta(f, "error_norm", a->o.batch_norm ? "batch" : "image", err));
    KD_TRY(kd_frame_add_history(f, a->common.no_history ? NULL : a->common.history, err));
    KD_TRY(kd_frame_add(f, "nats", KD_F64, KD_SHAPE(r->n), r->nats, NULL, err));
    if (a->o.probes > 1) KD_TRY(kd_frame_add(f, "nats_error", KD_F64, KD_SHAPE(r->n), r->error, NULL, err));
    KD_TRY(kd_frame_add(f, "bits_per_dim", KD_F64, KD_SHAPE(r->n), r->bits, NULL, err));
    KD_TRY(kd_frame_add(f, "calls", KD_I64, KD_SHAPE(r->n), r->calls, NULL, err));
    return r->model->config->classes ? kd_frame_add(f, "label", KD_I64, KD_SHAPE(r->n), r->label, NULL, err) : 0;
}

static int save(const struct run *r, kd_out *out, kd_err *err)
{
    kd_frame *f = kd_frame_new();
    if (!f) return kd_fail_memory(err, "results");
    if (!fill(r, f, err) && !kd_safetensors_write(out, f, err)) kd_out_commit(out, err);
    kd_frame_free(f);
    return err->code;
}

static void summary(const struct run *r)
{
    double nats = 0, bits = 0, calls = 0, square = 0;
    const double n = (double)r->n;
    for (int64_t i = 0; i < r->n; i++) nats += r->nats[i] / n, bits += r->bits[i] / n, calls += (double)r->calls[i] / n;
    for (int64_t i = 0; i < r->n; i++) square += (r->nats[i] - nats) * (r->nats[i] - nats);
    const double error = r->n > 1 ? sqrt(square / (n - 1) / n) : 0;                // over images
    kd_say("%lld image%s: %.2f nats (standard error %.2f), %.4f bits/dim, %.0f calls an image", (long long)r->n, r->n == 1 ? "" : "s", nats,
           error, bits, calls);
}

static void run_free(struct run *r)
{
    kd_denoiser_free(r->denoiser);
    kd_backend_close(r->be);
    kd_pictures_close(r->pictures);
    kd_model_free(r->model);
    kd_classes_free(&r->classes);
    kd_free(r->x), kd_free(r->v), kd_free(r->probe);
    free(r->nats), free(r->error), free(r->bits), free(r->calls), free(r->label);
}

int main(int argc, char **argv)
{
    struct args a = { .images = "-", .count = -1, .batch = 64, .o = kd_loglik_defaults() };
    struct run r = { .a = &a };
    kd_out *out = NULL;
    kd_err err = {0};
    int64_t n;
    a.o.sigma_min = a.o.sigma_max = NAN;
    if (parse(&a, argc, argv, &err)) goto done;
    kd_talk_init("kd-loglik", a.common.quiet);
    kd_catch_signals();
    if (kd_out_open(&out, a.common.out, true, &err) || prepare(&r, &a, &err)) goto done;
    do
        if (score(&r, &n, &err)) goto done;
    while (n);
    kd_status_clear();
    if (!save(&r, out, &err) && r.n) summary(&r);
done:
    kd_status_clear();
    kd_out_close(out);
    run_free(&r);
    kd_cli_free(&a.common);
    return kd_tool_exit("kd-loglik", &err);
}
