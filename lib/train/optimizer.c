// Each pass runs over whole groups: a group is one run of the flat arrays, padding included (its values and gradients are
// 0, and stay so). Idle parameters cut a group into several runs.
#include "train/optimizer.h"
#include "op/optimizer.h"
#include <math.h>

// The state ------------------------------------------------------------------------------------------------------------

bool kd_opt_has_m(const kd_config *c) { return !c->sgd || c->momentum != 0; }
bool kd_opt_has_v(const kd_config *c) { return !c->sgd; }

int64_t kd_opt_state_bytes(const kd_params *ps, const kd_config *c)
{
    return (2 * ps->total + (kd_opt_has_m(c) + kd_opt_has_v(c)) * ps->trained) * (int64_t)sizeof(float);
}

int kd_opt_state_new(kd_opt_state *s, kd_backend *be, const kd_params *ps, const kd_config *c, kd_err *err)
{
    const size_t all = (size_t)ps->total * sizeof(float), trained = (size_t)ps->trained * sizeof(float);
    kd_flat_node norm;
    *s = (kd_opt_state){0};
    kd_sum_squares_node(&norm, ps->trained, (const float *)s, NULL);     // for its size only: not run
    const size_t scratch = be->scratch(be, &norm.node);

    if (be->alloc(be, (void **)&s->w, all, err) || be->alloc(be, (void **)&s->ema, all, err)
        || (kd_opt_has_m(c) && be->alloc(be, (void **)&s->m, trained, err))
        || (kd_opt_has_v(c) && be->alloc(be, (void **)&s->v, trained, err))
        || be->alloc(be, (void **)&s->sum, sizeof *s->sum, err)
        || (scratch && be->alloc(be, &s->scratch, scratch, err)))
        kd_opt_state_free(s, be);
    return err->code;
}

void kd_opt_state_free(kd_opt_state *s, kd_backend *be)
{
    void *arrays[] = { s->w, s->ema, s->m, s->v, s->sum, s->scratch };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (arrays[i]) be->free(be, arrays[i]);
    *s = (kd_opt_state){0};
}

// The gradient ---------------------------------------------------------------------------------------------------------

static int run(kd_backend *be, const kd_flat_node *o, void *scratch, kd_err *err)
{
    return be->run(be, &o->node, scratch, err);
}

int kd_grad_norm(kd_backend *be, const kd_params *ps, const kd_opt_state *s, double *norm, kd_err *err)
{
    kd_flat_node o;
    kd_sum_squares_node(&o, ps->trained, s->grad, s->sum);
    KD_TRY(run(be, &o, s->scratch, err));
    KD_TRY(be->download(be, norm, s->sum, sizeof *norm, err));
    *norm = sqrt(*norm);
    return 0;
}

double kd_clip_factor(double norm, double limit) { return limit > 0 ? fmin(1, limit / (norm + 1e-6)) : 1; }

int kd_grad_accumulate(kd_backend *be, const kd_params *ps, float *to, const float *part, kd_err *err)
{
    kd_flat_node o;
    kd_accumulate_node(&o, ps->trained, to, part);
    return run(be, &o, NULL, err);
}

/// What a parameter may not exceed (transformer v1's scales) it is set to.
static int clamp(kd_backend *be, const kd_params *ps, const kd_opt_state *s, kd_err *err)
{
    for (int i = 0; i < ps->n; i++) {
        kd_flat_node o;
        if (ps->p[i].group < 0 || ps->p[i].idle || isinf(ps->p[i].most)) continue;
        kd_clamp_max_node(&o, ps->p[i].count, s->w + ps->p[i].offset, ps->p[i].most);
        KD_TRY(run(be, &o, NULL, err));
    }
    return 0;
}

// The step -------------------------------------------------------------------------------------------------------------

void kd_group_rates(double lr[4], double base)
{
    lr[0] = lr[1] = base;
    lr[2] = lr[3] = base / 3;
}

/// End of the run of parameters like the i-th: of its group, and idle or not as it is.
static int run_end(const kd_params *ps, int i)
{
    int k = i + 1;
    while (k < ps->n && ps->p[k].group == ps->p[i].group && ps->p[k].idle == ps->p[i].idle) k++;
    return k;
}

/// The rule of the i-th parameter, over n elements from its place on. SGD that learns nothing moves ema alone.
static void update(kd_flat_node *o, const kd_opt_state *s, const kd_config *c, const kd_param_info *p, int64_t n, kd_step rule)
{
    const int64_t a = p->offset;
    rule.weight_decay = p->group % 2 ? 0 : c->weight_decay;
    if (p->idle) {
        rule.lr = 0;
        kd_sgd_node(o, n, s->w + a, s->grad + a, NULL, s->ema + a, &rule, 0, false);
    } else if (c->sgd)
        kd_sgd_node(o, n, s->w + a, s->grad + a, s->m ? s->m + a : NULL, s->ema + a, &rule, c->momentum, c->nesterov);
    else
        kd_adamw_node(o, n, s->w + a, s->grad + a, s->m + a, s->v + a, s->ema + a, &rule, c->beta1, c->beta2, c->eps);
}

int kd_opt_step(kd_backend *be, const kd_params *ps, const kd_config *c, const kd_opt_state *s, int64_t step,
                const double lr[4], double clip_factor, double ema_decay, kd_err *err)
{
    for (int i = 0, next; i < ps->n && ps->p[i].group >= 0; i = next) {
        const kd_param_info *p = &ps->p[i];
        next = run_end(ps, i);
        const int64_t n = (next < ps->n ? ps->p[next].offset : ps->total) - p->offset;
        const kd_step rule = { .step = step, .lr = lr[p->group], .clip = clip_factor, .ema_decay = ema_decay };
        kd_flat_node o;
        update(&o, s, c, p, n, rule);
        KD_TRY(run(be, &o, NULL, err));
    }
    return clamp(be, ps, s, err);
}
