// The list of samplers and a run of one: options and vector helpers. The samplers themselves are in euler.c, dpm_2.c, lms.c,
// dpm_solver.c, ddim.c, dpmpp.c and dpmpp_single.c; read run.h before them.
#include "diffusion/run.h"
#include "diffusion/sigmas.h"
#include "base/memory.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const kd_sampler samplers[] = {
    { "dpmpp_2m", "DPM-Solver++(2M): second order, one call a step, no noise", KD_NOISE_NONE, 1, true, "", kd_dpmpp_2m },
    { "dpmpp_2m_sde", "DPM-Solver++(2M) SDE, with noise (--eta, --s-noise, --solver)", KD_NOISE_BROWNIAN, 1, false,
      "eta s_noise solver", kd_dpmpp_2m_sde },
    { "dpmpp_3m_sde", "DPM-Solver++(3M) SDE, with noise (--eta, --s-noise)", KD_NOISE_BROWNIAN, 1, false,
      "eta s_noise", kd_dpmpp_3m_sde },
    { "dpmpp_sde", "DPM-Solver++ SDE, two calls a step, with noise (--eta, --s-noise, --r)", KD_NOISE_BROWNIAN, 2, false,
      "eta s_noise r", kd_dpmpp_sde },
    { "dpmpp_2s_ancestral", "DPM-Solver++(2S), two calls a step, with ancestral noise (--eta, --s-noise)", KD_NOISE_STEP, 2, false,
      "eta s_noise", kd_dpmpp_2s_ancestral },
    { "euler", "Euler, with churn (--s-churn, --s-tmin, --s-tmax, --s-noise)", KD_NOISE_STEP, 1, true,
      "s_churn s_tmin s_tmax s_noise", kd_euler },
    { "euler_ancestral", "Euler with ancestral noise (--eta, --s-noise)", KD_NOISE_STEP, 1, false, "eta s_noise", kd_euler_ancestral },
    { "heun", "Heun, second order, two calls a step, with churn as euler", KD_NOISE_STEP, 2, true,
      "s_churn s_tmin s_tmax s_noise", kd_heun },
    { "dpm_2", "DPM-Solver-2, second order, two calls a step, with churn as euler", KD_NOISE_STEP, 2, true,
      "s_churn s_tmin s_tmax s_noise", kd_dpm_2 },
    { "dpm_2_ancestral", "DPM-Solver-2 with ancestral noise (--eta, --s-noise)", KD_NOISE_STEP, 2, false,
      "eta s_noise", kd_dpm_2_ancestral },
    { "dpm_fast", "DPM-Solver-fast: orders 3, 2, 1, --steps calls in all, ends at sigma_min (--eta, --s-noise)", KD_NOISE_STEP, 0, false,
      "eta s_noise", kd_dpm_fast },
    { "dpm_adaptive", "DPM-Solver-12 or 23: steps by --rtol and --atol, ends at sigma_min (--order, --eta)", KD_NOISE_STEP, 0, false,
      "order rtol atol h_init pcoeff icoeff dcoeff accept_safety max_calls error_norm eta s_noise", kd_dpm_adaptive },
    { "ddim", "DDIM: first order, no noise", KD_NOISE_NONE, 1, true, "", kd_ddim },
    { "ddpm", "DDPM, with noise as in its paper (--s-noise)", KD_NOISE_STEP, 1, false, "s_noise", kd_ddpm },
    { "lms", "linear multistep (--order)", KD_NOISE_NONE, 1, true, "order", kd_lms },
};

const kd_sampler *kd_sampler_list(int *n)
{
    *n = (int)(sizeof samplers / sizeof *samplers);
    return samplers;
}

const kd_sampler *kd_sampler_find(const char *name)
{
    for (size_t i = 0; i < sizeof samplers / sizeof *samplers; i++)
        if (!strcmp(samplers[i].name, name)) return &samplers[i];
    return NULL;
}

bool kd_sampler_ends_above_zero(const kd_sampler *s) { return s->calls == 0; }

int64_t kd_sampler_calls(const kd_sampler *s, int64_t steps)
{
    if (s->run == kd_dpm_adaptive) return 0;
    return s->calls ? s->calls * (steps - 1) + 1 : steps;          // the last step, to 0, takes one
}

