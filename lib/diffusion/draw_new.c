// The beginning of a drawing: everything that can be wrong is found here, before the first image.
#include "diffusion/draw_parts.h"
#include "diffusion/sigmas.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kd_config *config_of(const kd_drawing *d) { return kd_denoiser_model(d->guide.d)->config; }

// What goes together -----------------------------------------------------------------------------------------------

static int refuse(bool bad, const char *why, kd_err *err) { return bad ? kd_fail(err, KD_EUSAGE, "%s", why) : 0; }

static bool is_schedule(const kd_draw_opts *o, const char *name) { return !o->sigmas && !strcmp(o->schedule, name); }

// Whether the noise levels' ends are not for the user to choose.
static bool has_own_ends(const kd_draw_opts *o) { return o->sigmas || is_schedule(o, "vp") || is_schedule(o, "model"); }

static int check_schedule(const kd_drawing *d, const kd_draw_opts *o, kd_err *err)
{
    const bool rho = is_schedule(o, "karras") || is_schedule(o, "polyexponential");
    KD_TRY(refuse(!isnan(o->sigma) && (!o->from || o->invert), "--sigma: only with --from, without --invert", err));
    KD_TRY(refuse(!isnan(o->sigma) && !isnan(o->sigma_max), "--sigma and --sigma-max: one of them", err));
    KD_TRY(refuse(has_own_ends(o) && (!isnan(o->sigma) || !isnan(o->sigma_min) || !isnan(o->sigma_max)),
                  "--sigma, --sigma-min, --sigma-max: not with --sigmas or --schedule vp or model, which have ends of their own", err));
    KD_TRY(refuse(!isnan(o->rho) && !rho, "--rho: only with --schedule karras or polyexponential", err));
    KD_TRY(refuse(!is_schedule(o, "vp") && (!isnan(o->beta_d) || !isnan(o->beta_min) || !isnan(o->eps_s)),
                  "--beta-d, --beta-min, --eps-s: only with --schedule vp", err));
    KD_TRY(refuse(!isnan(o->rho) && kd_sampler_ends_above_zero(d->sampler),
                  "--rho: not with dpm_fast or dpm_adaptive, which take a schedule's ends only", err));
    return refuse(is_schedule(o, "model") && !config_of(d)->steps, "--schedule model: the model has no steps of its own", err);
}

static int check(const kd_drawing *d, const kd_draw_opts *o, kd_err *err)
{
    const bool noisy = d->sampler->noise == KD_NOISE_STEP && o->o.s_churn > 0;
    const kd_config *c = config_of(d);
    const char *condition = kd_config_condition(c);
    if (condition) return kd_fail(err, KD_EUSAGE, "the model needs a %s: only kd-denoise takes one", condition);
    KD_TRY(refuse(c->classes && !c->no_class && o->classes && !strcmp(o->classes, "none"),
                  "--class none: the model was trained with classes only", err));
    KD_TRY(refuse(o->guidance.scale != 1 && c->classes && !c->no_class && !d->guide.weak,
                  "--cfg: the model was trained with classes only; --guide takes a weaker model", err));
    KD_TRY(refuse(o->seeds && o->interpolate, "--seeds and --interpolate: one of them", err));
    KD_TRY(refuse(o->interpolate && (o->count >= 0 || o->from || o->init), "--interpolate A,B,N says all: not with -n, --from, --init",
                  err));
    KD_TRY(refuse(o->init && o->from, "--init and --from: one of them", err));
    KD_TRY(refuse(o->mask && !o->from, "--mask: only with --from, the pictures that are kept where it is black", err));
    KD_TRY(refuse(o->mask && o->from && !strcmp(o->mask, "-") && !strcmp(o->from, "-"), "--from and --mask cannot both be stdin", err));
    KD_TRY(refuse(o->from && isnan(o->sigma) && !o->mask && !o->invert, "--from: --sigma says how much noise the pictures get", err));
    KD_TRY(refuse(!(fabs(o->guidance.scale) <= 1e6), "--cfg: expected a number from -1e6 to 1e6", err));
    KD_TRY(check_schedule(d, o, err));
    KD_TRY(refuse(o->invert && (!o->from || o->mask), "--invert: only with --from, without --mask", err));
    KD_TRY(refuse(o->invert && (!d->sampler->ode || noisy),
                  "--invert: only with dpmpp_2m, euler, heun, dpm_2, ddim or lms, without churn", err));
    KD_TRY(refuse(o->invert && o->noise, "--invert draws no noise", err));
    KD_TRY(refuse(o->guidance.scale != 1 && !c->classes && !d->guide.weak,
                  "--cfg: the model has no classes to be guided by; --guide takes a weaker model", err));
    KD_TRY(refuse(o->guidance.scale == 1 && d->guide.weak, "--guide: --cfg says how much (2, for instance)", err));
    return refuse(!(o->guidance.low <= o->guidance.high), "--cfg-interval: expected LO,HI, not falling", err);
}

