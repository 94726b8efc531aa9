// The state of a training run and one step of it.
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
    KD_TRY(kd_opt_state_new(&t->s, t->be, t->ps, t->c, err));
    if (t->o.accum > 1) KD_TRY(t->be->alloc(t->be, (void **)&t->sum, (size_t)t->ps->trained * sizeof(float), err));
    t->sigma = kd_alloc((size_t)t->o.batch * sizeof *t->sigma);
    t->loss = kd_alloc((size_t)t->o.batch * sizeof *t->loss);
    return t->sigma && t->loss ? 0 : kd_fail_memory(err, "losses");
}

static int first_weights(kd_trainer *t, const kd_model *init, kd_err *err)
{
    const size_t bytes = (size_t)t->ps->total * sizeof(float);
    void *w;
    if (t->o.resumed) return 0;
    if (init) KD_TRY(t->be->upload(t->be, t->s.w, init->w, bytes, err));
    else {
        KD_TRY(t->be->map(t->be, t->s.w, bytes, KD_MAP_READ | KD_MAP_WRITE, &w, err));
        kd_params_init(t->ps, t->o.seed, w);
        KD_TRY(t->be->unmap(t->be, w, err));
    }
    return t->be->copy(t->be, t->s.ema, t->s.w, bytes, err);
}

// Parameters are bound to their places in the flat array, gradients pinned to theirs in the program's arena: the optimizer then
// runs over whole groups. A parameter that the loss does not depend on is idle: PyTorch's grad is None then, not 0.
static bool is_trained(const kd_trainer *t, int i) { return t->lg.net.leaf[i] && t->ps->p[i].group >= 0; }

// The gradient of each loss in the mean over the step's images.
static kd_val *loss_gradient(const kd_trainer *t)
{
    float *each = malloc((size_t)t->o.batch * sizeof *each);
    if (!each) return kd_no_memory(t->lg.g, "a graph");
    for (int64_t i = 0; i < t->o.batch; i++) each[i] = (float)(1.0 / (double)(t->o.batch * t->o.accum));
    kd_val *v = kd_const(t->lg.g, "dloss", KD_SHAPE(t->o.batch), each);
    free(each);
    return v;
}

// Appends the gradients, pinned, to outs; returns how many there are. wrt, dx: room for ps->n values.
static int append_gradients(kd_trainer *t, kd_val **wrt, kd_val **dx, kd_val **outs)
{
    const kd_params *ps = t->ps;
    int n = 0, n_outs = 0;
    for (int i = 0; i < ps->n; i++) {
        if (t->lg.net.leaf[i]) kd_bind(t->lg.net.leaf[i], t->s.w + ps->p[i].offset);
        if (is_trained(t, i)) wrt[n++] = t->lg.net.leaf[i];
    }
    kd_grad(t->lg.g, t->lg.loss, loss_gradient(t), wrt, n, dx);
    for (int i = 0, k = 0; i < ps->n; i++) {
        kd_val *d = is_trained(t, i) ? dx[k++] : NULL;
        ps->p[i].idle = !d;
        if (!d) continue;
        kd_pin(d, ps->p[i].offset * (int64_t)sizeof(float));
        outs[n_outs++] = d;
    }
    return n_outs;
}

// What follows the gradient: the optimizer's step, or the sum over micro-batches. Returns the number of outputs added.
static int append_end(kd_trainer *t, kd_val **outs, kd_err *err)
{
    kd_graph *g = t->lg.g;
    int n = 0;
    outs[n++] = t->flat = kd_opt_flatten(g, t->ps);
    if (t->o.accum == 1) {
        kd_opt_append(&t->opt, g, t->ps, t->c, &t->s, t->flat, t->lg.loss, t->o.clip);
        outs[n++] = t->opt.clip, outs[n++] = t->opt.done;
    } else {
        kd_val *sum = kd_param(g, "gradient", KD_SHAPE(t->ps->trained));
        if (sum) kd_bind(sum, t->sum);
        outs[n++] = kd_accumulate(g, sum, t->flat);
        if (t->o.gns) outs[n++] = t->square = kd_sum_squares(g, t->flat);
    }
    kd_graph_error(g, err);
    return n;
}

static int plan_micro(kd_trainer *t, kd_err *err)
{
    const size_t n = (size_t)t->ps->n;
    kd_val **room = calloc(3 * n + 4, sizeof *room), **outs = room + 2 * n;
    if (!room) return kd_fail_memory(err, "a graph");
    int n_outs = 1;
    outs[0] = t->lg.loss;
    n_outs += append_gradients(t, room, room + n, outs + n_outs);
    n_outs += append_end(t, outs + n_outs, err);
    if (!err->code) {
        kd_graph *g = t->lg.g;
        t->lg.g = NULL;                               // the program takes it, also on failure
        kd_program_new(&t->p, g, t->be, outs, n_outs, err);
    }
    free(room);
    return err->code;
}