kd_sampler_opts kd_sampler_defaults(void)
{
    return (kd_sampler_opts){ .eta = NAN, .s_churn = 0, .s_tmin = 0, .s_tmax = INFINITY, .s_noise = 1, .order = 0,
                              .solver = "midpoint", .r = 0.5, .rtol = 0.05, .atol = 0.0078, .h_init = 0.05, .icoeff = 1,
                              .accept_safety = 0.81, .max_calls = 10000 };
}

// Whether the list begins with the word.
static bool begins(const char *list, const char *word)
{
    for (; *word; list++, word++)
        if (*list != (*word == '-' ? '_' : *word)) return false;
    return !*list || *list == ' ';
}

bool kd_sampler_uses(const kd_sampler *s, const char *option)
{
    for (const char *at = s->options; at; at = strchr(at, ' '), at += at != NULL)
        if (begins(at, option)) return true;
    return false;
}

double kd_sampler_eta(const kd_sampler *s, const kd_sampler_opts *o)
{
    return !isnan(o->eta) ? o->eta : kd_sampler_ends_above_zero(s) ? 0 : 1;
}

bool kd_sampler_draws(const kd_sampler *s, const kd_sampler_opts *o)
{
    if (s->noise == KD_NOISE_NONE || o->s_noise == 0) return false;
    return kd_sampler_uses(s, "s_churn") ? o->s_churn > 0 : !kd_sampler_uses(s, "eta") || kd_sampler_eta(s, o) > 0;
}

char *kd_sampler_options(const kd_sampler *s, const kd_sampler_opts *o, char *buf, size_t room)
{
    const double order = o->order ? (double)o->order : s->run == kd_dpm_adaptive ? 3 : 4;
    const struct { const char *name; double v; } numbers[] = {
        { "order", order }, { "rtol", o->rtol }, { "atol", o->atol }, { "h_init", o->h_init }, { "pcoeff", o->pcoeff },
        { "icoeff", o->icoeff }, { "dcoeff", o->dcoeff }, { "accept_safety", o->accept_safety }, { "eta", kd_sampler_eta(s, o) },
        { "s_churn", o->s_churn }, { "s_tmin", o->s_tmin }, { "s_tmax", o->s_tmax }, { "s_noise", o->s_noise }, { "r", o->r } };
    size_t at = 0;
    buf[0] = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (kd_sampler_uses(s, numbers[i].name) && at < room)
            at += (size_t)snprintf(buf + at, room - at, "%s%s=%.9g", at ? " " : "", numbers[i].name, numbers[i].v);
    if (kd_sampler_uses(s, "solver") && at < room) at += (size_t)snprintf(buf + at, room - at, " solver=%s", o->solver);
    if (kd_sampler_uses(s, "error_norm") && at < room) snprintf(buf + at, room - at, " error_norm=%s", o->batch_norm ? "batch" : "image");
    return buf;
}

// Vectors ----------------------------------------------------------------------------------------------------------

int kd_run_buffer(kd_sampler_run *r, float **v, kd_err *err)
{
    assert(r->buffers < KD_RUN_BUFFERS);
    *v = kd_alloc((size_t)(r->n * r->size) * sizeof **v);
    if (!*v) return kd_fail_memory(err, "the sampler's vectors");
    r->buffer[r->buffers++] = *v;
    return 0;
}

void kd_run_mix(const kd_sampler_run *r, float *out, double a, const float *x, double b, const float *y)
{
    const int64_t n = r->n * r->size;
    for (int64_t i = 0; i < n; i++) out[i] = (float)(a * x[i] + b * y[i]);
}

static bool is_finite(const float *x, int64_t n)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad += !isfinite(x[i]);
    return !bad;
}

// Whether a denoiser can be asked about it: more than a hundred times what the highest level allows is no image with noise.
static bool is_sane(const float *x, int64_t n)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad += !(fabsf(x[i]) <= 100 * (float)KD_SIGMA_MOST);
    return !bad;
}