// The weaker model must be one of the same images and classes.
static int check_weak(const kd_drawing *d, kd_err *err)
{
    if (!d->guide.weak) return 0;
    const kd_config *a = config_of(d), *b = kd_denoiser_model(d->guide.weak)->config;
    if (a->size[0] == b->size[0] && a->size[1] == b->size[1] && a->channels == b->channels && a->classes == b->classes &&
        !kd_config_condition(b))
        return 0;
    return kd_fail(err, KD_EUSAGE, "--guide: %s is of %lldx%lldx%lld images and %lld classes, the model of %lldx%lldx%lld and %lld",
                   b->path,
                   (long long)b->size[0], (long long)b->size[1], (long long)b->channels, (long long)b->classes, (long long)a->size[0],
                   (long long)a->size[1], (long long)a->channels, (long long)a->classes);
}

// Noise levels -----------------------------------------------------------------------------------------------------

static int load_sigmas(kd_drawing *d, kd_err *err)
{
    const char *name = d->o->sigmas;
    kd_frame *f;
    const kd_tensor *t;
    KD_TRY(kd_safetensors_pick(name, &f, &t, err));
    const int64_t n = kd_tensor_count(t);
    if (t->shape.n != 1 || n < 2 || t->dtype > KD_BF16) kd_fail(err, KD_EUSAGE, "%s: expected floats [n], at least 2", name);
    if (!err->code && !(d->sigmas = kd_alloc((size_t)n * sizeof *d->sigmas))) kd_fail_memory(err, "noise levels");
    if (!err->code) kd_convert(d->sigmas, KD_F32, t->data, t->dtype, n);
    kd_frame_free(f);
    d->steps = n - 1;
    return err->code ? err->code : kd_sigmas_check(d->sigmas, n, name, err);
}

static double lowest(const kd_drawing *d) { return isnan(d->o->sigma_min) ? config_of(d)->sigma_min : d->o->sigma_min; }

static double highest(const kd_drawing *d)
{
    const kd_draw_opts *o = d->o;
    return !isnan(o->sigma) ? o->sigma : isnan(o->sigma_max) ? config_of(d)->sigma_max : o->sigma_max;
}

static int schedule(kd_drawing *d, int64_t n, kd_err *err)
{
    const kd_draw_opts *o = d->o;
    const double low = lowest(d), high = highest(d);
    if (!strcmp(o->schedule, "karras")) return kd_sigmas_karras(d->sigmas, n, low, high, isnan(o->rho) ? 7 : o->rho, err);
    if (!strcmp(o->schedule, "exponential")) return kd_sigmas_exponential(d->sigmas, n, low, high, err);
    if (!strcmp(o->schedule, "polyexponential"))
        return kd_sigmas_polyexponential(d->sigmas, n, low, high, isnan(o->rho) ? 1 : o->rho, err);
    if (!strcmp(o->schedule, "model")) return kd_sigmas_steps(d->sigmas, n, config_of(d)->steps, err);
    return kd_sigmas_vp(d->sigmas, n, isnan(o->beta_d) ? 19.9 : o->beta_d, isnan(o->beta_min) ? 0.1 : o->beta_min,
                        isnan(o->eps_s) ? 1e-3 : o->eps_s, err);
}

