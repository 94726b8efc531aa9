// A group is one run of the flat arrays, padding included (its values and gradients are 0, and remain so). Idle and bounded
// parameters cut a group into several runs.
#include "train/optimizer.h"
#include "base/memory.h"
#include "op/program.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

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
    *s = (kd_opt_state){0};
    if (be->alloc(be, (void **)&s->w, all, err) || be->alloc(be, (void **)&s->ema, all, err)
        || (kd_opt_has_m(c) && be->alloc(be, (void **)&s->m, trained, err))
        || (kd_opt_has_v(c) && be->alloc(be, (void **)&s->v, trained, err))
        || be->alloc(be, (void **)&s->stopped, sizeof *s->stopped, err))
        kd_opt_state_free(s, be);
    return err->code;
}

void kd_opt_state_free(kd_opt_state *s, kd_backend *be)
{
    void *arrays[] = { s->w, s->ema, s->m, s->v, s->stopped };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (arrays[i]) be->free(be, arrays[i]);
    *s = (kd_opt_state){0};
}

// The gradient ---------------------------------------------------------------------------------------------------------

// Where no gradient is computed: between the parameters' places, and at those of idle ones. gaps: room for ps->n + 1.
static int64_t find_gaps(int64_t (*gaps)[2], const kd_params *ps)
{
    int64_t at = 0, n = 0;
    for (int i = 0; i <= ps->n; i++) {
        const kd_param_info *p = i < ps->n ? &ps->p[i] : NULL;
        if (p && (p->group < 0 || p->idle)) continue;
        const int64_t end = p ? p->offset : ps->trained;
        if (end > at) gaps[n][0] = at, gaps[n++][1] = end - at;
        if (p) at = p->offset + p->count;
    }
    return n;
}

kd_val *kd_opt_flatten(kd_graph *g, const kd_params *ps)
{
    int64_t (*gaps)[2] = malloc((size_t)(ps->n + 1) * sizeof *gaps);
    if (!gaps) return kd_no_memory(g, "the gradient's gaps");
    kd_val *flat = kd_flatten(g, ps->trained, gaps, find_gaps(gaps, ps));
    free(gaps);
    return flat;
}

// The step -------------------------------------------------------------------------------------------------------------

void kd_group_rates(double lr[4], double base)
{
    lr[0] = lr[1] = base;
    lr[2] = lr[3] = base / 3;
}

void kd_opt_rates(double rates[KD_RATES], const kd_config *c, int64_t step, const double lr[4], double decay)
{
    for (int k = 0; k < 4; k++) rates[KD_RATE_LR + k] = lr[k];
    rates[KD_RATE_EMA] = decay;
    rates[KD_RATE_BIAS1] = 1 - pow(c->beta1, (double)step);
    rates[KD_RATE_BIAS2] = 1 - pow(c->beta2, (double)step);
    rates[KD_RATE_FIRST] = step <= 1;
}

// End of the run of parameters like the i-th: of its group, with its limit, and idle or not as it is.
static int run_end(const kd_params *ps, int i)
{
    const kd_param_info *p = ps->p;
    int k = i + 1;
    while (k < ps->n && p[k].group == p[i].group && p[k].idle == p[i].idle && p[k].most == p[i].most) k++;
    return k;
}

static kd_val *runs_of(kd_graph *g, const kd_params *ps)
{
    double (*runs)[KD_RUN_COLUMNS] = malloc((size_t)(ps->n + 1) * sizeof *runs);
    int64_t n = 0;
    if (!runs) return kd_no_memory(g, "the optimizer's runs");
    for (int i = 0, next; i < ps->n && ps->p[i].group >= 0; i = next) {
        const kd_param_info *p = &ps->p[i];
        next = run_end(ps, i);
        assert(p->most >= 0 && "padding stays 0");
        runs[n][KD_RUN_FIRST] = (double)p->offset;
        runs[n][KD_RUN_COUNT] = (double)((next < ps->n ? ps->p[next].offset : ps->total) - p->offset);
        runs[n][KD_RUN_GROUP] = p->idle ? -1 : p->group;
        runs[n++][KD_RUN_MOST] = p->most;
    }
    kd_val *v = kd_const_of(g, "runs", KD_F64, KD_SHAPE(n, KD_RUN_COLUMNS), runs);
    free(runs);
    return v;
}

// A leaf over memory of the state; NULL for an array that it does not have.
static kd_val *array(kd_graph *g, const char *name, int64_t n, float *data)
{
    kd_val *v = data ? kd_param(g, name, KD_SHAPE(n)) : NULL;
    if (v) kd_bind(v, data);
    return v;
}

void kd_opt_append(kd_opt_step *o, kd_graph *g, const kd_params *ps, const kd_config *c, const kd_opt_state *s, kd_val *grad,
                   kd_val *loss, double limit)
{
    kd_scope_push(g, "optimizer");
    o->rates = kd_input(g, "rates", KD_F64, KD_SHAPE(KD_RATES));
    kd_val *stopped = kd_param_of(g, "optimizer.stopped", KD_F64, KD_SHAPE(1));
    if (stopped) kd_bind(stopped, s->stopped);
    o->clip = kd_clip(g, kd_sum_squares(g, grad), loss, stopped, limit);
    const kd_update u = { .p = array(g, "optimizer.w", ps->trained, s->w), .grad = grad, .m = array(g, "optimizer.m", ps->trained, s->m),
                          .v = array(g, "optimizer.v", ps->trained, s->v), .ema = array(g, "optimizer.ema", ps->trained, s->ema),
                          .clip = o->clip, .rates = o->rates, .runs = runs_of(g, ps) };
    o->done = c->sgd ? kd_sgd(g, &u, c->weight_decay, c->momentum, c->nesterov)
                     : kd_adamw(g, &u, c->weight_decay, c->beta1, c->beta2, c->eps);
    kd_scope_pop(g);
}
