// kd-sample: draws images from a model. Output: formats/images.md on stdout. Image k depends on the seed, k and the settings
// of the sampler: not on the batch, the threads or -n. The work: diffusion/draw.h.
#include "base/opt.h"
#include "base/talk.h"
#include "device/device.h"
#include "diffusion/draw.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct args {
    const char *model, *guide, *quantize, *interval, *threshold, *error_norm;
    kd_draw_opts d;
    bool list, raw;
    kd_common common;
};

struct run {
    kd_model *model, *weak_model;
    kd_backend *be;
    kd_denoiser *denoiser, *weak;
    kd_drawing *drawing;
    kd_images_writer *to;
};

#define SAMPLERS "dpmpp_2m|dpmpp_2m_sde|dpmpp_3m_sde|dpmpp_sde|dpmpp_2s_ancestral|euler|euler_ancestral|heun|dpm_2|dpm_2_ancestral|" \
                 "dpm_fast|dpm_adaptive|ddim|ddpm|lms"

static int check(struct args *a, kd_err *err)
{
    kd_draw_opts *d = &a->d;
    char rest;
    d->o.batch_norm = a->error_norm && !strcmp(a->error_norm, "batch");
    d->trunc = a->quantize && !strcmp(a->quantize, "trunc");
    if (a->threshold) d->guidance.threshold = !strcmp(a->threshold, "static") ? KD_THRESHOLD_STATIC : KD_THRESHOLD_DYNAMIC;
    if (a->interval && sscanf(a->interval, "%lf,%lf%c", &d->guidance.low, &d->guidance.high, &rest) != 2)
        return kd_fail(err, KD_EUSAGE, "--cfg-interval: expected LO,HI, two noise levels, got '%s'", a->interval);
    return 0;
}

// Options that would be without effect.
static int check_used(const struct args *a, const kd_opt *opts, kd_err *err)
{
    const kd_draw_opts *d = &a->d;
    const kd_sampler *s = kd_sampler_find(d->sampler);
    const char *from = (const char *)&d->o;
    for (const kd_opt *o = opts; o->type != KD_OPT_T_END; o++) {
        const bool of_sampler = (const char *)o->to >= from && (const char *)o->to < from + sizeof d->o;
        if ((of_sampler || o->to == &a->error_norm) && kd_given(&a->common, o->to) && !kd_sampler_uses(s, o->name))
            return kd_fail(err, KD_EUSAGE, "--%s: %s uses %s", o->name, s->name, *s->options ? s->options : "no such options");
    }
    if (kd_given(&a->common, &d->steps) && (d->sigmas || !kd_sampler_calls(s, 1)))
        return kd_fail(err, KD_EUSAGE, "--steps: not with --sigmas or dpm_adaptive, which have steps of their own");
    if (kd_given(&a->common, &d->schedule) && d->sigmas)
        return kd_fail(err, KD_EUSAGE, "--schedule: not with --sigmas, which are the levels themselves");
    if (a->quantize && (d->as_float || d->invert))
        return kd_fail(err, KD_EUSAGE, "--quantize: not with %s, which gives floats", d->as_float ? "--float" : "--invert");
    if (kd_given(&a->common, &d->seed) && (d->seeds || d->interpolate))
        return kd_fail(err, KD_EUSAGE, "--seed: not with %s, which names the seeds", d->seeds ? "--seeds" : "--interpolate");
    const char *idle = !kd_sampler_uses(s, "s_churn") || d->o.s_churn > 0 ? NULL : kd_given(&a->common, &d->o.s_tmin) ? "s-tmin"
                     : kd_given(&a->common, &d->o.s_tmax) ? "s-tmax" : kd_given(&a->common, &d->o.s_noise) ? "s-noise" : NULL;
    if (idle) return kd_fail(err, KD_EUSAGE, "--%s: %s adds noise with --s-churn only", idle, s->name);
    if (kd_given(&a->common, &d->o.s_noise) && kd_sampler_uses(s, "eta") && kd_sampler_eta(s, &d->o) == 0)
        return kd_fail(err, KD_EUSAGE, "--s-noise: with eta 0 %s adds no noise", s->name);
    if (d->noise && !kd_sampler_draws(s, &d->o)) return kd_fail(err, KD_EUSAGE, "--noise: with these options %s adds none", s->name);
    if (kd_given(&a->common, &d->guidance.percentile) && d->guidance.threshold != KD_THRESHOLD_DYNAMIC)
        return kd_fail(err, KD_EUSAGE, "--percentile: only with --threshold dynamic");
    return a->interval && d->guidance.scale == 1 ? kd_fail(err, KD_EUSAGE, "--cfg-interval: --cfg says how much (2, for instance)") : 0;
}