// From low to high, without the 0.
static void invert(kd_drawing *d)
{
    if (d->sigmas[d->steps] == 0) d->steps--;
    for (int64_t i = 0, j = d->steps; i < j; i++, j--) {
        const float s = d->sigmas[i];
        d->sigmas[i] = d->sigmas[j], d->sigmas[j] = s;
    }
}

// --sigma is the highest level under the user's name for it.
static int check_sigma(const kd_drawing *d, kd_err *err)
{
    const double sigma = d->o->sigma;
    if (isnan(sigma)) return 0;
    KD_TRY(kd_sigma_check("--sigma", sigma, err));
    return sigma > lowest(d) ? 0 : kd_fail(err, KD_EUSAGE, "--sigma: expected a level above sigma_min (%g), got %g", lowest(d), sigma);
}

static int make_sigmas(kd_drawing *d, kd_err *err)
{
    const kd_draw_opts *o = d->o;
    KD_TRY(check_sigma(d, err));
    if (o->sigmas) {
        KD_TRY(load_sigmas(d, err));
    } else {
        // A sampler that ends at the lowest level has `steps` steps to it, the others one step more, to 0.
        const int64_t n = o->steps + kd_sampler_ends_above_zero(d->sampler);
        if (!(d->sigmas = kd_alloc((size_t)(n + 1) * sizeof *d->sigmas))) return kd_fail_memory(err, "noise levels");
        KD_TRY(schedule(d, n, err));
        d->steps = o->steps;
    }
    if (o->invert) invert(d);
    return refuse(d->steps < 1, "--invert: expected at least 2 steps", err);
}

// Who and where from -----------------------------------------------------------------------------------------------

static int need(const char *option, int64_t have, int64_t asked, kd_err *err)
{
    return have >= asked ? 0 : kd_fail(err, KD_EUSAGE, "%s: %lld images, asked for %lld", option, (long long)have, (long long)asked);
}

static int set_count(kd_drawing *d, kd_err *err)
{
    const kd_draw_opts *o = d->o;
    const int64_t most = (int64_t)1 << 40;                             // images of a seed
    d->count = o->count;
    if (o->seeds) {
        KD_TRY(kd_seeds_parse(&d->seeds, &d->n_seeds, o->seeds, err));
        d->each = o->count < 0 ? 1 : o->count;
        if (!kd_mul(d->n_seeds, d->each, &d->count) || d->count > most) return kd_fail(err, KD_EUSAGE, "--seeds: more than 2^40 images");
        if (d->each == 0) d->each = 1;
    }
    if (o->interpolate) {
        KD_TRY(kd_interpolation_parse(&d->arc, o->interpolate, err));
        d->count = d->arc.n;
    }
    if (o->init) {
        int64_t lead, n;
        const kd_config *c = config_of(d);
        KD_TRY(kd_tensor_images(o->init, c->size[0], c->size[1], c->channels, 0, &d->init, &lead, &n, err));
        if (d->count < 0) d->count = n;
        KD_TRY(need("--init", n, d->count, err));
    }
    if (d->count < 0 && !o->from) d->count = 64;
    if (o->first + (d->count > 0 ? d->count : 0) > most) return kd_fail(err, KD_EUSAGE, "--first: image numbers end at 2^40");
    return 0;
}

