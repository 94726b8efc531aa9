// k-diffusion's training checkpoint (formats/torch.md) as ours (formats/checkpoint.md).
#include "base/json.h"
#include "model/import_private.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIP = 1 };                                       // train.py's limit of the gradient norm, which is not in the file

typedef struct counts { int64_t step, lr_step, ema_step, accum; } counts;

static int number_at(const kd_import *i, const char *section, const char *key, int64_t most, int64_t *to, kd_err *err)
{
    const kd_json top = kd_json_top(i->torch->rest, i->file, KD_EFORMAT), o = kd_json_at(&top, section), v = kd_json_at(&o, key);
    return kd_json_int(&v, 0, most, to, err);
}

// Parameters ------------------------------------------------------------------------------------------------------

// The peer's param_groups(): transformers put the mapping network into two groups of its own, image_v1 has decayed and not decayed alone.
static int n_groups(const kd_config *c) { return c->type == KD_MODEL_IMAGE_V1 ? 2 : 4; }

static int check_group(const kd_import *i, const kd_params *ps, const json_t *groups, int g, int64_t *next, kd_err *err)
{
    const json_t *list = json_object_get(json_array_get(groups, (size_t)g), "params");
    int64_t want = 0;
    for (int k = 0; k < ps->n; k++)
        want += ps->p[k].group == g;
    if (!json_is_array(list) || (int64_t)json_array_size(list) != want)
        return kd_fail(err, KD_EUSAGE, "%s: opt.param_groups[%d]: expected %" PRId64 " parameters, got %zu", i->file, g, want,
                       json_array_size(list));
    for (int64_t k = 0; k < want; k++, ++*next)
        if (!json_is_integer(json_array_get(list, (size_t)k)) || json_integer_value(json_array_get(list, (size_t)k)) != *next)
            return kd_fail(err, KD_EUSAGE, "%s: opt.param_groups[%d].params[%" PRId64 "]: expected %" PRId64, i->file, g, k, *next);
    return 0;
}

// The optimizer numbers parameters in the order of its groups; ours are in the same order. Sizes of groups that differ would shift them.
static int check_groups(const kd_import *i, const kd_config *c, const kd_params *ps, kd_err *err)
{
    const json_t *groups = json_object_get(json_object_get(i->torch->rest, "opt"), "param_groups");
    int64_t next = 0;
    if (!json_is_array(groups) || json_array_size(groups) != (size_t)n_groups(c))
        return kd_fail(err, KD_EUSAGE, "%s: opt.param_groups: expected %d groups, got %zu", i->file, n_groups(c), json_array_size(groups));
    for (int g = 0; g < n_groups(c); g++)
        KD_TRY(check_group(i, ps, groups, g, &next, err));
    return 0;
}

static int add(kd_frame *f, const char *prefix, const kd_param_info *p, const kd_tensor *from, kd_err *err)
{
    kd_str name = {0};
    kd_tensor *t = NULL;
    if (!kd_str_printf(&name, err, "%s%s", prefix, p->name) && !kd_frame_add(f, name.p, KD_F32, p->shape, NULL, &t, err) && from)
        kd_convert(t->data, KD_F32, from->data, from->dtype, p->count);
    free(name.p);
    return err->code;
}

// Weights and buffers; kd_model_of has found all of them, in their shapes.
static int add_weights(kd_frame *f, const char *prefix, const kd_model *m, kd_err *err)
{
    for (int k = 0; k < m->params->n; k++) {
        const kd_param_info *p = &m->params->p[k];
        const kd_tensor from = { .data = m->w + p->offset, .dtype = KD_F32, .shape = p->shape };
        KD_TRY(add(f, prefix, p, &from, err));
    }
    return 0;
}

