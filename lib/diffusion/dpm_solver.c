// DPM-Solver in the variable t = -ln sigma, with steps of order 1 to 3: dpm_fast has fixed ones, dpm_adaptive chooses them by
// an estimate of the error. Lu et al. 2022, arXiv:2206.00927, algorithms 1 to 3 and appendix C; eps = (x - D)/sigma is the
// slope dx/dsigma. Each image is at a time of its own, so that dpm_adaptive's error control can be each image's own.
#include "diffusion/run.h"
#include "base/memory.h"
#include <math.h>

// Images that are stepped together: image r->image[j] from t[j] to t1[j]. Vectors are [m,size].
typedef struct solver {
    kd_sampler_run *r;
    int64_t m;
    double *t, *t1;
    float *x, *e, *e1, *e2, *u;        // where they are, slopes there and between, a point between
} solver;

static double sigma(double t) { return exp(-t); }
static double phi(double h) { return h != 0 ? expm1(h) / h - 1 : 0; }

static int solver_new(solver *s, kd_sampler_run *r, double *times, kd_err *err)
{
    *s = (solver){ .r = r, .m = r->n, .t = times, .t1 = times + r->n };
    float **vectors[] = { &s->x, &s->e, &s->e1, &s->e2, &s->u };
    for (int i = 0; i < 5; i++) KD_TRY(kd_run_buffer(r, vectors[i], err));
    for (int64_t j = 0; j < r->n; j++) r->image[j] = j;
    return 0;
}

// Images j .. k - 1 step over the same times.
static int64_t alike(const solver *s, int64_t j)
{
    int64_t k = j + 1;
    while (k < s->m && s->t[k] == s->t[j] && s->t1[k] == s->t1[j]) k++;
    return k;
}

// out = x + a e + b (f - e) for images j .. k - 1; f may be NULL
static int combine(const solver *s, int64_t j, int64_t k, float *out, double a, double b, const float *f, kd_err *err)
{
    kd_sampler_run *r = s->r;
    const int64_t at = j * r->size;
    return kd_vec_advance(r->vec, (k - j) * r->size, out + at, s->x + at, a, s->e + at, b, f ? f + at : NULL, err);
}

// e = eps(at, t + c h)
static int slope(solver *s, float *e, const float *at, double c, kd_err *err)
{
    kd_sampler_run *r = s->r;
    for (int64_t j = 0; j < s->m; j++) r->sigma[j] = (float)sigma(s->t[j] + c * (s->t1[j] - s->t[j]));
    KD_TRY(kd_run_denoise_some(r, s->m, e, at, err));
    for (int64_t j = 0, k; j < s->m; j = k) {
        const double f = 1 / sigma(s->t[j] + c * (s->t1[j] - s->t[j]));
        k = alike(s, j);
        KD_TRY(kd_vec_mix(r->vec, (k - j) * r->size, e + j * r->size, f, at + j * r->size, -f, e + j * r->size, err));
    }
    return 0;
}

// The step to t + c h by the slope e at its start: order 1.
static int step_1(const solver *s, float *out, double c, kd_err *err)
{
    for (int64_t j = 0, k; j < s->m; j = k) {
        const double h = c * (s->t1[j] - s->t[j]);
        k = alike(s, j);
        KD_TRY(combine(s, j, k, out, -sigma(s->t[j] + h) * expm1(h), 0, NULL, err));
    }
    return 0;
}

// Order 2, with e1 the slope at t + c h.
static int step_2(const solver *s, float *out, double c, kd_err *err)
{
    for (int64_t j = 0, k; j < s->m; j = k) {
        const double h = s->t1[j] - s->t[j], f = -sigma(s->t1[j]) * expm1(h);
        k = alike(s, j);
        KD_TRY(combine(s, j, k, out, f, f / (2 * c), s->e1, err));
    }
    return 0;
}

