#include "diffusion/loglik.h"
#include "diffusion/ode.h"
#include "diffusion/sigmas.h"
#include "base/io.h"
#include "base/memory.h"
#include "base/random.h"
#include <math.h>
#include <string.h>

kd_loglik_opts kd_loglik_defaults(void)
{
    return (kd_loglik_opts){ .sigma_min = 0.01, .sigma_max = 80, .rtol = 1e-4, .atol = 1e-4, .max_calls = 100000, .probes = 1 };
}

// A system's state is x and the integral of each probe's estimate.
typedef struct flow {
    kd_denoiser *d;
    const kd_loglik_opts *o;
    int64_t size;
    const int64_t *class_of;           // NULL, or of all images
    const float *probes;               // [n,probes,size]
    float *x, *D, *v, *vjp, *sigma;    // of a call
    int64_t *class_cond;
} flow;

static int check_finite(const flow *f, int64_t m, kd_err *err)
{
    for (int64_t e = 0; e < m * f->size; e++)
        if (!isfinite(f->D[e]) || !isfinite(f->vjp[e]))
            return kd_fail(err, KD_EFAIL, "denoiser gave NaN or infinity at sigma %g", (double)f->sigma[e / f->size]);
    return 0;
}

static int slope(void *arg, int64_t m, const int64_t *image, const double *t, const double *y, double *dy, kd_err *err)
{
    const flow *f = arg;
    const int64_t size = f->size, state = size + f->o->probes;
    if (kd_interrupted()) return kd_fail_interrupted(err);
    for (int64_t j = 0; j < m; j++) {
        f->sigma[j] = (float)exp(t[j]);
        if (f->class_of) f->class_cond[j] = f->class_of[image[j]];
        for (int64_t e = 0; e < size; e++) f->x[j * size + e] = (float)y[j * state + e];
    }
    const kd_cond cond = { .class_cond = f->class_of ? f->class_cond : NULL };
    for (int64_t k = 0; k < f->o->probes; k++) {
        for (int64_t j = 0; j < m; j++)
            memcpy(f->v + j * size, f->probes + (image[j] * f->o->probes + k) * size, (size_t)size * sizeof *f->v);
        KD_TRY(kd_denoise_vjp(f->d, m, f->x, f->sigma, &cond, f->v, f->D, f->vjp, err));
        KD_TRY(check_finite(f, m, err));
        for (int64_t j = 0; j < m; j++) {
            double sum = 0;
            for (int64_t e = j * size; e < (j + 1) * size; e++) sum += (double)f->v[e] * ((double)f->v[e] - f->vjp[e]);
            dy[j * state + size + k] = sum;
        }
    }
    for (int64_t j = 0; j < m; j++)
        for (int64_t e = 0; e < size; e++) dy[j * state + e] = y[j * state + e] - f->D[j * size + e];
    if (f->o->tick) f->o->tick(f->o->arg);
    return 0;
}

static int check(const kd_loglik_opts *o, kd_err *err)
{
    KD_TRY(kd_sigma_check_ends(o->sigma_min, o->sigma_max, err));
    if (!(o->rtol >= 0 && o->atol >= 0 && isfinite(o->rtol) && isfinite(o->atol)))
        return kd_fail(err, KD_EUSAGE, "rtol, atol: expected numbers from 0, got %g and %g", o->rtol, o->atol);
    if (o->probes < 1 || o->probes >= 1 << 24) return kd_fail(err, KD_EUSAGE, "probes: expected 1 to 2^24 - 1");
    return 0;
}

int kd_loglik(kd_denoiser *d, const kd_loglik_opts *o, int64_t n, const float *x, const int64_t *class_cond, const float *v, double *nats,
              int64_t *calls, kd_err *err)
{
    const kd_config *c = kd_denoiser_model(d)->config;
    const int64_t size = c->size[0] * c->size[1] * c->channels, state = size + o->probes;
    KD_TRY(check(o, err));
    float *block = kd_alloc((size_t)(n * (4 * size + 1) + 1) * sizeof *block);
    double *y = kd_alloc((size_t)(n * state + 1) * sizeof *y);
    int64_t *classes = kd_alloc((size_t)(n + 1) * sizeof *classes);
    int code = block && y && classes ? 0 : kd_fail_memory(err, "the likelihood's vectors");
    if (code) goto done;
    flow f = { .d = d, .o = o, .size = size, .class_of = class_cond, .probes = v, .x = block, .D = block + n * size,
               .v = block + 2 * n * size, .vjp = block + 3 * n * size, .sigma = block + 4 * n * size, .class_cond = classes };
    const kd_ode ode = { .f = slope, .arg = &f, .rtol = o->rtol, .atol = o->atol, .part = size, .batch_norm = o->batch_norm,
                         .max_calls = o->max_calls, .name = "ln sigma" };
    for (int64_t j = 0; j < n; j++)
        for (int64_t e = 0; e < size; e++) y[j * state + e] = x[j * size + e];
    if ((code = kd_ode_dopri5(&ode, log(o->sigma_min), log(o->sigma_max), n, state, y, calls, err))) goto done;
    for (int64_t j = 0; j < n; j++) {
        double square = 0;
        for (int64_t e = 0; e < size; e++) square += y[j * state + e] * y[j * state + e];
        const double prior = -0.5 * square / (o->sigma_max * o->sigma_max) - (double)size * (log(o->sigma_max) + 0.5 * log(2 * M_PI));
        for (int64_t k = 0; k < o->probes; k++) nats[j * o->probes + k] = prior + y[j * state + size + k];
    }
done:
    kd_free(block);
    kd_free(y);
    kd_free(classes);
    return code;
}

void kd_loglik_probes(float *v, int64_t probes, int64_t size, uint64_t seed, uint64_t index)
{
    for (int64_t k = 0; k < probes; k++) {
        const kd_rng r = kd_rng_of(seed, KD_RNG_PROBE, 0, index, (uint32_t)k);
        for (int64_t e = 0; e < size; e++) v[k * size + e] = kd_rng_u32(&r, (uint64_t)e) >> 31 ? 1 : -1;
    }
}

void kd_dequantize(float *x, const float *levels, int64_t size, uint64_t seed, uint64_t index)
{
    const kd_rng r = kd_rng_of(seed, KD_RNG_PROBE, 1, index, 0);
    for (int64_t e = 0; e < size; e++) {
        float u;
        kd_rng_uniforms(&r, &u, (uint64_t)e, 1);
        x[e] = (float)(levels[e] + (u - 0.5) * 2 / 255);
    }
}

double kd_bits_per_dim(double nats, int64_t size) { return (-nats / (double)size - log(2. / 255)) / log(2); }
