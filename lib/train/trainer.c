// The state of a training run and one step of it. Read golden README section 8 for the order of things in a step.
#include "base/memory.h"
#include "train/schedule.h"
#include "train/trainer_state.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Making one -----------------------------------------------------------------------------------------------------------

static int alloc_state(kd_trainer *t, kd_err *err)
{
    const size_t trained = (size_t)t->ps->trained * sizeof(float);
    KD_TRY(kd_opt_state_new(&t->s, t->be, t->ps, t->c, err));
    if (t->o.accum > 1) KD_TRY(t->be->alloc(t->be, (void **)&t->s.grad, trained, err));

    KD_TRY(kd_batch_new(&t->batch, t->c, t->o.batch, err));
    t->ones = kd_alloc((size_t)t->o.batch * sizeof *t->ones);
    t->loss = kd_alloc((size_t)t->o.batch * sizeof *t->loss);
    if (!t->ones || !t->loss) return kd_fail_memory(err, "losses");
    for (int64_t i = 0; i < t->o.batch; i++) t->ones[i] = (float)(1.0 / (double)(t->o.batch * t->o.accum));
    return 0;
}

static int first_weights(kd_trainer *t, const kd_model *init, kd_err *err)
{
    const size_t bytes = (size_t)t->ps->total * sizeof(float);
    if (t->o.resumed) return 0;
    float *drawn = init ? NULL : t->be->host ? t->s.w : kd_alloc(bytes);
    const float *w = init ? init->w : drawn;
    if (!w) return kd_fail_memory(err, "weights");
    if (!init) kd_params_init(t->ps, t->o.seed, drawn);
    if (w == t->s.w || !t->be->upload(t->be, t->s.w, w, bytes, err)) t->be->upload(t->be, t->s.ema, w, bytes, err);
    if (drawn != t->s.w) kd_free(drawn);
    return err->code;
}

// Parameters are bound to their places in the flat array, gradients pinned to theirs in the program's arena: the optimizer then
// runs over whole groups. A parameter that the loss does not depend on is idle: PyTorch's grad is None then, not 0.
static bool is_trained(const kd_trainer *t, int i) { return t->lg.net.leaf[i] && t->ps->p[i].group >= 0; }

// Appends the gradient and plans. wrt, dx: room for ps->n values; outs: for one more.
static int append_gradient(kd_trainer *t, kd_val **wrt, kd_val **dx, kd_val **outs, kd_err *err)
{
    const kd_params *ps = t->ps;
    kd_graph *g = t->lg.g;
    int n = 0, k = 0, n_outs = 0;

    for (int i = 0; i < ps->n; i++) {
        if (t->lg.net.leaf[i]) kd_bind(t->lg.net.leaf[i], t->s.w + ps->p[i].offset);
        if (is_trained(t, i)) wrt[n++] = t->lg.net.leaf[i];
    }
    t->dloss = kd_input(g, "dloss", KD_F32, KD_SHAPE(t->o.batch));
    kd_grad(g, t->lg.loss, t->dloss, wrt, n, dx);
    outs[n_outs++] = t->lg.loss;
    for (int i = 0; i < ps->n; i++) {
        kd_val *d = is_trained(t, i) ? dx[k++] : NULL;
        ps->p[i].idle = !d;
        if (!d) continue;
        kd_pin(d, ps->p[i].offset * (int64_t)sizeof(float));
        outs[n_outs++] = d;
    }
    t->lg.g = NULL;                                   // the program takes it, also on failure
    return kd_program_new(&t->p, g, t->be, outs, n_outs, err);
}

static int plan_program(kd_trainer *t, kd_err *err)
{
    const size_t n = (size_t)t->ps->n;
    KD_TRY(kd_loss_graph_new(&t->lg, t->c, t->ps, t->o.batch, 0, true, t->o.checkpointing, err));
    t->flops_forward = kd_graph_flops(t->lg.g) / (double)t->o.batch;
    kd_val **room = calloc(3 * n + 1, sizeof *room);
    if (!room) return kd_fail_memory(err, "a graph");
    append_gradient(t, room, room + n, room + 2 * n, err);
    free(room);
    return err->code;
}

static int check_options(const kd_trainer *t, const kd_model *init, kd_err *err)
{
    const kd_config *c = t->c;
    if (!c->has_density)
        return kd_fail(err, KD_EUSAGE, "%s: model.sigma_sample_density: training needs one", c->path);
    const char *condition = kd_config_condition(c);
    if (condition)
        return kd_fail(err, KD_EUSAGE, "%s: model.%s_dim: images carry no such condition to train on", c->path, condition);
    if (!init) return 0;
    char *difference = kd_config_model_difference(c, init->config);
    if (!difference) return 0;
    kd_fail(err, KD_EUSAGE, "%s and %s differ in the model: %s", c->path, init->config->path, difference);
    free(difference);
    return err->code;
}