// The step to t + c h by the slopes e and f, that at t + b c h: both parts of order 3.
static int step_3(const solver *s, float *out, double c, double b, const float *f, kd_err *err)
{
    for (int64_t j = 0, k; j < s->m; j = k) {
        const double h = c * (s->t1[j] - s->t[j]), s1 = sigma(s->t[j] + h);
        k = alike(s, j);
        KD_TRY(combine(s, j, k, out, -s1 * expm1(h), -s1 / b * phi(h), f, err));
    }
    return 0;
}

// e1, and for order 3 e2, from e. Order 2 on its own has its middle at 1/2, order 3 its points at 1/3 and 2/3.
static int slopes_between(solver *s, int order, kd_err *err)
{
    if (order < 2) return 0;
    const double c = order == 2 ? 1.0 / 2 : 1.0 / 3;
    KD_TRY(step_1(s, s->u, c, err));
    KD_TRY(slope(s, s->e1, s->u, c, err));
    if (order < 3) return 0;
    KD_TRY(step_3(s, s->u, 2.0 / 3, 1.0 / 2, s->e1, err));
    return slope(s, s->e2, s->u, 2.0 / 3, err);
}

static int step(const solver *s, float *out, int order, kd_err *err)
{
    if (order == 1) return step_1(s, out, 1, err);
    if (order == 2) return step_2(s, out, 1.0 / 2, err);
    return step_3(s, out, 1, 2.0 / 3, s->e2, err);
}

// Where a step from t to t1 ends by the ODE, so that noise `up` brings it to t1.
static double down_time(double t, double t1, double end, double eta, double *up)
{
    *up = 0;
    if (eta == 0) return t1;
    const double down = kd_ancestral_of(sigma(t), sigma(t1), eta).down;
    const double to = fmin(end, -log(down));
    *up = sqrt(fmax(0, sigma(t1) * sigma(t1) - sigma(to) * sigma(to)));
    return to;
}

// dpm_fast ---------------------------------------------------------------------------------------------------------

// `steps` calls: steps of order 3, and what is left over as one of order 1 or 2, or as 2 and 1.
static int fast(kd_sampler_run *r, solver *s, kd_err *err)
{
    const int64_t calls = r->steps, parts = calls / 3 + 1;
    const double start = -log(r->sigmas[0]), end = -log(kd_run_lowest(r->sigmas, r->steps));
    r->steps = parts;                                                  // for messages
    for (r->step = 0; r->step < parts; r->step++) {
        const double t = start + (end - start) * (double)r->step / (double)parts;
        const double t1 = start + (end - start) * (double)(r->step + 1) / (double)parts;
        const int64_t left = parts - 1 - r->step;
        const int order = calls % 3 ? (left ? 3 : (int)(calls % 3)) : left == 0 ? 1 : left == 1 ? 2 : 3;
        double up;
        const double to = down_time(t, t1, end, r->o->eta, &up);
        for (int64_t j = 0; j < r->n; j++) s->t[j] = t, s->t1[j] = to;
        KD_TRY(kd_run_copy(r, s->x, r->x, err));
        KD_TRY(slope(s, s->e, s->x, 0, err));
        KD_TRY(slopes_between(s, order, err));
        KD_TRY(step(s, r->x, order, err));
        KD_TRY(kd_run_add_noise(r, r->x, up * r->o->s_noise, r->step, sigma(t), sigma(t1), s->u, err));
    }
    return 0;
}

int kd_dpm_fast(kd_sampler_run *r, kd_err *err)
{
    solver s;
    double *times = kd_alloc((size_t)(2 * r->n) * sizeof *times + 1);
    int code = times ? solver_new(&s, r, times, err) : kd_fail_memory(err, "the sampler's vectors");
    if (!code) code = fast(r, &s, err);
    kd_free(times);
    return code;
}

// dpm_adaptive -----------------------------------------------------------------------------------------------------