static int parse(struct args *a, int argc, char **argv, kd_err *err)
{
    kd_draw_opts *d = &a->d;
    kd_sampler_opts *o = &d->o;
    const double inf = INFINITY;
    const kd_opt opts[] = {
        KD_OPT_ARG("MODEL", &a->model, 0, "Model or checkpoint, - for standard input (default -)"),
        KD_OPT_INT('n', "count", &d->count, 0, (int64_t)1 << 40, "Number of images to draw (default 64; with --from: one per picture)"),
        KD_OPT_INT('b', "batch", &d->batch, 1, 65536, "Images per model call (default 64); affects speed and memory only"),
        KD_OPT_INT('s', "steps", &d->steps, 1, 1 << 20, "Number of steps (default 50)"),
        KD_OPT_CHOICE(0, "sampler", &d->sampler, SAMPLERS, "Sampler (default dpmpp_2m)"),
        KD_OPT_FLAG('l', "list", &a->list, "Print a list of the samplers and exit"),
        KD_OPT_U64(0, "seed", &d->seed, "Seed of all random numbers (default 0)"),
        KD_OPT_STR(0, "seeds", &d->seeds, "LIST", "Seeds, for example 3,5,10-12, to draw -n images of each (default 1)"),
        KD_OPT_INT(0, "first", &d->first, 0, ((int64_t)1 << 40) - 1, "Number of the first image (default 0)"),
        KD_OPT_STR(0, "interpolate", &d->interpolate, "A,B,N",
                   "Draw N images with starting noise interpolated from seed A's to seed B's"),
        KD_OPT_STR('c', "class", &d->classes, "K|K,K|all|none|random", "Classes to draw, assigned to the images in turn (default all)"),
        KD_OPT_CHOICE(0, "schedule", &d->schedule, "karras|exponential|polyexponential|vp|model",
                      "Schedule of noise levels (default karras)"),
        KD_OPT_NUM(0, "sigma-min", &d->sigma_min, -inf, inf, "Lowest noise level above 0 (default: the config's)"),
        KD_OPT_NUM(0, "sigma-max", &d->sigma_max, -inf, inf, "Highest noise level (default: the config's)"),
        KD_OPT_NUM(0, "rho", &d->rho, -inf, inf, "Preference for low noise levels (default 7 for karras, 1 for polyexponential)"),
        KD_OPT_NUM(0, "beta-d", &d->beta_d, -inf, inf, "Constant beta_d of schedule vp (default 19.9)"),
        KD_OPT_NUM(0, "beta-min", &d->beta_min, -inf, inf, "Constant beta_min of schedule vp (default 0.1)"),
        KD_OPT_NUM(0, "eps-s", &d->eps_s, -inf, inf, "Last time of schedule vp (default 0.001)"),
        KD_OPT_STR(0, "sigmas", &d->sigmas, "FILE:NAME", "Noise levels from a tensor, instead of a schedule"),
        KD_OPT_NUM(0, "eta", &o->eta, 0, inf,
                   "Share of fresh noise in each step; 0 follows the ODE (default 1, but 0 for dpm_fast and dpm_adaptive)"),
        KD_OPT_NUM(0, "s-churn", &o->s_churn, 0, inf, "Total noise that euler, heun and dpm_2 add over all steps (default 0)"),
        KD_OPT_NUM(0, "s-tmin", &o->s_tmin, 0, inf, "Lowest level at which --s-churn adds noise (default 0)"),
        KD_OPT_NUM(0, "s-tmax", &o->s_tmax, 0, inf, "Highest level at which --s-churn adds noise (default: no limit)"),
        KD_OPT_NUM(0, "s-noise", &o->s_noise, 0, 1e6, "Factor for all noise that the sampler adds (default 1)"),
        KD_OPT_INT(0, "order", &o->order, 1, KD_LMS_MAX_ORDER,
                   "Order of lms, 1 to 8 (default 4), or of dpm_adaptive, 2 or 3 (default 3)"),
        KD_OPT_CHOICE(0, "solver", &o->solver, "midpoint|heun", "Second-order term of dpmpp_2m_sde (default midpoint)"),
        KD_OPT_NUM(0, "r", &o->r, 1e-3, 1, "Position of dpmpp_sde's second model call within a step, 0.001 to 1 (default 0.5)"),
        KD_OPT_NUM(0, "rtol", &o->rtol, 0, inf, "Relative error tolerance of dpm_adaptive (default 0.05)"),
        KD_OPT_NUM(0, "atol", &o->atol, 0, inf, "Absolute error tolerance of dpm_adaptive (default 0.0078)"),
        KD_OPT_NUM(0, "h-init", &o->h_init, 0, inf, "First step size of dpm_adaptive, in -ln sigma (default 0.05)"),
        KD_OPT_NUM(0, "pcoeff", &o->pcoeff, 0, inf, "Proportional coefficient of dpm_adaptive's step-size controller (default 0)"),
        KD_OPT_NUM(0, "icoeff", &o->icoeff, 0, inf, "Integral coefficient of dpm_adaptive's step-size controller (default 1)"),
        KD_OPT_NUM(0, "dcoeff", &o->dcoeff, 0, inf, "Derivative coefficient of dpm_adaptive's step-size controller (default 0)"),
        KD_OPT_NUM(0, "accept-safety", &o->accept_safety, 0, inf,
                   "Smallest factor of the step size with which dpm_adaptive accepts a step (default 0.81)"),
        KD_OPT_CHOICE(0, "error-norm", &a->error_norm, "image|batch", "Error that controls dpm_adaptive's steps (default image)"),
        KD_OPT_INT(0, "max-calls", &o->max_calls, 1, 1 << 23, "Most denoiser calls per image in dpm_adaptive (default 10000)"),
        KD_OPT_NUM(0, "cfg", &d->guidance.scale, -1e6, 1e6, "Weight of classifier-free guidance (default 1, no guidance)"),
        KD_OPT_STR(0, "cfg-interval", &a->interval, "LO,HI", "Noise levels at which guidance is used (default: all)"),
        KD_OPT_STR(0, "guide", &a->guide, "MODEL", "Guide with a weaker model instead of the unconditional one (autoguidance)"),
        KD_OPT_CHOICE(0, "threshold", &a->threshold, "static|dynamic", "Bring denoised images into [-1, 1] (default: do not)"),
        KD_OPT_NUM(0, "percentile", &d->guidance.percentile, 0, 100, "Percentile used by --threshold dynamic (default 99.5)"),
        KD_OPT_STR(0, "init", &d->init, "FILE:NAME", "Start from a tensor of images at the first noise level"),
        KD_OPT_STR(0, "noise", &d->noise, "FILE:NAME", "Take the noise that the sampler adds from a tensor"),
        KD_OPT_STR(0, "from", &d->from, "IMAGES", "Start from the pictures of a stream (needs --sigma, --mask or --invert)"),
        KD_OPT_NUM(0, "sigma", &d->sigma, 0, inf, "Noise level to which the pictures are brought and from which sampling starts"),
        KD_OPT_STR(0, "mask", &d->mask, "IMAGES", "Draw where the mask is white and keep the picture where it is black"),
        KD_OPT_FLAG(0, "invert", &d->invert, "Compute the noise that gives the pictures"),
        KD_OPT_FLAG(0, "trajectory", &d->trajectory, "Write the denoised image of every step"),
        KD_OPT_FLAG('f', "float", &d->as_float, "Write F32 pixels, scaled to [-1, 1] and not clamped, instead of 8-bit pixels"),
        KD_OPT_CHOICE(0, "quantize", &a->quantize, "round|trunc", "Conversion to 8 bits (default round; k-diffusion uses trunc)"),
        KD_OPT_FLAG(0, "raw", &a->raw, "Use a checkpoint's trained weights, not their moving average"),
        KD_OPT_END };
    KD_TRY(kd_cli_parse("kd-sample", "Draw images from a model", opts, KD_WITH_OUT | KD_WITH_THREADS | KD_WITH_DEVICE, argc, argv,
                        &a->common, err));
    KD_TRY(check(a, err));
    return check_used(a, opts, err);
}

