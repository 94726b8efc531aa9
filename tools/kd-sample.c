// kd-sample: draws images from a model. Output: formats/images.md on stdout. Image k depends on the seed, k and the settings
// of the sampler: not on the batch, the threads or -n.
#include "base/memory.h"
#include "base/opt.h"
#include "base/talk.h"
#include "diffusion/denoiser.h"
#include "diffusion/sampler.h"
#include "diffusion/sigmas.h"
#include "formats/images.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *model, *sampler, *classes, *quantize;
    int64_t count, batch, steps, first;
    uint64_t seed;
    double sigma_min, sigma_max, rho;                    // sigmas 0: the config's
    kd_sampler_opts o;
    bool as_float, list, raw;
    kd_common common;
};

// Everything a batch needs. The arrays are of `batch` images.
struct run {
    const struct args *a;
    const kd_sampler *sampler;
    kd_model *model;
    kd_backend *be;
    kd_denoiser *denoiser;
    kd_images_writer *to;
    kd_images_info info;
    int64_t size;                                        // elements of an image
    float *sigmas;                                       // [steps+1]
    int64_t *cycle, n_cycle;                             // image k gets class cycle[k mod n_cycle]; NULL: the model has none
    float *x; int64_t *class_cond; uint8_t *pixels; kd_draw *draw;
    int64_t *label, *index, *calls; uint64_t *seed;
    int64_t calls_done, calls_all;                       // of the model, for the progress line
};

static int parse(struct args *a, int argc, char **argv, kd_err *err)
{
    const kd_opt opts[] = {
        KD_OPT_ARG("MODEL", &a->model, 0, "model or checkpoint file (default: stdin)"),
        KD_OPT_INT('n', "count", &a->count, 0, (int64_t)1 << 40, "images to draw (default 64)"),
        KD_OPT_INT('b', "batch", &a->batch, 1, 65536, "images a model call; changes speed and memory only (default 64)"),
        KD_OPT_INT('s', "steps", &a->steps, 1, 1 << 20, "noise levels (default 50)"),
        KD_OPT_CHOICE(0, "sampler", &a->sampler, "dpmpp_2m|dpmpp_2m_sde|dpmpp_3m_sde|dpmpp_sde|dpmpp_2s_ancestral|"
                      "euler|euler_ancestral|heun|dpm_2|dpm_2_ancestral|dpm_fast|dpm_adaptive|lms", "(default dpmpp_2m)"),
        KD_OPT_FLAG('l', "list", &a->list, "list the samplers and stop"),
        KD_OPT_U64(0, "seed", &a->seed, "same seed, same images (default 0)"),
        KD_OPT_INT(0, "first", &a->first, 0, ((int64_t)1 << 40) - 1, "number of the first image (default 0)"),
        KD_OPT_STR('c', "class", &a->classes, "K|K,K|all|none", "classes, given to the images in turn (default all)"),
        KD_OPT_NUM(0, "sigma-min", &a->sigma_min, -INFINITY, INFINITY, "lowest noise level above 0 (default: the config's)"),
        KD_OPT_NUM(0, "sigma-max", &a->sigma_max, -INFINITY, INFINITY, "highest noise level (default: the config's)"),
        KD_OPT_NUM(0, "rho", &a->rho, -INFINITY, INFINITY, "how strongly low levels are preferred (default 7)"),
        KD_OPT_NUM(0, "eta", &a->o.eta, 0, INFINITY, "dpmpp_2m_sde, euler_ancestral: share of fresh noise (default 1)"),
        KD_OPT_NUM(0, "s-churn", &a->o.s_churn, 0, INFINITY, "euler, heun: noise added in all (default 0)"),
        KD_OPT_NUM(0, "s-tmin", &a->o.s_tmin, 0, INFINITY, "and the lowest level (default 0)"),
        KD_OPT_NUM(0, "s-tmax", &a->o.s_tmax, 0, INFINITY, "and the highest level at which it is (default: no limit)"),
        KD_OPT_NUM(0, "s-noise", &a->o.s_noise, 0, INFINITY, "factor of all added noise (default 1)"),
        KD_OPT_INT(0, "order", &a->o.order, 1, KD_LMS_MAX_ORDER, "lms: steps it looks back (default 4)"),
        KD_OPT_CHOICE(0, "solver", &a->o.solver, "midpoint|heun", "dpmpp_2m_sde: second-order term (default midpoint)"),
        KD_OPT_FLAG('f', "float", &a->as_float, "write F32 at [-1, 1], not clamped, instead of U8"),
        KD_OPT_CHOICE(0, "quantize", &a->quantize, "round|trunc", "to 8 bits (default round; k-diffusion truncates)"),
        KD_OPT_FLAG(0, "raw", &a->raw, "of a checkpoint the trained weights, not their EMA"),
        KD_OPT_END };
    return kd_cli_parse("kd-sample", "draw images from a model", opts, KD_WITH_OUT | KD_WITH_THREADS | KD_WITH_DEVICE, argc, argv,
                        &a->common, err);
}