// A parameter that had no gradient yet has no moments: zeros, from which they start.
static int add_moments(kd_frame *f, const char *prefix, const kd_import *i, const kd_params *ps, const char *moment, kd_err *err)
{
    int index = 0, found = 0;
    for (int k = 0; k < ps->n; k++) {
        const kd_param_info *p = &ps->p[k];
        char name[80], have[100], want[100];
        if (p->group < 0)
            continue;
        snprintf(name, sizeof name, "opt.state.%d.%s", index++, moment);
        const kd_tensor *t = kd_frame_get(i->torch->tensors, name);
        found += t != NULL;
        if (t && !kd_shape_same(&t->shape, &p->shape))
            return kd_fail(err, KD_EUSAGE, "%s: %s is of %s: expected %s, got %s", i->file, name, p->name,
                           kd_shape_str(want, sizeof want, &p->shape), kd_shape_str(have, sizeof have, &t->shape));
        KD_TRY(add(f, prefix, p, t, err));
    }
    return found || !json_object_get(i->torch->rest, "opt") ? 0
         : kd_fail(err, KD_EUSAGE, "%s: its optimizer has no %s: another than the config's", i->file, moment);
}

// Counts ----------------------------------------------------------------------------------------------------------

// Steps that a parameter's moments have seen: a tensor of one number since PyTorch 1.12, a number before. None: -1.
static int step_at(const kd_import *i, int index, double *step, kd_err *err)
{
    char name[48], key[16];
    snprintf(key, sizeof key, "%d", index);
    snprintf(name, sizeof name, "opt.state.%s.step", key);
    const kd_tensor *t = kd_frame_get(i->torch->tensors, name);
    const json_t *state = json_object_get(json_object_get(i->torch->rest, "opt"), "state"),
                 *old = json_object_get(json_object_get(state, key), "step");
    *step = json_is_number(old) ? json_number_value(old) : -1;
    if (t && kd_tensor_count(t) == 1)
        kd_convert(step, KD_F64, t->data, t->dtype, 1);
    return *step >= -1 && *step < 1 << 24 && *step == floor(*step) ? 0
         : kd_fail(err, KD_EFORMAT, "%s: %s: expected a number of steps, got %g", i->file, name, *step);
}

// One count stands for all of them here. SGD counts none: -1; nor does a parameter that has had no gradient.
static int opt_step(const kd_import *i, const kd_params *ps, int64_t *step, kd_err *err)
{
    *step = -1;
    for (int k = 0, index = 0; k < ps->n; k++) {
        double x;
        if (ps->p[k].group < 0)
            continue;
        KD_TRY(step_at(i, index, &x, err));
        if (x >= 0 && *step >= 0 && *step != (int64_t)x)
            return kd_fail(err, KD_EUSAGE, "%s: opt.state.%d.step: expected %" PRId64 " as for the parameters before, got %g", i->file,
                           index, *step, x);
        *step = x >= 0 ? (int64_t)x : *step;
        index++;
    }
    return 0;
}

// The learning rate counts micro-batches, the optimizer steps; so the quotient is how many make a step.
static int read_counts(const kd_import *i, const kd_params *ps, counts *n, kd_err *err)
{
    KD_TRY(number_at(i, "sched", "last_epoch", 1 << 30, &n->lr_step, err));
    KD_TRY(number_at(i, "ema_sched", "last_epoch", 1 << 24, &n->ema_step, err));
    KD_TRY(opt_step(i, ps, &n->step, err));
    if (n->step < 0)
        n->step = n->ema_step;
    n->accum = n->step && n->lr_step > n->step && n->lr_step % n->step == 0 ? n->lr_step / n->step : 1;
    return 0;
}