static int plan_update(kd_trainer *t, kd_err *err)
{
    kd_graph *g = kd_graph_new();
    if (!g) return kd_fail_memory(err, "a graph");
    kd_val *sum = kd_param(g, "gradient", KD_SHAPE(t->ps->trained));
    if (sum) kd_bind(sum, t->sum);
    kd_opt_append(&t->opt, g, t->ps, t->c, &t->s, sum, NULL, t->o.clip);
    kd_val *outs[] = { t->opt.clip, t->opt.done };
    return kd_program_new(&t->update, g, t->be, outs, 2, err);
}

static int plan_programs(kd_trainer *t, kd_err *err)
{
    KD_TRY(kd_loss_graph_new(&t->lg, t->c, t->ps, t->o.batch, 0, true, t->o.checkpointing, t->o.compute, err));
    kd_graph_for(t->lg.g, t->be);
    t->flops_forward = kd_graph_flops(t->lg.g) / (double)t->o.batch;
    KD_TRY(plan_micro(t, err));
    return t->o.accum > 1 ? plan_update(t, err) : 0;
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
        || first_weights(t, init, err) || plan_programs(t, err)) {
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
    kd_program_free(t->update);
    kd_graph_free(t->lg.g);                           // if no program took it
    kd_loss_graph_free(&t->lg);
    if (t->sum) t->be->free(t->be, t->sum);
    kd_opt_state_free(&t->s, t->be);
    kd_free(t->sigma);
    kd_free(t->loss);
    kd_params_free(t->ps);
    kd_config_free(t->c);
    kd_free(t);
}

// A step ---------------------------------------------------------------------------------------------------------------

static int at(const kd_trainer *t, kd_val *input, void *to, kd_err *err) { return kd_program_at(t->p, input, to, err); }

// Writes micro-batch `part` of a step to the program's inputs, if they do not hold it already. p: positions before it.
static int fill(kd_trainer *t, const kd_dataset *d, int64_t step, int64_t part, int64_t p, kd_err *err)
{
    const kd_config *c = t->c;
    const kd_loss_graph *lg = &t->lg;
    const uint64_t rng[2] = { t->o.seed, (uint64_t)step };
    kd_batch b = { .n = t->o.batch, .h = c->size[0], .w = c->size[1], .c = c->channels, .sigma = t->sigma };
    if (t->filled == d && t->filled_step == step && t->filled_part == part) return 0;
    t->filled = NULL;
    KD_TRY(at(t, lg->pixels, &b.pixels, err));
    if (!lg->pixels) KD_TRY(at(t, lg->x0, &b.x0, err));
    KD_TRY(at(t, lg->in.class_cond, &b.class_cond, err));
    KD_TRY(at(t, lg->in.aug_cond, &b.aug_cond, err));
    KD_TRY(at(t, lg->index, &b.index, err));
    kd_batch_fill(&b, c, d, t->o.seed, step, p, part, t->o.gns ? 0 : t->o.accum);    // with gns they must be independent
    KD_TRY(kd_program_set(t->p, lg->rng, rng, err));
    KD_TRY(kd_loss_graph_set_sigma(lg, t->p, c, b.sigma, b.n, err));
    t->filled = d, t->filled_step = step, t->filled_part = part;
    return 0;
}

// The micro-batch after this one, while the backend works on this one.
static int fill_next(kd_trainer *t, const kd_dataset *d, int64_t part, int64_t p, kd_err *err)
{
    const bool last = part + 1 == t->o.accum;
    if (!t->be->async || p > KD_MAX_SEEN - t->o.batch || (last && t->step + 1 >= KD_MAX_STEP)) return 0;
    return last ? fill(t, d, t->step + 1, 0, p, err) : fill(t, d, t->step, part + 1, p, err);
}

// Loss of a micro-batch, and its gradient.
static int run_micro(kd_trainer *t, const kd_dataset *d, int64_t part, double *loss, kd_err *err)
{
    const int64_t n = t->o.batch, p = t->seen + part * n;
    KD_TRY(fill(t, d, t->step, part, p, err));
    KD_TRY(kd_program_run(t->p, err));
    t->filled = NULL;
    KD_TRY(fill_next(t, d, part, p + n, err));
    KD_TRY(kd_program_get(t->p, t->lg.loss, t->loss, err));

    *loss = 0;
    for (int64_t i = 0; i < n; i++) *loss += t->loss[i];
    *loss /= (double)n;
    if (isnan(*loss)) return kd_fail(err, KD_EFAIL, "step %lld: loss is NaN", (long long)t->step + 1);
    if (isinf(*loss)) return kd_fail(err, KD_EFAIL, "step %lld: loss is infinite", (long long)t->step + 1);
    return 0;
}