int kd_trainer_new(kd_trainer **to, kd_config *config, const kd_train_opts *o, const kd_model *init, kd_backend *be, kd_err *err)
{
    assert(o->batch > 0 && o->accum > 0);
    *to = NULL;
    kd_trainer *t = kd_alloc(sizeof *t);
    if (!t) {
        kd_config_free(config);
        return kd_fail_memory(err, "a trainer");
    }
    t->c = config;
    t->o = *o;
    if (t->o.lr == 0) t->o.lr = config->lr;
    t->gns = kd_gns_start(0.9998, 1e-8);
    t->be = be;

    if (check_options(t, init, err) || kd_params_of(&t->ps, config, err) || alloc_state(t, err)
        || first_weights(t, init, err) || plan_program(t, err)) {
        kd_trainer_free(t);
        return err->code;
    }
    *to = t;
    return 0;
}

void kd_trainer_free(kd_trainer *t)
{
    if (!t) return;
    kd_program_free(t->p);
    kd_graph_free(t->lg.g);                           // if no program took it
    kd_loss_graph_free(&t->lg);
    if (t->o.accum > 1 && t->s.grad) t->be->free(t->be, t->s.grad);
    kd_opt_state_free(&t->s, t->be);
    kd_batch_free(&t->batch);
    kd_free(t->ones);
    kd_free(t->loss);
    kd_params_free(t->ps);
    kd_config_free(t->c);
    kd_free(t);
}

// A step ---------------------------------------------------------------------------------------------------------------

static int set(kd_trainer *t, kd_val *input, const void *host, kd_err *err)
{
    return input ? kd_program_set(t->p, input, host, err) : 0;
}

// The gradient's array where nothing was computed: between the parameters' places, and at those of idle ones.
static int clear_gaps(const kd_trainer *t, kd_err *err)
{
    const kd_params *ps = t->ps;
    int64_t at = 0;
    for (int i = 0; i <= ps->n; i++) {
        const kd_param_info *p = i < ps->n ? &ps->p[i] : NULL;
        if (p && (p->group < 0 || p->idle)) continue;
        const int64_t end = p ? p->offset : ps->trained;
        if (end > at) KD_TRY(t->be->fill(t->be, t->micro + at, 0, (size_t)(end - at) * sizeof(float), err));
        if (p) at = p->offset + p->count;
    }
    return 0;
}

// Loss of a micro-batch, and its gradient into `micro`.
static int run_micro(kd_trainer *t, const kd_dataset *d, int64_t part, double *loss, kd_err *err)
{
    const kd_batch *b = &t->batch;
    const uint64_t rng[2] = { t->o.seed, (uint64_t)t->step };

    if (!(t->micro = kd_program_pinned(t->p, err))) return err->code;
    kd_batch_fill(&t->batch, t->c, d, t->o.seed, t->step, t->seen + part * t->o.batch, part,
                  t->o.gns ? 0 : t->o.accum);           // its micro-batches must be independent
    KD_TRY(set(t, t->lg.x0, b->x0, err));
    KD_TRY(set(t, t->lg.noise, b->noise, err));
    KD_TRY(kd_loss_graph_set_sigma(&t->lg, t->p, t->c, b->sigma, b->n, err));
    KD_TRY(set(t, t->lg.in.class_cond, b->class_cond, err));
    KD_TRY(set(t, t->lg.in.aug_cond, b->aug_cond, err));
    KD_TRY(set(t, t->lg.index, b->index, err));
    KD_TRY(set(t, t->lg.rng, rng, err));
    KD_TRY(set(t, t->dloss, t->ones, err));
    KD_TRY(kd_program_run(t->p, err));
    KD_TRY(kd_program_get(t->p, t->lg.loss, t->loss, err));
    KD_TRY(clear_gaps(t, err));

    *loss = 0;
    for (int64_t i = 0; i < b->n; i++) *loss += t->loss[i];
    *loss /= (double)b->n;
    if (isnan(*loss)) return kd_fail(err, KD_EFAIL, "step %lld: loss is NaN", (long long)t->step + 1);
    if (isinf(*loss)) return kd_fail(err, KD_EFAIL, "step %lld: loss is infinite", (long long)t->step + 1);
    return 0;
}

// Squared norm of the gradient of a micro-batch's own mean loss. It is stored divided by accum.
static int micro_square(const kd_trainer *t, double *square, kd_err *err)
{
    kd_opt_state s = t->s;
    s.grad = t->micro;
    KD_TRY(kd_grad_norm(t->be, t->ps, &s, square, err));
    *square *= (double)t->o.accum;
    *square *= *square;
    return 0;
}