static void list_samplers(void)
{
    int n;
    const kd_sampler *s = kd_sampler_list(&n);
    for (int i = 0; i < n; i++) printf("%-19s %s\n", s[i].name, s[i].about);
}

// --class ---------------------------------------------------------------------------------------------------------

static int parse_classes(struct run *r, kd_err *err)
{
    const int64_t classes = r->model->config->classes;
    const char *s = r->a->classes;
    if (!classes && s && strcmp(s, "none")) return kd_fail(err, KD_EUSAGE, "--class: the model has no classes");
    if (!classes) return 0;
    const bool all = !s || !strcmp(s, "all"), none = s && !strcmp(s, "none");
    r->cycle = malloc((all ? (size_t)classes : strlen(s) + 1) * sizeof *r->cycle);
    if (!r->cycle) return kd_fail_memory(err, "classes");
    for (int64_t k = 0; all && k < classes; k++) r->cycle[r->n_cycle++] = k;
    if (none) r->cycle[r->n_cycle++] = classes;          // the row of "no class"
    while (!all && !none) {
        char *end;
        const long long k = strtoll(s, &end, 10);
        if (end == s || *s < '0' || *s > '9' || k >= classes || (*end && *end != ','))
            return kd_fail(err, KD_EUSAGE, "--class: expected all, none or classes 0 to %lld with commas between, got '%s'",
                           (long long)classes - 1, r->a->classes);
        r->cycle[r->n_cycle++] = k;
        if (!*end) break;
        s = end + 1;
    }
    return 0;
}

// Metadata --------------------------------------------------------------------------------------------------------

static int set_number(kd_frame *f, const char *key, double v, kd_err *err)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", v);
    return kd_frame_set_meta(f, key, text, err);
}

static int set_options(kd_frame *f, const struct args *a, const kd_sampler *s, kd_err *err)
{
    char text[256];
    const kd_sampler_opts *o = &a->o;
    if (!strcmp(s->name, "lms")) snprintf(text, sizeof text, "order=%lld", (long long)(o->order ? o->order : 4));
    else if (!strcmp(s->name, "dpmpp_2m_sde"))
        snprintf(text, sizeof text, "eta=%.9g s_noise=%.9g solver=%s", o->eta, o->s_noise, o->solver);
    else if (!strcmp(s->name, "euler_ancestral")) snprintf(text, sizeof text, "eta=%.9g s_noise=%.9g", o->eta, o->s_noise);
    else if (s->noise == KD_NOISE_STEP)
        snprintf(text, sizeof text, "s_churn=%.9g s_tmin=%.9g s_tmax=%.9g s_noise=%.9g", o->s_churn, o->s_tmin, o->s_tmax, o->s_noise);
    else return 0;
    return kd_frame_set_meta(f, "sampler_options", text, err);
}