static int put(kd_frame *f, const char *key, kd_err *err, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static int put(kd_frame *f, const char *key, kd_err *err, const char *fmt, ...)
{
    char text[40];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return kd_frame_set_meta(f, key, text, err);
}

static int put_meta(kd_frame *f, const kd_import *i, const kd_config *c, const counts *n, const kd_import_run *run, kd_err *err)
{
    const json_t *groups = json_object_get(json_object_get(i->torch->rest, "opt"), "param_groups"),
                 *rate = json_object_get(json_array_get(groups, 0), "initial_lr"),
                 *loss = json_object_get(json_object_get(i->torch->rest, "ema_stats"), "loss");
    KD_TRY(kd_frame_set_meta(f, "kd", "checkpoint/1", err));
    KD_TRY(kd_frame_set_meta(f, "config", c->json, err));
    KD_TRY(put(f, "kd_step", err, "%" PRId64, n->step));
    KD_TRY(put(f, "kd_seen", err, "%" PRId64, n->step * n->accum * run->batch));
    KD_TRY(put(f, "kd_lr_step", err, "%" PRId64, n->lr_step));
    KD_TRY(put(f, "kd_ema_step", err, "%" PRId64, n->ema_step));
    KD_TRY(put(f, "kd_opt_step", err, "%" PRId64, n->step));
    KD_TRY(put(f, "kd_seed", err, "%" PRIu64, run->seed));
    if (json_is_number(loss) && json_number_value(loss) >= 0)
        KD_TRY(put(f, "kd_loss", err, "%.17g", json_number_value(loss)));
    KD_TRY(put(f, "kd_batch", err, "%" PRId64, run->batch));
    KD_TRY(put(f, "kd_accum", err, "%" PRId64, n->accum));
    KD_TRY(put(f, "kd_lr", err, "%.17g", json_is_number(rate) && json_number_value(rate) > 0 ? json_number_value(rate) : c->lr));
    return put(f, "kd_clip", err, "%d", CLIP);
}

// All of it -------------------------------------------------------------------------------------------------------

static int model_at(kd_model **m, const kd_import *i, const char *prefix, const kd_config *c, kd_err *err)
{
    kd_frame *part;
    kd_config *copy;
    char *warning = NULL;
    if (!kd_import_part(&part, i->torch->tensors, prefix, err) && !kd_config_parse(&copy, c->json, i->file, true, &warning, err))
        kd_model_of(m, copy, part, i->file, err);
    free(warning);
    kd_frame_free(part);
    return err->code;
}

static int fill(kd_frame *f, const kd_import *i, const kd_config *c, const kd_model *raw, const kd_model *ema, kd_err *err)
{
    KD_TRY(check_groups(i, c, raw->params, err));
    KD_TRY(add_weights(f, "model.", raw, err));
    KD_TRY(add_weights(f, "ema.", ema, err));
    if (!c->sgd || c->momentum > 0)
        KD_TRY(add_moments(f, "opt.m.", i, raw->params, c->sgd ? "momentum_buffer" : "exp_avg", err));
    return c->sgd ? 0 : add_moments(f, "opt.v.", i, raw->params, "exp_avg_sq", err);
}

static int say(char **said, const kd_import *i, const char *warning, const counts *n, const kd_import_run *run, kd_err *err)
{
    kd_str s = {0};
    if (warning)
        KD_TRY(kd_str_printf(&s, err, "%s; ", warning));
    if (kd_str_printf(&s, err, "%s: %" PRId64 " steps of %" PRId64 " x %" PRId64 " images taken for granted (--batch); its data, seed and "
                      "place in the epoch are not in it", i->file, n->step, n->accum, run->batch)) {
        free(s.p);
        return err->code;
    }
    *said = s.p;
    return 0;
}

int kd_import_checkpoint(kd_frame **out, const kd_import *i, kd_config *config, const kd_import_run *run, char **said, kd_err *err)
{
    kd_config *c = NULL;
    kd_model *raw = NULL, *ema = NULL;
    kd_frame *f = NULL;
    char *warning = NULL;
    counts n = {0};
    *out = NULL;
    *said = NULL;
    if (kd_import_config(&c, i, config, &warning, err))
        goto done;
    if (!c) {
        kd_fail(err, KD_EUSAGE, "%s: no config in it, and how it was trained cannot be guessed: --config gives one", i->file);
        goto done;
    }
    if (model_at(&raw, i, "model.", c, err) || model_at(&ema, i, "model_ema.", c, err) || read_counts(i, raw->params, &n, err))
        goto done;
    if (!(f = kd_frame_new()))
        kd_fail_memory(err, i->file);
    else if (!put_meta(f, i, c, &n, run, err) && !fill(f, i, c, raw, ema, err))
        say(said, i, warning, &n, run, err);
done:
    if (err->code)
        kd_frame_free(f);
    else
        *out = f;
    kd_model_free(raw);
    kd_model_free(ema);
    kd_config_free(c);
    free(warning);
    return err->code;
}
