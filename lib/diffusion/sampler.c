// The list of samplers and a run of one: options, noise sources, vector helpers. The samplers themselves are in euler.c,
// lms.c and dpmpp.c; read run.h before them.
#include "diffusion/run.h"
#include "diffusion/brownian.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include <assert.h>
#include <math.h>
#include <string.h>

static const kd_sampler samplers[] = {
    { "dpmpp_2m", "DPM-Solver++(2M): second order, one call a step, no noise", KD_NOISE_NONE, 1, kd_dpmpp_2m },
    { "dpmpp_2m_sde", "DPM-Solver++(2M) SDE, with noise (--eta, --s-noise, --solver)", KD_NOISE_BROWNIAN, 1, kd_dpmpp_2m_sde },
    { "euler", "Euler, with churn (--s-churn, --s-tmin, --s-tmax, --s-noise)", KD_NOISE_STEP, 1, kd_euler },
    { "euler_ancestral", "Euler with ancestral noise (--eta, --s-noise)", KD_NOISE_STEP, 1, kd_euler_ancestral },
    { "heun", "Heun, second order, two calls a step, with churn as euler", KD_NOISE_STEP, 2, kd_heun },
    { "lms", "linear multistep (--order)", KD_NOISE_NONE, 1, kd_lms },
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

int64_t kd_sampler_calls(const kd_sampler *s, int64_t steps) { return s->calls * (steps - 1) + 1; }

kd_sampler_opts kd_sampler_defaults(void)
{
    return (kd_sampler_opts){ .eta = 1, .s_churn = 0, .s_tmin = 0, .s_tmax = INFINITY, .s_noise = 1, .order = 4,
                              .solver = "midpoint" };
}

int kd_sigmas_karras(float *out, int64_t n, double smin, double smax, double rho, kd_err *err)
{
    if (n < 1) return kd_fail(err, KD_EUSAGE, "steps: expected at least 1, got %lld", (long long)n);
    if (!isnormal((float)smin) || smin <= 0)
        return kd_fail(err, KD_EUSAGE, "sigma_min: expected a number above 0, got %g", smin);
    if (!isnormal((float)smax) || smax < smin)
        return kd_fail(err, KD_EUSAGE, "sigma_max: expected a number, at least sigma_min (%g), got %g", smin, smax);
    if (!isfinite(rho) || rho <= 0) return kd_fail(err, KD_EUSAGE, "rho: expected a number above 0, got %g", rho);
    const double high = pow(smax, 1 / rho), low = pow(smin, 1 / rho);
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)pow(high + (n > 1 ? (double)i / (double)(n - 1) : 0) * (low - high), rho);
    out[n] = 0;
    return 0;
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

int kd_run_denoise(kd_sampler_run *r, float *D, const float *x, double s, kd_err *err)
{
    KD_TRY(r->call(r->arg, r->n, (float)s, x, D, err));
    r->calls++;
    const int64_t n = r->n * r->size;
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad += !isfinite(D[i]);
    if (bad)
        return kd_fail(err, KD_EFAIL, "denoiser gave NaN or infinity at sigma %g (step %lld of %lld)", s,
                       (long long)r->step + 1, (long long)r->steps);
    return 0;
}

int kd_run_slope(kd_sampler_run *r, float *d, const float *x, double s, kd_err *err)
{
    KD_TRY(kd_run_denoise(r, d, x, s, err));
    kd_run_mix(r, d, 1 / s, x, -1 / s, d);
    return 0;
}

int kd_run_add_noise(kd_sampler_run *r, float *x, double factor, double from, double to, float *z, kd_err *err)
{
    if (factor == 0) return 0;
    KD_TRY(r->noise->draw(r->noise->arg, r->step, from, to, r->n, r->size, z, err));
    kd_run_mix(r, x, 1, x, factor, z);
    return 0;
}

// Runs -------------------------------------------------------------------------------------------------------------

static int check_options(const kd_sampler_opts *o, kd_err *err)
{
    if (!isfinite(o->eta) || o->eta < 0) return kd_fail(err, KD_EUSAGE, "eta: expected a number from 0, got %g", o->eta);
    if (!isfinite(o->s_churn) || o->s_churn < 0)
        return kd_fail(err, KD_EUSAGE, "s_churn: expected a number from 0, got %g", o->s_churn);
    if (!isfinite(o->s_noise)) return kd_fail(err, KD_EUSAGE, "s_noise: expected a number, got %g", o->s_noise);
    if (o->order < 1 || o->order > KD_LMS_MAX_ORDER)
        return kd_fail(err, KD_EUSAGE, "order: expected 1 to %d, got %lld", KD_LMS_MAX_ORDER, (long long)o->order);
    if (strcmp(o->solver, "midpoint") && strcmp(o->solver, "heun"))
        return kd_fail(err, KD_EUSAGE, "solver: expected midpoint or heun, got '%s'", o->solver);
    return 0;
}

int kd_sample_with(const kd_sampler *s, const kd_sampler_opts *o, kd_denoise_call call, void *arg, const float *sigmas,
                   int64_t steps, int64_t n, int64_t size, const kd_noise *noise, float *x, int64_t *calls, kd_err *err)
{
    KD_TRY(check_options(o, err));
    if (steps < 1) return kd_fail(err, KD_EUSAGE, "steps: expected at least 1, got %lld", (long long)steps);
    kd_sampler_run r = { .o = o, .sigmas = sigmas, .steps = steps, .n = n, .size = size, .x = x, .call = call, .arg = arg,
                         .noise = noise };
    const int code = s->run(&r, err);
    if (calls) *calls = r.calls;
    for (int i = 0; i < r.buffers; i++) kd_free(r.buffer[i]);
    return code;
}

// Noise from counters, image by image -------------------------------------------------------------------------------

typedef struct source {
    const kd_draw *draw;               // [n]
    kd_noise_kind kind;
    double low, high;                  // the Brownian path's ends
    float *scratch;                    // [threads, size]
    // the present request
    int64_t step, size; double from, to; float *z;
} source;

static void draw_image(void *arg, int64_t k, int thread)
{
    const source *s = arg;
    float *z = s->z + k * s->size;
    if (s->kind == KD_NOISE_BROWNIAN) {
        const kd_brownian w = { s->draw[k].seed, s->draw[k].index, s->low, s->high };
        kd_brownian_noise(&w, s->from, s->to, z, s->size, s->scratch + thread * s->size);
    } else {
        const kd_rng r = kd_rng_of(s->draw[k].seed, KD_RNG_STEP, 0, s->draw[k].index, (uint32_t)s->step);
        kd_rng_normal(&r, z, 0, s->size);
    }
}

static int draw_images(void *arg, int64_t step, double from, double to, int64_t n, int64_t size, float *z, kd_err *err)
{
    source *s = arg;
    (void)err;
    s->step = step, s->from = from, s->to = to, s->size = size, s->z = z;
    kd_parallel(n, draw_image, s);
    return 0;
}

int kd_sample(const kd_sampler *s, const kd_sampler_opts *o, kd_denoise_call call, void *arg, const float *sigmas, int64_t steps,
              int64_t n, int64_t size, const kd_draw *draw, float *x, int64_t *calls, kd_err *err)
{
    if (steps < 1) return kd_fail(err, KD_EUSAGE, "steps: expected at least 1, got %lld", (long long)steps);
    source from = { .draw = draw, .kind = s->noise, .low = sigmas[steps - 1], .high = sigmas[0] };
    const kd_noise noise = { draw_images, &from };
    if (s->noise == KD_NOISE_BROWNIAN) {
        from.scratch = kd_alloc((size_t)kd_threads() * (size_t)size * sizeof *from.scratch);
        if (!from.scratch) return kd_fail_memory(err, "the sampler's noise");
    }
    const int code = kd_sample_with(s, o, call, arg, sigmas, steps, n, size, &noise, x, calls, err);
    kd_free(from.scratch);
    return code;
}

void kd_sample_start(float *x, int64_t size, kd_draw draw, float sigma)
{
    const kd_rng r = kd_rng_of(draw.seed, KD_RNG_START, 0, draw.index, 0);
    kd_rng_normal(&r, x, 0, size);
    for (int64_t i = 0; i < size; i++) x[i] *= sigma;
}