static int set_metadata(struct run *r, kd_err *err)
{
    const struct args *a = r->a;
    kd_frame *f = r->info.meta = kd_frame_new();
    if (!f) return kd_fail_memory(err, "metadata");
    KD_TRY(kd_frame_set_meta(f, "sampler", r->sampler->name, err));
    KD_TRY(set_options(f, a, r->sampler, err));
    KD_TRY(kd_frame_set_meta(f, "schedule", "karras", err));
    KD_TRY(set_number(f, "steps", (double)a->steps, err));
    KD_TRY(set_number(f, "sigma_min", a->sigma_min, err));
    KD_TRY(set_number(f, "sigma_max", a->sigma_max, err));
    KD_TRY(set_number(f, "rho", a->rho, err));
    KD_TRY(kd_frame_set_meta(f, "model", r->model->hash, err));
    const char *carried[] = { "class_names", "kd_history", "kd_step" };
    for (int i = 0; i < 3; i++)
        if (kd_frame_meta(r->model->meta, carried[i]) && !(i == 1 && a->common.no_history))
            KD_TRY(kd_frame_set_meta(f, carried[i], kd_frame_meta(r->model->meta, carried[i]), err));
    return 0;
}

// Work ------------------------------------------------------------------------------------------------------------

static int prepare(struct run *r, struct args *a, kd_err *err)
{
    enum { IMAGES = 40 };                                // bits of an image's number
    if (a->first + a->count > (int64_t)1 << IMAGES) return kd_fail(err, KD_EUSAGE, "--first: image numbers end at 2^%d", IMAGES);
    KD_TRY(kd_model_load(&r->model, a->model, a->raw, err));
    if (r->model->warning) kd_say("%s", r->model->warning);
    const kd_config *c = r->model->config;
    if (c->mapping_cond_dim) return kd_fail(err, KD_EUSAGE, "the model needs a mapping_cond: only kd-denoise takes one");
    if (isnan(a->sigma_min)) a->sigma_min = c->sigma_min;
    if (isnan(a->sigma_max)) a->sigma_max = c->sigma_max;
    r->sampler = kd_sampler_find(a->sampler);
    r->size = c->size[0] * c->size[1] * c->channels;
    r->calls_all = (a->count + a->batch - 1) / a->batch * kd_sampler_calls(r->sampler, a->steps);
    KD_TRY(parse_classes(r, err));
    if (!(r->sigmas = kd_alloc((size_t)(a->steps + 1) * sizeof *r->sigmas))) return kd_fail_memory(err, "noise levels");
    KD_TRY(kd_sigmas_karras(r->sigmas, a->steps, a->sigma_min, a->sigma_max, a->rho, err));
    if (kd_sampler_ends_above_zero(r->sampler)) r->sigmas[a->steps] = (float)a->sigma_min;
    r->info.h = c->size[0], r->info.w = c->size[1], r->info.c = c->channels;
    r->info.dtype = a->as_float ? KD_F32 : KD_U8;
    r->info.has_label = r->cycle && r->cycle[0] < c->classes;
    r->info.has_index = r->info.has_seed = r->info.has_calls = true;
    KD_TRY(set_metadata(r, err));

    const size_t n = (size_t)(a->count < 1 ? 1 : a->count < a->batch ? a->count : a->batch);
    r->x = kd_alloc(n * (size_t)r->size * sizeof *r->x), r->class_cond = kd_alloc(n * sizeof *r->class_cond);
    r->pixels = kd_alloc(n * (size_t)r->size), r->draw = kd_alloc(n * sizeof *r->draw), r->label = kd_alloc(n * sizeof *r->label);
    r->index = kd_alloc(n * sizeof *r->index), r->calls = kd_alloc(n * sizeof *r->calls), r->seed = kd_alloc(n * sizeof *r->seed);
    if (!r->x || !r->class_cond || !r->pixels || !r->draw || !r->label || !r->index || !r->calls || !r->seed)
        return kd_fail_memory(err, "a batch of images");
    KD_TRY(kd_backend_open(&r->be, a->common.device, err));
    return kd_denoiser_new(&r->denoiser, r->model, r->be, err);
}