// " (step 7 of 20)"; dpm_adaptive's images have no common step
static const char *step_text(const kd_sampler_run *r, char buf[64])
{
    buf[0] = 0;
    if (r->s->sampler->run != kd_dpm_adaptive)
        snprintf(buf, 64, " (step %lld of %lld)", (long long)(r->step < r->steps ? r->step + 1 : r->steps), (long long)r->steps);
    return buf;
}

static int fail_not_sane(const kd_sampler_run *r, double s, kd_err *err)
{
    char step[64];
    return kd_fail(err, KD_EFAIL, "the images grew without bound on the way to sigma %g%s: levels too far apart, or an option of "
                   "the sampler or the guidance too large", s, step_text(r, step));
}

static int show(kd_sampler_run *r, int64_t m, const float *D, kd_err *err)
{
    for (int64_t j = 0; r->s->watch && j < m; j++) {
        const int64_t image = r->image[j], step = r->taken ? r->taken[image] : r->step;
        if (step < r->shown[image]) continue;
        r->shown[image] = step + 1;
        KD_TRY(r->s->watch(r->s->arg, image, step, D + j * r->size, err));
    }
    return 0;
}

int kd_run_denoise_some(kd_sampler_run *r, int64_t m, float *D, const float *x, kd_err *err)
{
    char step[64];
    for (int64_t i = 0; i < m; i++)
        if (!is_sane(x + i * r->size, r->size)) return fail_not_sane(r, r->sigma[i], err);
    KD_TRY(r->s->call(r->s->arg, m, r->image, r->sigma, x, D, err));
    for (int64_t i = 0; i < m; i++) {
        r->calls[r->image[i]]++;
        if (!is_finite(D + i * r->size, r->size))
            return kd_fail(err, KD_EFAIL, "denoiser gave NaN or infinity at sigma %g%s", (double)r->sigma[i], step_text(r, step));
    }
    return show(r, m, D, err);
}

int kd_run_denoise(kd_sampler_run *r, float *D, const float *x, double s, kd_err *err)
{
    for (int64_t i = 0; i < r->n; i++) r->image[i] = i, r->sigma[i] = (float)s;
    return kd_run_denoise_some(r, r->n, D, x, err);
}

int kd_run_slope(kd_sampler_run *r, float *d, const float *x, double s, kd_err *err)
{
    KD_TRY(kd_run_denoise(r, d, x, s, err));
    kd_run_mix(r, d, 1 / s, x, -1 / s, d);
    return 0;
}

// Noise ------------------------------------------------------------------------------------------------------------

int kd_run_add_noise(kd_sampler_run *r, float *x, double factor, int64_t request, double from, double to, float *z, kd_err *err)
{
    if (factor == 0) return 0;
    KD_TRY(r->noise->draw(r->noise->arg, request, from, to, 0, r->n, r->size, z, err));
    kd_run_mix(r, x, 1, x, factor, z);
    return 0;
}

int kd_run_churn(kd_sampler_run *r, double s, double *raised, float *z, kd_err *err)
{
    const kd_sampler_opts *o = r->o;
    const double gamma = o->s_tmin <= s && s <= o->s_tmax ? fmin(o->s_churn / (double)r->steps, sqrt(2) - 1) : 0;
    *raised = s * (1 + gamma);
    return kd_run_add_noise(r, r->x, o->s_noise * sqrt(*raised * *raised - s * s), r->step, s, *raised, z, err);
}

kd_ancestral kd_ancestral_of(double a, double b, double eta)
{
    if (eta == 0) return (kd_ancestral){ b, 0 };
    const double up = fmin(b, eta * sqrt(b * b * (a * a - b * b) / (a * a)));
    return (kd_ancestral){ sqrt(b * b - up * up), up };
}

double kd_run_lowest(const float *sigmas, int64_t steps) { return sigmas[steps] > 0 ? sigmas[steps] : sigmas[steps - 1]; }

// Runs -------------------------------------------------------------------------------------------------------------