static int open_pictures(kd_drawing *d, kd_err *err)
{
    const kd_draw_opts *o = d->o;
    const kd_config *c = config_of(d);
    const int64_t h = c->size[0], w = c->size[1], channels = c->channels;
    if (o->noise) {
        KD_TRY(kd_tensor_images(o->noise, h, w, channels, 1, &d->bank, &d->requests, &d->bank_n, err));
        KD_TRY(refuse(d->count < 0, "--noise: -n says how many images", err));
        KD_TRY(need("--noise", d->bank_n, d->count, err));
    }
    // Without a count the pictures are the count: a single one is not repeated.
    if (o->from) KD_TRY(kd_pictures_open(&d->from, o->from, h, w, channels, d->count < 0 ? 0 : KD_PICTURES_REPEAT, err));
    if (o->mask) KD_TRY(kd_pictures_open(&d->mask_from, o->mask, h, w, channels, KD_PICTURES_GREY | KD_PICTURES_REPEAT, err));
    d->own_labels = d->from && c->classes && !o->classes && kd_pictures_info(d->from)->has_label;
    return kd_classes_parse(&d->classes, o->classes, c->classes, err);
}

// Metadata ---------------------------------------------------------------------------------------------------------

static int set_number(kd_frame *f, const char *key, double v, kd_err *err)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", v);
    return kd_frame_set_meta(f, key, text, err);
}

static int set_guidance(kd_frame *f, const kd_drawing *d, kd_err *err)
{
    const kd_guidance *g = &d->guide.g;
    kd_str s = {0};
    int code = 0;
    if (g->scale != 1) code = kd_str_printf(&s, err, "cfg=%.9g cfg_interval=%.9g,%.9g", g->scale, g->low, g->high);
    if (!code && d->guide.weak) code = kd_str_printf(&s, err, " guide=%s", kd_denoiser_model(d->guide.weak)->hash);
    if (!code && g->threshold == KD_THRESHOLD_STATIC) code = kd_str_printf(&s, err, "%sthreshold=static", s.n ? " " : "");
    if (!code && g->threshold == KD_THRESHOLD_DYNAMIC)
        code = kd_str_printf(&s, err, "%sthreshold=dynamic percentile=%.9g", s.n ? " " : "", g->percentile);
    if (!code && s.n) code = kd_frame_set_meta(f, "guidance", s.p, err);
    free(s.p);
    return code;
}

static int set_schedule(kd_frame *f, const kd_drawing *d, kd_err *err)
{
    const kd_draw_opts *o = d->o;
    const bool given = o->sigmas, own = has_own_ends(o), ends_only = kd_sampler_ends_above_zero(d->sampler);
    const bool rho = !given && !ends_only && (!strcmp(o->schedule, "karras") || !strcmp(o->schedule, "polyexponential"));
    const int64_t n = d->steps;
    KD_TRY(kd_frame_set_meta(f, "schedule", given ? "given" : o->schedule, err));
    if (kd_sampler_calls(d->sampler, 1)) KD_TRY(set_number(f, "steps", (double)n, err));
    const double first = d->sigmas[0], last = d->sigmas[n] > 0 ? d->sigmas[n] : d->sigmas[n - 1];
    KD_TRY(set_number(f, "sigma_min", own ? fmin(first, last) : lowest(d), err));
    KD_TRY(set_number(f, "sigma_max", own ? fmax(first, last) : highest(d), err));
    return rho ? set_number(f, "rho", !isnan(o->rho) ? o->rho : *o->schedule == 'k' ? 7 : 1, err) : 0;
}

static int set_metadata(kd_drawing *d, kd_err *err)
{
    const kd_draw_opts *o = d->o;
    const kd_model *m = kd_denoiser_model(d->guide.d);
    char text[256];
    kd_frame *f = d->info.meta = kd_frame_new();
    if (!f) return kd_fail_memory(err, "metadata");
    KD_TRY(kd_frame_set_meta(f, "sampler", d->sampler->name, err));
    if (*kd_sampler_options(d->sampler, &o->o, text, sizeof text)) KD_TRY(kd_frame_set_meta(f, "sampler_options", text, err));
    KD_TRY(set_schedule(f, d, err));
    KD_TRY(set_guidance(f, d, err));
    if (o->invert) KD_TRY(kd_frame_set_meta(f, "inverted", "1", err));
    if (d->info.dtype == KD_U8) KD_TRY(kd_frame_set_meta(f, "quantize", o->trunc ? "trunc" : "round", err));
    KD_TRY(kd_frame_set_meta(f, "model", m->hash, err));
    const char *carried[] = { "class_names", "kd_history", "kd_step" };
    for (int i = 0; i < 3; i++)
        if (kd_frame_meta(m->meta, carried[i])) KD_TRY(kd_frame_set_meta(f, carried[i], kd_frame_meta(m->meta, carried[i]), err));
    return 0;
}

