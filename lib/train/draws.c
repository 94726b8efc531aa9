#include "train/draws.h"
#include "base/io.h"
#include "base/memory.h"
#include "diffusion/sampler.h"
#include "diffusion/sigmas.h"
#include "train/trainer_state.h"

enum { STEPS = 50 };

struct kd_draws {
    const kd_trainer *t;
    kd_denoiser *d;
    int64_t size;                      // pixels of an image, times channels
    float *x;
    int64_t *class_cond;
    kd_draw *noise;
};

int kd_draws_open(kd_draws **to, kd_trainer *t, int64_t n, kd_err *err)
{
    KD_TRY(kd_trainer_finish(t, err));
    kd_draws *w = kd_alloc(sizeof *w);
    if (!w) return kd_fail_memory(err, "drawn images");
    w->t = t;
    w->size = t->c->size[0] * t->c->size[1] * t->c->channels;
    w->x = kd_alloc((size_t)(n * w->size) * sizeof *w->x);
    w->class_cond = kd_alloc((size_t)n * sizeof *w->class_cond);
    w->noise = kd_alloc((size_t)n * sizeof *w->noise);
    if (!w->x || !w->class_cond || !w->noise) kd_fail_memory(err, "drawn images");
    else kd_denoiser_around(&w->d, t->c, t->ps, t->s.ema, t->be, err);
    if (err->code) kd_draws_close(w);
    else *to = w;
    return err->code;
}

void kd_draws_close(kd_draws *w)
{
    if (!w) return;
    kd_denoiser_free(w->d);
    kd_free(w->x), kd_free(w->class_cond), kd_free(w->noise);
    kd_free(w);
}

static int call(void *arg, int64_t n, const int64_t *image, const float *sigma, const float *x, float *out, kd_err *err)
{
    kd_draws *w = arg;
    const kd_cond cond = { .class_cond = w->class_cond };
    if (kd_interrupted()) return kd_fail_interrupted(err);           // 50 calls of a large model take long
    (void)image;                       // all of them: the sampler's steps are fixed
    return kd_denoise_on(w->d, n, x, sigma, &cond, out, err);
}

// The peer's sampler for demos and evaluations.
static const kd_sampler *sampler_of(kd_sampler_opts *o)
{
    *o = kd_sampler_defaults();
    o->eta = 0;
    o->solver = "heun";
    return kd_sampler_find("dpmpp_2m_sde");
}

int kd_draws_make(kd_draws *w, int64_t first, int64_t n, const float **x, kd_err *err)
{
    const kd_config *c = w->t->c;
    float sigmas[STEPS + 1];
    kd_sampler_opts o;
    const kd_sampling s = { .be = w->t->be, .sampler = sampler_of(&o), .o = &o, .sigmas = sigmas, .steps = STEPS, .call = call, .arg = w };
    KD_TRY(kd_sigmas_karras(sigmas, STEPS, c->sigma_min, c->sigma_max, 7, err));
    for (int64_t i = 0; i < n; i++) {
        w->noise[i] = (kd_draw){ w->t->o.seed, (uint64_t)(first + i) };
        w->class_cond[i] = c->classes ? (first + i) % c->classes : 0;
        kd_sample_start(w->x + i * w->size, w->size, w->noise[i], sigmas[0]);
    }
    *x = w->x;
    return kd_sample(&s, n, w->size, w->noise, w->x, NULL, err);
}

int kd_draws_bytes(int64_t *bytes, kd_trainer *t, int64_t n, kd_err *err)
{
    kd_sampler_opts o;
    kd_draws *w;
    KD_TRY(kd_draws_open(&w, t, n, err));
    const int64_t host = n * (w->size * (int64_t)sizeof *w->x + (int64_t)(sizeof *w->class_cond + sizeof *w->noise));
    const int64_t vectors = kd_sampler_bytes(sampler_of(&o), &o, n, w->size) - (t->be->adopt ? n * w->size * (int64_t)sizeof *w->x : 0);
    const int code = kd_denoiser_plan(w->d, n, NULL, err);
    *bytes = kd_denoiser_bytes(w->d) + vectors + host;
    kd_draws_close(w);
    return code;
}