int kd_trainer_step(kd_trainer *t, const kd_dataset *d, kd_step_stats *stats, kd_err *err)
{
    const double rate = kd_lr_at(t->c, t->o.lr, t->lr_step), decay = kd_ema_decay_at(t->c, t->ema_step);
    const double keep = pow(decay, 1 / (double)t->o.accum);          // of the running loss, which moves with each micro-batch
    double lr[4], loss = 0, ema_loss = t->ema_loss, norm, square, squares = 0;
    const double batch = (double)t->o.batch, accum = (double)t->o.accum;

    assert(t->step < KD_MAX_STEP);
    if (t->seen > KD_MAX_SEEN - t->o.batch * t->o.accum)
        return kd_fail(err, KD_EFAIL, "step %lld: the random streams end after %lld images", (long long)t->step + 1,
                       (long long)KD_MAX_SEEN);
    if (t->o.accum > 1) KD_TRY(t->be->fill(t->be, t->s.grad, 0, (size_t)t->ps->trained * sizeof(float), err));
    for (int64_t k = 0; k < t->o.accum; k++) {
        double part = 0;
        KD_TRY(run_micro(t, d, k, &part, err));
        if (t->o.gns) KD_TRY(micro_square(t, &square, err));
        if (t->o.gns) squares += square / accum;
        if (t->o.accum > 1) KD_TRY(kd_grad_accumulate(t->be, t->ps, t->s.grad, t->micro, err));
        else t->s.grad = t->micro;
        ema_loss = t->has_loss || k ? ema_loss * keep + (1 - keep) * part : part;
        loss += part / (double)t->o.accum;
    }
    KD_TRY(kd_grad_norm(t->be, t->ps, &t->s, &norm, err));
    if (!isfinite(norm))
        return kd_fail(err, KD_EFAIL, "step %lld: the gradient is not finite", (long long)t->step + 1);
    kd_group_rates(lr, rate);
    KD_TRY(kd_opt_step(t->be, t->ps, t->c, &t->s, t->opt_step + 1, lr, kd_clip_factor(norm, t->o.clip), decay, err));

    t->step++;
    t->opt_step++;
    t->lr_step++;
    t->ema_step++;
    t->seen += t->o.batch * t->o.accum;
    t->ema_loss = ema_loss;
    t->has_loss = true;
    if (t->o.gns) kd_gns_update(&t->gns, squares, norm * norm, batch, batch * accum);
    *stats = (kd_step_stats){ .loss = loss, .ema_loss = ema_loss, .lr = rate, .grad_norm = norm,
                               .gns = t->o.gns ? kd_gns_value(&t->gns) : NAN };
    return 0;
}

// Answers --------------------------------------------------------------------------------------------------------------

int64_t kd_trainer_steps(const kd_trainer *t) { return t->step; }
int64_t kd_trainer_seen(const kd_trainer *t) { return t->seen; }
double kd_trainer_loss(const kd_trainer *t) { return t->ema_loss; }
const kd_config *kd_trainer_config(const kd_trainer *t) { return t->c; }
const kd_train_opts *kd_trainer_opts(const kd_trainer *t) { return &t->o; }
int64_t kd_trainer_parameters(const kd_trainer *t) { return t->ps->n_trained; }
kd_program *kd_trainer_program(const kd_trainer *t) { return t->p; }

kd_train_plan kd_trainer_plan(const kd_trainer *t)
{
    const int64_t gradient = t->ps->trained * (int64_t)sizeof(float), state = kd_opt_state_bytes(t->ps, t->c);
    return (kd_train_plan){
        .flops_forward = t->flops_forward,
        .flops = kd_program_flops(t->p) / (double)t->o.batch,
        .state = state + (t->o.accum > 1 ? gradient : 0),
        .program = kd_program_bytes(t->p),
        .batch = kd_batch_bytes(&t->batch),
        .save = t->be->host ? 0 : state,
    };
}

int kd_trainer_reset_ema(kd_trainer *t, kd_err *err)
{
    const size_t bytes = (size_t)t->ps->total * sizeof(float);
    float *w = kd_alloc(bytes);
    if (!w) return kd_fail_memory(err, "weights");
    const int code = t->be->download(t->be, w, t->s.ema, bytes, err) || t->be->upload(t->be, t->s.w, w, bytes, err);
    kd_free(w);
    if (code) return err->code;
    t->ema_step = 0;
    t->ema_loss = 0;
    t->has_loss = false;
    return 0;
}

int kd_trainer_ema(kd_trainer *t, kd_model **to, kd_err *err)
{
    kd_config *c;
    kd_model *m;
    *to = NULL;
    KD_TRY(kd_config_parse(&c, t->c->json, t->c->path, true, NULL, err));
    KD_TRY(kd_model_around(&m, c, t->be->host ? t->s.ema : NULL, err));
    if (!m->lent && t->be->download(t->be, m->w, t->s.ema, (size_t)t->ps->total * sizeof(float), err)) {
        kd_model_free(m);
        return err->code;
    }
    *to = m;
    return 0;
}