static void list_samplers(void)
{
    int n;
    const kd_sampler *s = kd_sampler_list(&n);
    for (int i = 0; i < n; i++) printf("%-19s %s\n", s[i].name, s[i].about);
}

static void progress(void *arg, int64_t calls, int64_t images)
{
    const struct run *r = arg;
    const int64_t all = kd_drawing_calls(r->drawing), count = kd_drawing_count(r->drawing);
    if (all) kd_progress("model calls", calls, all);
    else if (count > 0) kd_progress("images", images, count);
    else kd_status("%lld images, %lld model calls", (long long)images, (long long)calls);
}

static int load(kd_model **m, const char *path, bool raw, kd_err *err)
{
    KD_TRY(kd_model_load(m, path, raw, err));
    if ((*m)->warning) kd_say("%s", (*m)->warning);
    return 0;
}

static int prepare(struct run *r, struct args *a, kd_err *err)
{
    a->d.tick = progress, a->d.arg = r;
    KD_TRY(load(&r->model, a->model, a->raw, err));
    if (a->common.no_history) KD_TRY(kd_frame_set_meta(r->model->meta, "kd_history", NULL, err));
    if (a->guide) KD_TRY(load(&r->weak_model, a->guide, false, err));
    KD_TRY(kd_device_open(&r->be, a->common.device, err));
    KD_TRY(kd_denoiser_new(&r->denoiser, r->model, r->be, err));
    if (a->guide) KD_TRY(kd_denoiser_new(&r->weak, r->weak_model, r->be, err));
    return kd_drawing_new(&r->drawing, &a->d, r->denoiser, r->weak, err);
}

static int draw(struct run *r, kd_err *err)
{
    kd_images images;
    do {
        KD_TRY(kd_drawing_next(r->drawing, &images, err));
        if (images.n) KD_TRY(kd_images_put(r->to, &images, err));
    } while (images.n);
    return kd_images_finish(r->to, err);
}

static void run_free(struct run *r)
{
    kd_images_writer_free(r->to);
    kd_drawing_free(r->drawing);
    kd_denoiser_free(r->denoiser);
    kd_denoiser_free(r->weak);
    kd_backend_close(r->be);
    kd_model_free(r->model);
    kd_model_free(r->weak_model);
}

int main(int argc, char **argv)
{
    struct args a = { .model = "-", .d = kd_draw_defaults() };
    struct run r = { 0 };
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
    if (kd_images_create(&r.to, out, kd_drawing_info(r.drawing), a.common.no_history ? NULL : a.common.history, &err)) goto done;
    if (!draw(&r, &err)) kd_out_commit(out, &err);
done:
    kd_status_clear();
    kd_out_close(out);
    run_free(&r);
    kd_cli_free(&a.common);
    return kd_tool_exit("kd-sample", &err);
}