// Where an image is, and the controller of its steps; with one error norm for the batch all images have one pace.
typedef struct pace {
    double t, h, inverse[3];           // the errors' inverses: of this step and the last two accepted
    double next, up;                   // the present step's end, and its noise
    double sum; int64_t count;         // of squared errors
    bool accept;
} pace;

// Soderlind's PID controller with the limiter 1 + atan(factor - 1): Soderlind 2003, "Digital filters in adaptive
// time-stepping"; the peer's constants.
static void control(pace *p, const kd_sampler_opts *o, int order)
{
    const double k = o->eta > 0 ? 1.5 : order, error = sqrt(p->sum / (double)p->count);
    const double b[] = { (o->pcoeff + o->icoeff + o->dcoeff) / k, -(o->pcoeff + 2 * o->dcoeff) / k, o->dcoeff / k };
    p->inverse[0] = isnan(error) ? 0 : 1 / (error + 1e-8);             // NaN: 0/0 under zero tolerances
    if (p->inverse[1] == 0) p->inverse[1] = p->inverse[2] = p->inverse[0];
    double factor = 1;
    for (int i = 0; i < 3; i++)
        if (b[i] != 0) factor *= pow(p->inverse[i], b[i]);
    factor = 1 + atan((isnan(factor) ? 0 : factor) - 1);
    p->accept = factor >= o->accept_safety;
    if (p->accept) p->inverse[2] = p->inverse[1], p->inverse[1] = p->inverse[0];
    p->h *= factor;
}

// Sum of ((low - high) / delta)^2 of an image.
static double squared_error(const float *low, const float *high, const float *before, int64_t size, const kd_sampler_opts *o)
{
    double sum = 0;
    for (int64_t i = 0; i < size; i++) {
        const double delta = fmax(o->atol, o->rtol * fmax(fabs(low[i]), fabs(before[i]))), e = ((double)low[i] - high[i]) / delta;
        sum += e * e;
    }
    return sum;
}

typedef struct adaptive {
    solver s;
    pace *pace;
    int64_t *taken;                    // [n], steps accepted
    float *low, *high, *before, *z;    // before: low of the last accepted step, [n,size]
    double end;
    int order;
} adaptive;

static pace *pace_of(const adaptive *a, int64_t image) { return &a->pace[a->s.r->o->batch_norm ? 0 : image]; }

// Gathers the images that are not at the end; plans their steps.
static int begin_round(adaptive *a, kd_err *err)
{
    kd_sampler_run *r = a->s.r;
    solver *s = &a->s;
    s->m = 0;
    for (int64_t i = 0; i < r->n; i++) {
        pace *p = pace_of(a, i);
        if (p->t >= a->end - 1e-5) continue;
        if (r->calls[i] + a->order > r->o->max_calls)
            return kd_fail(err, KD_EFAIL, "dpm_adaptive: %lld denoiser calls for an image, which is still at sigma %g: loosen rtol and "
                           "atol, or raise max_calls (%lld)", (long long)r->calls[i], sigma(p->t), (long long)r->o->max_calls);
        p->next = fmin(a->end, p->t + p->h);
        r->image[s->m] = i;
        s->t[s->m] = p->t, s->t1[s->m] = down_time(p->t, p->next, a->end, r->o->eta, &p->up);
        KD_TRY(r->be->copy(r->be, s->x + s->m++ * r->size, r->x + i * r->size, (size_t)r->size * sizeof *r->x, err));
        p->sum = 0, p->count = 0;
    }
    return 0;
}

