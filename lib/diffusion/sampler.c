// The list of samplers and a run of one: options and vector helpers. The samplers themselves are in euler.c, dpm_2.c, lms.c,
// dpm_solver.c, ddim.c, dpmpp.c and dpmpp_single.c; read run.h before them.
#include "diffusion/run.h"
#include "diffusion/sigmas.h"
#include "base/memory.h"
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kd_sampler samplers[] = {
    { "dpmpp_2m", "DPM-Solver++(2M): second order, one call per step, no noise", KD_NOISE_NONE, 1, true, 2, "", kd_dpmpp_2m },
    { "dpmpp_2m_sde", "DPM-Solver++(2M) SDE, adds noise (--eta, --s-noise, --solver)", KD_NOISE_BROWNIAN, 1, false, 3,
      "eta s_noise solver", kd_dpmpp_2m_sde },
    { "dpmpp_3m_sde", "DPM-Solver++(3M) SDE, adds noise (--eta, --s-noise)", KD_NOISE_BROWNIAN, 1, false, 4,
      "eta s_noise", kd_dpmpp_3m_sde },
    { "dpmpp_sde", "DPM-Solver++ SDE, two calls per step, adds noise (--eta, --s-noise, --r)", KD_NOISE_BROWNIAN, 2, false, 3,
      "eta s_noise r", kd_dpmpp_sde },
    { "dpmpp_2s_ancestral", "DPM-Solver++(2S), two calls per step, adds ancestral noise (--eta, --s-noise)", KD_NOISE_STEP, 2, false,
      2, "eta s_noise", kd_dpmpp_2s_ancestral },
    { "euler", "Euler, may add noise (--s-churn, --s-tmin, --s-tmax, --s-noise)", KD_NOISE_STEP, 1, true, 1,
      "s_churn s_tmin s_tmax s_noise", kd_euler },
    { "euler_ancestral", "Euler, adds ancestral noise (--eta, --s-noise)", KD_NOISE_STEP, 1, false, 1, "eta s_noise", kd_euler_ancestral },
    { "heun", "Heun: second order, two calls per step, may add noise as euler does", KD_NOISE_STEP, 2, true, 3,
      "s_churn s_tmin s_tmax s_noise", kd_heun },
    { "dpm_2", "DPM-Solver-2: second order, two calls per step, may add noise as euler does", KD_NOISE_STEP, 2, true, 2,
      "s_churn s_tmin s_tmax s_noise", kd_dpm_2 },
    { "dpm_2_ancestral", "DPM-Solver-2, two calls per step, adds ancestral noise (--eta, --s-noise)", KD_NOISE_STEP, 2, false, 2,
      "eta s_noise", kd_dpm_2_ancestral },
    { "dpm_fast", "DPM-Solver-fast: orders 3, 2, 1, --steps calls in total, ends at sigma_min (--eta, --s-noise)", KD_NOISE_STEP, 0,
      false, 5, "eta s_noise", kd_dpm_fast },
    { "dpm_adaptive", "DPM-Solver-12 or 23: step size by --rtol and --atol, ends at sigma_min (--order, --eta)", KD_NOISE_STEP, 0, false, 9,
      "order rtol atol h_init pcoeff icoeff dcoeff accept_safety max_calls error_norm eta s_noise", kd_dpm_adaptive },
    { "ddim", "DDIM: first order, no noise", KD_NOISE_NONE, 1, true, 2, "", kd_ddim },
    { "ddpm", "DDPM: adds noise as in its paper (--s-noise)", KD_NOISE_STEP, 1, false, 2, "s_noise", kd_ddpm },
    { "lms", "Linear multistep (--order)", KD_NOISE_NONE, 1, true, 0, "order", kd_lms },
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

static int64_t lms_order(const kd_sampler_opts *o) { return o->order ? o->order : 4; }

char *kd_sampler_options(const kd_sampler *s, const kd_sampler_opts *o, char *buf, size_t room)
{
    const double order = s->run == kd_dpm_adaptive && !o->order ? 3 : (double)lms_order(o);
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

size_t kd_run_bytes(const kd_sampler_run *r) { return (size_t)(r->n * r->size) * sizeof *r->x; }

int64_t kd_sampler_bytes(const kd_sampler *s, const kd_sampler_opts *o, int64_t n, int64_t size)
{
    return (n + 1) * (int64_t)sizeof(int64_t) + (1 + (s->vectors ? s->vectors : lms_order(o))) * n * size * (int64_t)sizeof(float);
}

int kd_run_buffer(kd_sampler_run *r, float **v, kd_err *err)
{
    assert(r->buffers < KD_RUN_BUFFERS);
    KD_TRY(r->be->alloc(r->be, (void **)v, kd_run_bytes(r), err));
    r->buffer[r->buffers++] = *v;
    return 0;
}

void kd_run_mix(const kd_sampler_run *r, float *out, double a, const float *x, double b, const float *y)
{
    if (!r->err->code) kd_vec_mix(r->vec, r->n * r->size, out, a, x, b, y, r->err);
}

int kd_run_copy(const kd_sampler_run *r, float *to, const float *from, kd_err *err)
{
    return r->be->copy(r->be, to, from, kd_run_bytes(r), err);
}

// Checks -----------------------------------------------------------------------------------------------------------

// More than a hundred times what the highest level allows is no image with noise.
static const double SANE = 100 * (double)(float)KD_SIGMA_MOST, FINITE = FLT_MAX;
// Calls after which a backend that works while we go on is waited for.
enum { LOOK_EVERY = 16 };

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

static int fail_check(kd_sampler_run *r, int64_t code, kd_err *err)
{
    const struct kd_asked *a = &r->asked[(code - 1) / 2];
    char step[64];
    r->step = a->step;
    if (code % 2) return fail_not_sane(r, a->sigma, err);
    return kd_fail(err, KD_EFAIL, "denoiser gave NaN or infinity at sigma %g%s", a->sigma, step_text(r, step));
}

// Waits, and fails if a check did. image, sigma [m]: of the latest call.
static int look(kd_sampler_run *r, int64_t m, kd_err *err)
{
    int64_t first = 0;
    KD_TRY(r->be->download(r->be, r->failed_host, r->failed, (size_t)r->n * sizeof *r->failed, err));
    for (int64_t j = 0; j < m; j++) {
        const int64_t code = r->failed_host[j];
        if (!code || (first && code >= first)) continue;
        first = code;
        if ((code - 1) / 2 == r->n_asked - 1) r->asked[r->n_asked - 1].sigma = r->sigma[j];
    }
    if (first) return fail_check(r, first, err);
    r->n_asked = 0;
    return 0;
}

static int note_call(kd_sampler_run *r, kd_err *err)
{
    if (r->n_asked == r->room_asked) {
        const int64_t room = 2 * r->room_asked + LOOK_EVERY;
        struct kd_asked *more = kd_realloc(r->asked, (size_t)room * sizeof *more);
        if (!more) return kd_fail_memory(err, "the sampler's calls");
        r->asked = more, r->room_asked = room;
    }
    r->asked[r->n_asked++] = (struct kd_asked){ r->sigma[0], r->step };
    return 0;
}

static int show(kd_sampler_run *r, int64_t m, float *D, kd_err *err)
{
    void *host;
    if (!r->s->watch) return 0;
    KD_TRY(r->be->map(r->be, D, (size_t)(m * r->size) * sizeof *D, KD_MAP_READ, &host, err));
    for (int64_t j = 0; j < m && !err->code; j++) {
        const int64_t image = r->image[j], step = r->taken ? r->taken[image] : r->step;
        if (step < r->shown[image]) continue;
        r->shown[image] = step + 1;
        r->s->watch(r->s->arg, image, step, (float *)host + j * r->size, err);
    }
    r->be->unmap(r->be, host, err);
    return err->code;
}

int kd_run_denoise_some(kd_sampler_run *r, int64_t m, float *D, const float *x, kd_err *err)
{
    // Images at times of their own are looked at each time anyway.
    if (err->code) return err->code;                       // a vector helper's
    const bool later = r->be->async && !r->taken && !r->s->watch;
    KD_TRY(note_call(r, err));
    const int64_t code = 2 * (r->n_asked - 1);
    KD_TRY(kd_vec_check(r->vec, m, r->size, r->failed, x, SANE, code + 1, err));
    if (!later) KD_TRY(look(r, m, err));
    if (!later) KD_TRY(note_call(r, err));
    KD_TRY(r->s->call(r->s->arg, m, r->image, r->sigma, x, D, err));
    for (int64_t i = 0; i < m; i++) r->calls[r->image[i]]++;
    KD_TRY(kd_vec_check(r->vec, m, r->size, r->failed, D, FINITE, 2 * (r->n_asked - 1) + 2, err));
    if (!later || r->n_asked >= LOOK_EVERY) KD_TRY(look(r, m, err));
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
    KD_TRY(r->noise->draw(r->noise->arg, r->vec, request, from, to, 0, r->n, r->size, z, err));
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

static int run_new(kd_sampler_run *r, kd_err *err)
{
    const size_t rows = (size_t)r->n + 1;
    r->calls = kd_alloc(rows * sizeof *r->calls);
    r->image = kd_alloc(rows * sizeof *r->image);
    r->sigma = kd_alloc(rows * sizeof *r->sigma);
    r->shown = kd_alloc(rows * sizeof *r->shown);
    r->failed_host = kd_alloc(rows * sizeof *r->failed_host);
    if (!r->calls || !r->image || !r->sigma || !r->shown || !r->failed_host) return kd_fail_memory(err, "the sampler's vectors");
    return r->be->alloc(r->be, (void **)&r->failed, rows * sizeof *r->failed, err);
}

static void run_free(kd_sampler_run *r)
{
    for (int i = 0; i < r->buffers; i++) r->be->free(r->be, r->buffer[i]);
    if (r->failed) r->be->free(r->be, r->failed);
    kd_vec_free(r->vec);
    void *blocks[] = { r->calls, r->image, r->sigma, r->shown, r->failed_host };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) kd_free(blocks[i]);
    free(r->asked);
}

// The samples must be sane as well: what was not looked at yet fails first.
static int finish(kd_sampler_run *r, kd_err *err)
{
    const float last = r->s->sigmas[r->s->steps];
    if (err->code) return err->code;
    for (int64_t i = 0; i < r->n; i++) r->sigma[i] = last;
    KD_TRY(note_call(r, err));
    r->asked[r->n_asked - 1].step = r->steps;
    KD_TRY(kd_vec_check(r->vec, r->n, r->size, r->failed, r->x, SANE, 2 * (r->n_asked - 1) + 1, err));
    return look(r, r->n, err);
}

int kd_sample_with(const kd_sampling *s, int64_t n, int64_t size, const kd_noise *noise, float *x, int64_t *calls, kd_err *err)
{
    kd_sampler_opts o = *s->o;
    o.eta = kd_sampler_eta(s->sampler, &o);
    KD_TRY(check_options(s->sampler, &o, err));
    if (s->steps < 1) return kd_fail(err, KD_EUSAGE, "steps: expected at least 1, got %lld", (long long)s->steps);
    if (n == 0) return 0;
    kd_sampler_run r = { .s = s, .o = &o, .sigmas = s->sigmas, .steps = s->steps, .n = n, .size = size, .noise = noise, .be = s->be,
                         .vec = &(kd_vec){ .be = s->be }, .err = err };
    if (!run_new(&r, err) && !kd_backend_lend(s->be, x, kd_run_bytes(&r), (void **)&r.x, err)) {
        if (!s->sampler->run(&r, err)) finish(&r, err);
        if (!err->code && r.x != x) s->be->download(s->be, x, r.x, kd_run_bytes(&r), err);
        kd_backend_return(s->be, x, r.x);
    }
    if (calls && r.calls) memcpy(calls, r.calls, (size_t)n * sizeof *calls);
    run_free(&r);
    return err->code;
}