// ------------------------------------------------------------------------------------------------------------------

static void *room(int64_t n, size_t each, bool *failed)
{
    int64_t bytes;
    void *p = kd_mul(n, (int64_t)each, &bytes) ? kd_alloc((size_t)bytes + 1) : NULL;
    *failed |= !p;
    return p;
}

static int make_room(kd_drawing *d, kd_err *err)
{
    const kd_draw_opts *o = d->o;
    const int64_t n = d->count >= 0 && d->count < o->batch ? d->count : o->batch;
    bool failed = false;
    const int64_t size = d->size;
    d->x = room(n * size, sizeof *d->x, &failed), d->other = room(size, sizeof *d->x, &failed);
    if (d->from) d->known = room(n * size, sizeof *d->x, &failed);
    if (d->mask_from) d->mask = room(n * size, sizeof *d->x, &failed);
    if (o->trajectory) d->path = room(n, sizeof *d->path, &failed), d->paths = n;
    d->pixels = room(n * size, 1, &failed), d->draw = room(n, sizeof *d->draw, &failed);
    d->label = room(n, sizeof *d->label, &failed), d->index = room(n, sizeof *d->index, &failed);
    d->calls = room(n, sizeof *d->calls, &failed), d->seed = room(n, sizeof *d->seed, &failed);
    return failed ? kd_fail_memory(err, "a batch of images") : 0;
}

static void tick(void *arg)
{
    kd_drawing *d = arg;
    d->calls_done++;
    if (d->o->tick) d->o->tick(d->o->arg, d->calls_done, d->done);
}

static int begin(kd_drawing *d, kd_err *err)
{
    const kd_config *c = config_of(d);
    const kd_draw_opts *o = d->o;
    if (!d->sampler) return kd_fail(err, KD_EUSAGE, "no sampler '%s'", o->sampler);
    d->size = c->size[0] * c->size[1] * c->channels;
    KD_TRY(check(d, o, err));
    KD_TRY(check_weak(d, err));
    KD_TRY(make_sigmas(d, err));
    KD_TRY(set_count(d, err));
    KD_TRY(open_pictures(d, err));
    KD_TRY(make_room(d, err));
    const bool none = d->classes.cycle && d->classes.cycle[0] == c->classes;
    d->info.h = c->size[0], d->info.w = c->size[1], d->info.c = c->channels;
    d->info.dtype = o->as_float || o->invert ? KD_F32 : KD_U8;
    d->info.has_label = c->classes && (d->own_labels || !none);
    d->info.has_index = d->info.has_seed = d->info.has_calls = true;
    d->guide.size = d->size, d->guide.label = c->classes ? d->label : NULL, d->guide.known = d->known, d->guide.mask = d->mask;
    d->guide.tick = tick, d->guide.arg = d;
    return set_metadata(d, err);
}

int kd_drawing_new(kd_drawing **out, const kd_draw_opts *o, kd_denoiser *denoiser, kd_denoiser *weak, kd_err *err)
{
    kd_drawing *d = *out = kd_alloc(sizeof *d);
    if (!d) return kd_fail_memory(err, "a run of sampling");
    d->o = o, d->sampler = kd_sampler_find(o->sampler);
    d->guide = (kd_guide){ .g = o->guidance, .d = denoiser, .weak = weak };
    const int code = begin(d, err);
    if (code) kd_drawing_free(d), *out = NULL;
    return code;
}