static int denoise(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err)
{
    struct run *r = arg;
    if (kd_interrupted()) return kd_fail_interrupted(err);
    for (int64_t i = 0; r->cycle && i < n; i++) r->class_cond[i] = r->label[image[i]];
    const kd_cond cond = { .class_cond = r->cycle ? r->class_cond : NULL };
    KD_TRY(kd_denoise(r->denoiser, n, x, sigma, &cond, NULL, out, err));
    kd_progress("model calls", ++r->calls_done, r->calls_all);
    return 0;
}

// Images first .. first+n-1.
static int sample_batch(struct run *r, int64_t first, int64_t n, kd_err *err)
{
    const struct args *a = r->a;
    for (int64_t k = 0; k < n; k++) {
        r->draw[k] = (kd_draw){ a->seed, (uint64_t)(first + k) };
        r->seed[k] = a->seed, r->index[k] = first + k;
        if (r->cycle) r->label[k] = r->cycle[(first + k) % r->n_cycle];
        kd_sample_start(r->x + k * r->size, r->size, r->draw[k], r->sigmas[0]);
    }
    const kd_sampling s = { .sampler = r->sampler, .o = &a->o, .sigmas = r->sigmas, .steps = a->steps, .call = denoise, .arg = r };
    KD_TRY(kd_sample(&s, n, r->size, r->draw, r->x, r->calls, err));
    if (!a->as_float) kd_images_quantize(r->pixels, r->x, n * r->size, !strcmp(a->quantize, "trunc"));
    const kd_images images = { .n = n, .image = a->as_float ? (void *)r->x : r->pixels, .label = r->info.has_label ? r->label : NULL,
                               .index = r->index, .seed = r->seed, .calls = r->calls };
    return kd_images_put(r->to, &images, err);
}

static void run_free(struct run *r)
{
    kd_images_writer_free(r->to);
    kd_denoiser_free(r->denoiser);
    kd_backend_close(r->be);
    kd_model_free(r->model);
    kd_frame_free(r->info.meta);
    free(r->cycle);
    void *blocks[] = { r->sigmas, r->x, r->class_cond, r->pixels, r->draw, r->label, r->index, r->calls, r->seed };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) kd_free(blocks[i]);
}

int main(int argc, char **argv)
{
    struct args a = { .model = "-", .sampler = "dpmpp_2m", .quantize = "round", .count = 64, .batch = 64, .steps = 50,
                      .sigma_min = NAN, .sigma_max = NAN, .rho = 7, .o = kd_sampler_defaults() };
    struct run r = { .a = &a };
    kd_out *out = NULL;
    kd_err err = {0};
    if (parse(&a, argc, argv, &err)) goto done;
    if (a.list) {
        list_samplers();
        goto done;
    }
    kd_talk_init("kd-sample", a.common.quiet);
    kd_catch_signals();
    if (kd_out_open(&out, a.common.out, true, &err) || prepare(&r, &a, &err)) goto done;
    if (kd_images_create(&r.to, out, &r.info, a.common.no_history ? NULL : a.common.history, &err)) goto done;
    for (int64_t k = 0; k < a.count; k += a.batch)
        if (sample_batch(&r, a.first + k, a.count - k < a.batch ? a.count - k : a.batch, &err)) goto done;
    if (!kd_images_finish(r.to, &err)) kd_out_commit(out, &err);
done:
    kd_status_clear();
    kd_out_close(out);
    run_free(&r);
    kd_cli_free(&a.common);
    return kd_tool_exit("kd-sample", &err);
}
