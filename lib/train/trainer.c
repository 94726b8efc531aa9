// The state of a training run. Its steps are step.c.
#include "base/memory.h"
#include "train/trainer_state.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Making one -----------------------------------------------------------------------------------------------------------

static int alloc_state(kd_trainer *t, kd_err *err)
{
    const size_t losses = (size_t)(t->o.accum * t->o.batch), results = (size_t)t->room * kd_result_bytes(t);
    KD_TRY(kd_opt_state_new(&t->s, t->be, t->ps, t->c, err));
    if (t->o.accum > 1) KD_TRY(t->be->alloc(t->be, (void **)&t->sum, (size_t)t->ps->trained * sizeof(float), err));
    if (t->o.accum > 1) KD_TRY(t->be->alloc(t->be, (void **)&t->losses, losses * sizeof(float), err));
    KD_TRY(t->be->alloc(t->be, (void **)&t->results, results, err));
    t->read = kd_alloc(results);
    t->sigma = kd_alloc((size_t)t->o.batch * sizeof *t->sigma);
    t->class_cond = kd_alloc((size_t)t->o.batch * sizeof *t->class_cond);
    return t->read && t->sigma && t->class_cond ? 0 : kd_fail_memory(err, "a batch");
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
    kd_val *losses = kd_param(g, "losses", KD_SHAPE(t->o.accum * t->o.batch));
    if (sum) kd_bind(sum, t->sum);
    if (losses) kd_bind(losses, t->losses);
    kd_opt_append(&t->opt, g, t->ps, t->c, &t->s, sum, losses, t->o.clip);
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
    t->room = be->async ? KD_STEPS_QUEUED : 1;

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
    if (t->losses) t->be->free(t->be, t->losses);
    if (t->results) t->be->free(t->be, t->results);
    kd_free(t->read);
    kd_free(t->sigma);
    kd_free(t->class_cond);
    kd_params_free(t->ps);
    kd_config_free(t->c);
    kd_free(t);
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
        .batch = host + t->o.batch * (int64_t)(sizeof *t->sigma + sizeof *t->class_cond) + t->room * (int64_t)kd_result_bytes(t),
        .save = t->be->adopt ? 0 : state,
    };
}

int kd_trainer_reset_ema(kd_trainer *t, kd_err *err)
{
    KD_TRY(kd_trainer_finish(t, err));
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
    KD_TRY(kd_trainer_finish(t, err));
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