// Takes the accepted ones of the steps.
static int end_round(adaptive *a, kd_err *err)
{
    kd_sampler_run *r = a->s.r;
    const int64_t size = r->size;
    for (int64_t j = 0; j < a->s.m; j++) {
        const int64_t i = r->image[j];
        const pace *p = pace_of(a, i);
        if (!p->accept) continue;
        const size_t bytes = (size_t)size * sizeof *r->x;
        KD_TRY(r->be->copy(r->be, a->before + i * size, a->low + j * size, bytes, err));
        KD_TRY(r->be->copy(r->be, r->x + i * size, a->high + j * size, bytes, err));
        const double factor = p->up * r->o->s_noise;
        const int64_t request = a->taken[i]++;
        if (factor == 0) continue;
        KD_TRY(r->noise->draw(r->noise->arg, r->vec, request, sigma(p->t), sigma(p->next), i, 1, size, a->z, err));
        KD_TRY(kd_vec_mix(r->vec, size, r->x + i * size, 1, r->x + i * size, factor, a->z, err));
    }
    return 0;
}

// The errors of the round's steps, summed for each pace. The host reads them: what comes next depends on them.
static int measure(adaptive *a, kd_err *err)
{
    kd_sampler_run *r = a->s.r;
    kd_backend *be = r->be;
    float *const vectors[] = { a->low, a->high, a->before };
    void *host[3] = { 0 };
    for (int i = 0; i < 3 && !err->code; i++) be->map(be, vectors[i], kd_run_bytes(r), KD_MAP_READ, &host[i], err);
    for (int64_t j = 0; j < a->s.m && !err->code; j++) {
        pace *p = pace_of(a, r->image[j]);
        const int64_t at = j * r->size;
        p->sum += squared_error((float *)host[0] + at, (float *)host[1] + at, (float *)host[2] + r->image[j] * r->size, r->size, r->o);
        p->count += r->size;
    }
    for (int i = 0; i < 3; i++)
        if (host[i]) be->unmap(be, host[i], err);
    return err->code;
}

static int round_of(adaptive *a, kd_err *err)
{
    solver *s = &a->s;
    kd_sampler_run *r = s->r;
    KD_TRY(slope(s, s->e, s->x, 0, err));
    KD_TRY(slopes_between(s, a->order, err));
    KD_TRY(a->order == 2 ? step_1(s, a->low, 1, err) : step_2(s, a->low, 1.0 / 3, err));
    KD_TRY(step(s, a->high, a->order, err));
    KD_TRY(measure(a, err));
    for (int64_t j = 0; j < (r->o->batch_norm ? 1 : s->m); j++) control(pace_of(a, r->image[j]), r->o, a->order);
    KD_TRY(end_round(a, err));
    for (int64_t j = 0; j < (r->o->batch_norm ? 1 : s->m); j++) {
        pace *p = pace_of(a, r->image[j]);
        if (p->accept) p->t = p->next;
    }
    return 0;
}

int kd_dpm_adaptive(kd_sampler_run *r, kd_err *err)
{
    adaptive a = { .order = r->o->order ? (int)r->o->order : 3, .end = -log(kd_run_lowest(r->sigmas, r->steps)) };
    double *times = kd_alloc((size_t)(2 * r->n) * sizeof *times + 1);
    a.pace = kd_alloc((size_t)(r->n + 1) * sizeof *a.pace);
    r->taken = a.taken = kd_alloc((size_t)r->n * sizeof *a.taken + 1);
    int code = times && a.pace && a.taken ? solver_new(&a.s, r, times, err) : kd_fail_memory(err, "the sampler's vectors");
    float **vectors[] = { &a.low, &a.high, &a.before, &a.z };
    for (int i = 0; i < 4 && !code; i++) code = kd_run_buffer(r, vectors[i], err);
    if (code) goto done;
    for (int64_t i = 0; i <= r->n; i++) a.pace[i] = (pace){ .t = -log(r->sigmas[0]), .h = r->o->h_init };
    if ((code = kd_run_copy(r, a.before, r->x, err))) goto done;
    do {
        if ((code = begin_round(&a, err)) || (a.s.m && (code = round_of(&a, err)))) goto done;
    } while (a.s.m);
done:
    kd_free(times);
    kd_free(a.pace);
    kd_free(a.taken);
    r->taken = NULL;
    return code;
}