// Squared norm of the gradient of a micro-batch's own mean loss. It is stored divided by accum.
static int micro_square(const kd_trainer *t, double *square, kd_err *err)
{
    KD_TRY(kd_program_get(t->p, t->square, square, err));
    *square = sqrt(*square) * (double)t->o.accum;
    *square *= *square;
    return 0;
}

static int set_rates(const kd_trainer *t, double rate, double decay, kd_err *err)
{
    double lr[4], rates[KD_RATES];
    kd_group_rates(lr, rate);
    kd_opt_rates(rates, t->c, t->opt_step + 1, lr, decay);
    return kd_program_set(t->update ? t->update : t->p, t->opt.rates, rates, err);
}

int kd_trainer_step(kd_trainer *t, const kd_dataset *d, kd_step_stats *stats, kd_err *err)
{
    const double rate = kd_lr_at(t->c, t->o.lr, t->lr_step), decay = kd_ema_decay_at(t->c, t->ema_step);
    const double keep = pow(decay, 1 / (double)t->o.accum);          // of the running loss, which moves with each micro-batch
    double loss = 0, ema_loss = t->ema_loss, clip[2], square, squares = 0;
    const double batch = (double)t->o.batch, accum = (double)t->o.accum;

    assert(t->step < KD_MAX_STEP);
    if (t->seen > KD_MAX_SEEN - t->o.batch * t->o.accum)
        return kd_fail(err, KD_EFAIL, "step %lld: the random streams end after %lld images", (long long)t->step + 1,
                       (long long)KD_MAX_SEEN);
    KD_TRY(set_rates(t, rate, decay, err));
    if (t->sum) KD_TRY(t->be->fill(t->be, t->sum, 0, (size_t)t->ps->trained * sizeof(float), err));
    for (int64_t k = 0; k < t->o.accum; k++) {
        double part = 0;
        KD_TRY(run_micro(t, d, k, &part, err));
        if (t->square) KD_TRY(micro_square(t, &square, err));
        if (t->square) squares += square / accum;
        ema_loss = t->has_loss || k ? ema_loss * keep + (1 - keep) * part : part;
        loss += part / (double)t->o.accum;
    }
    if (t->update) KD_TRY(kd_program_run(t->update, err));
    KD_TRY(kd_program_get(t->update ? t->update : t->p, t->opt.clip, clip, err));
    const double norm = clip[1];
    if (!isfinite(norm))
        return kd_fail(err, KD_EFAIL, "step %lld: the gradient is not finite", (long long)t->step + 1);

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

void kd_trainer_profile(kd_trainer *t, bool on)
{
    kd_program_profile(t->p, on);
    if (t->update) kd_program_profile(t->update, on);
}

int kd_trainer_profile_print(const kd_trainer *t, FILE *to)
{
    kd_program *const programs[] = { t->p, t->update };
    return kd_program_profile_print(programs, t->update ? 2 : 1, to);
}

kd_train_plan kd_trainer_plan(const kd_trainer *t)
{
    const int64_t gradient = t->ps->trained * (int64_t)sizeof(float), state = kd_opt_state_bytes(t->ps, t->c);
    const int64_t host = kd_program_host_bytes(t->p) + (t->update ? kd_program_host_bytes(t->update) : 0);
    return (kd_train_plan){
        .flops_forward = t->flops_forward,
        .flops = kd_program_flops(t->p) / (double)t->o.batch,
        .state = state + (t->sum ? gradient : 0),
        .program = kd_program_bytes(t->p) + (t->update ? kd_program_bytes(t->update) : 0),
        .batch = host + 2 * t->o.batch * (int64_t)sizeof(float),
        .save = t->be->adopt ? 0 : state,
    };
}

int kd_trainer_reset_ema(kd_trainer *t, kd_err *err)
{
    KD_TRY(t->be->copy(t->be, t->s.w, t->s.ema, (size_t)t->ps->total * sizeof(float), err));
    t->ema_step = 0;
    t->ema_loss = 0;
    t->has_loss = false;
    return 0;
}

int kd_trainer_map_ema(kd_trainer *t, kd_model **to, kd_err *err)
{
    kd_config *c;
    void *w;
    *to = NULL;
    KD_TRY(kd_config_parse(&c, t->c->json, t->c->path, true, NULL, err));
    if (t->be->map(t->be, t->s.ema, (size_t)t->ps->total * sizeof(float), KD_MAP_READ, &w, err)) {
        kd_config_free(c);
        return err->code;
    }
    if (kd_model_around(to, c, w, err)) t->be->unmap(t->be, w, &(kd_err){0});
    return err->code;
}

int kd_trainer_unmap_ema(kd_trainer *t, kd_model *m, kd_err *err)
{
    float *w = m ? m->w : NULL;
    kd_model_free(m);
    return w ? t->be->unmap(t->be, w, err) : 0;
}