static int check_adaptive(const kd_sampler_opts *o, kd_err *err)
{
    const struct { const char *name; double v; } numbers[] = { { "rtol", o->rtol }, { "atol", o->atol }, { "pcoeff", o->pcoeff },
                                                                { "icoeff", o->icoeff }, { "dcoeff", o->dcoeff } };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isfinite(numbers[i].v) || numbers[i].v < 0)
            return kd_fail(err, KD_EUSAGE, "%s: expected a number from 0, got %g", numbers[i].name, numbers[i].v);
    if (!isfinite(o->h_init) || o->h_init <= 0) return kd_fail(err, KD_EUSAGE, "h_init: expected a number above 0, got %g", o->h_init);
    if (!(o->accept_safety > 0 && o->accept_safety < 1 + M_PI_2))      // what no step's factor reaches would accept none
        return kd_fail(err, KD_EUSAGE, "accept_safety: expected a number above 0, below 1 + pi/2, got %g", o->accept_safety);
    if (o->max_calls < 1) return kd_fail(err, KD_EUSAGE, "max_calls: expected at least 1, got %lld", (long long)o->max_calls);
    return 0;
}

static int check_options(const kd_sampler *s, const kd_sampler_opts *o, kd_err *err)
{
    const bool adaptive = s->run == kd_dpm_adaptive;
    const int64_t lowest = adaptive ? 2 : 1, highest = adaptive ? 3 : KD_LMS_MAX_ORDER;
    if (!isfinite(o->eta) || o->eta < 0) return kd_fail(err, KD_EUSAGE, "eta: expected a number from 0, got %g", o->eta);
    if (!isfinite(o->s_churn) || o->s_churn < 0)
        return kd_fail(err, KD_EUSAGE, "s_churn: expected a number from 0, got %g", o->s_churn);
    if (!(fabs(o->s_noise) <= 1e6)) return kd_fail(err, KD_EUSAGE, "s_noise: expected a number up to 1e6, got %g", o->s_noise);
    if (!(o->s_tmin <= o->s_tmax))
        return kd_fail(err, KD_EUSAGE, "s_tmin: expected a level up to s_tmax (%g), got %g", o->s_tmax, o->s_tmin);
    if (o->order && (o->order < lowest || o->order > highest))
        return kd_fail(err, KD_EUSAGE, "order: expected %lld to %lld, got %lld", (long long)lowest, (long long)highest,
                       (long long)o->order);
    if (strcmp(o->solver, "midpoint") && strcmp(o->solver, "heun"))
        return kd_fail(err, KD_EUSAGE, "solver: expected midpoint or heun, got '%s'", o->solver);
    // Its second call's weight is 1/(2r): a smaller r has only rounding errors to weigh.
    if (!(o->r >= 1e-3 && o->r <= 1)) return kd_fail(err, KD_EUSAGE, "r: expected a number from 0.001 to 1, got %g", o->r);
    return check_adaptive(o, err);
}

int kd_sample_with(const kd_sampling *s, int64_t n, int64_t size, const kd_noise *noise, float *x, int64_t *calls, kd_err *err)
{
    kd_sampler_opts o = *s->o;
    o.eta = kd_sampler_eta(s->sampler, &o);
    KD_TRY(check_options(s->sampler, &o, err));
    if (s->steps < 1) return kd_fail(err, KD_EUSAGE, "steps: expected at least 1, got %lld", (long long)s->steps);
    if (n == 0) return 0;
    const size_t rows = (size_t)n + 1;
    kd_sampler_run r = { .s = s, .o = &o, .sigmas = s->sigmas, .steps = s->steps, .n = n, .size = size, .x = x, .noise = noise,
                         .calls = kd_alloc(rows * sizeof *r.calls), .image = kd_alloc(rows * sizeof *r.image),
                         .sigma = kd_alloc(rows * sizeof *r.sigma), .shown = kd_alloc(rows * sizeof *r.shown) };
    int code = !r.calls || !r.image || !r.sigma || !r.shown ? kd_fail_memory(err, "the sampler's vectors") : s->sampler->run(&r, err);
    if (!code && !is_sane(x, n * size)) code = fail_not_sane(&r, s->sigmas[s->steps], err);
    if (calls && r.calls) memcpy(calls, r.calls, (size_t)n * sizeof *calls);
    for (int i = 0; i < r.buffers; i++) kd_free(r.buffer[i]);
    kd_free(r.calls);
    kd_free(r.image);
    kd_free(r.sigma);
    kd_free(r.shown);
    return code;
}
