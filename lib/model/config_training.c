// The sections of a filled-in config that training reads: dataset, optimizer, schedules.
#include "model/config_parts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static int copy_string(const kd_json *o, const char *key, char **to, kd_err *err)
{
    const kd_json j = kd_json_at(o, key);
    const char *text;
    KD_TRY(kd_json_str(&j, &text, err));
    *to = kd_strdup(text);
    return *to ? 0 : kd_fail_memory(err, o->file);
}

/// A guided model says itself how many classes it has.
static int read_classes(kd_config *c, const kd_json *o, kd_err *err)
{
    const kd_json j = kd_json_at(o, "num_classes");
    int64_t classes;
    if (json_is_false(j.v))                  // Python's 0
        classes = 0;
    else
        KD_TRY(kd_config_int(o, "num_classes", 0, 10 * 1000 * 1000, &classes, err));
    if (c->type != KD_MODEL_GUIDED)
        c->classes = classes;
    else if (classes && classes != c->classes)
        return kd_json_fail(&j, err, "the model has %lld: set it to 0 or that", (long long)c->classes);
    return 0;
}

static int read_dataset(kd_config *c, const kd_json *o, bool foreign, kd_err *err)
{
    static const char *const types[] = { "imagefolder", "imagefolder-class", "cifar10", "mnist", "huggingface", "custom" };
    int type;
    if (!foreign)
        KD_TRY(kd_config_choice(o, "type", types, COUNT(types), &type, err));
    KD_TRY(copy_string(o, "type", &c->dataset_type, err));
    if (kd_config_has(o, "location"))
        KD_TRY(copy_string(o, "location", &c->dataset_location, err));
    KD_TRY(read_classes(c, o, err));
    KD_TRY(kd_config_num(o, "cond_dropout_rate", 0, 1, &c->cond_dropout, err));
    if (!c->no_class)
        c->cond_dropout = 0;
    return 0;
}

static int read_beta(const kd_json *betas, int i, double *to, kd_err *err)
{
    const kd_json j = kd_json_item(betas, i);
    KD_TRY(kd_json_num(&j, 0, 1, to, err));
    return *to < 1 ? 0 : kd_json_fail(&j, err, "expected a number below 1");
}

static int read_optimizer(kd_config *c, const kd_json *o, bool foreign, kd_err *err)
{
    static const char *const types[] = { "adamw", "sgd", "adam8bit" };
    const kd_json type = kd_json_at(o, "type"), betas = kd_json_at(o, "betas"), nesterov = kd_json_at(o, "nesterov");
    int t;
    size_t n;
    KD_TRY(kd_config_choice(o, "type", types, COUNT(types), &t, err));
    if (t == 2 && !foreign)         // who samples from a foreign model does not mind how it was trained
        return kd_json_fail(&type, err, "adam8bit keeps its moments in 8 bits by a GPU library's own rounding, which "
                            "this program does not do; \"adamw\" is the same update at full precision");
    c->sgd = t == 1;
    KD_TRY(kd_config_num(o, "lr", 0, INFINITY, &c->lr, err));
    KD_TRY(kd_json_array(&betas, &n, err));
    if (n != 2)
        return kd_json_fail(&betas, err, "expected 2 numbers, got %zu", n);
    KD_TRY(read_beta(&betas, 0, &c->beta1, err));
    KD_TRY(read_beta(&betas, 1, &c->beta2, err));
    KD_TRY(kd_config_num(o, "eps", 0, INFINITY, &c->eps, err));
    KD_TRY(kd_config_num(o, "weight_decay", 0, INFINITY, &c->weight_decay, err));
    if (kd_config_has(o, "momentum"))
        KD_TRY(kd_config_num(o, "momentum", 0, INFINITY, &c->momentum, err));
    if (kd_config_has(o, "nesterov"))
        KD_TRY(kd_config_bool(o, "nesterov", &c->nesterov, err));
    if (c->sgd && c->nesterov && c->momentum == 0)
        return kd_json_fail(&nesterov, err, "needs a momentum above 0");
    return 0;
}

static int read_lr_sched(kd_config *c, const kd_json *o, kd_err *err)
{
    static const char *const types[] = { "constant", "inverse", "exponential" };
    const kd_json warmup = kd_json_at(o, "warmup");
    int type;
    KD_TRY(kd_config_choice(o, "type", types, COUNT(types), &type, err));
    c->lr_type = type;
    KD_TRY(kd_json_num(&warmup, 0, 1, &c->lr_warmup, err));
    if (c->lr_warmup >= 1)
        return kd_json_fail(&warmup, err, "expected a number below 1 (the warm-up factor of a step, not a number of steps)");
    c->lr_inv_gamma = c->lr_power = 1;             // the defaults of the peer's schedule classes
    c->lr_decay = 0.5;
    if (kd_config_has(o, "inv_gamma"))
        KD_TRY(kd_config_positive(o, "inv_gamma", &c->lr_inv_gamma, err));
    if (kd_config_has(o, "power"))
        KD_TRY(kd_config_num(o, "power", 0, INFINITY, &c->lr_power, err));
    if (kd_config_has(o, "min_lr"))
        KD_TRY(kd_config_num(o, "min_lr", 0, INFINITY, &c->lr_min, err));
    if (kd_config_has(o, "decay"))
        KD_TRY(kd_config_positive(o, "decay", &c->lr_decay, err));
    if (c->lr_type == KD_LR_EXPONENTIAL || kd_config_has(o, "num_steps"))
        KD_TRY(kd_config_positive(o, "num_steps", &c->lr_num_steps, err));
    return 0;
}

static int read_ema_sched(kd_config *c, const kd_json *o, kd_err *err)
{
    static const char *const types[] = { "inverse" };
    int type;
    KD_TRY(kd_config_choice(o, "type", types, COUNT(types), &type, err));
    KD_TRY(kd_config_num(o, "power", 0, INFINITY, &c->ema_power, err));
    return kd_config_num(o, "max_value", 0, 1, &c->ema_max, err);
}

int kd_config_read_training(kd_config *c, const kd_json *top, bool foreign, kd_err *err)
{
    const kd_json dataset = kd_json_at(top, "dataset"), optimizer = kd_json_at(top, "optimizer"),
                  lr = kd_json_at(top, "lr_sched"), ema = kd_json_at(top, "ema_sched");
    KD_TRY(read_dataset(c, &dataset, foreign, err));
    KD_TRY(read_optimizer(c, &optimizer, foreign, err));
    KD_TRY(read_lr_sched(c, &lr, err));
    return read_ema_sched(c, &ema, err);
}

char *kd_config_dataset_hint(const kd_config *c)
{
    const char *type = c->dataset_type, *where = c->dataset_location ? c->dataset_location : "its place";
    kd_str s = {0};
    kd_err err = {0};
    char size[48];
    if (c->size[0] == c->size[1])
        snprintf(size, sizeof size, "%lld", (long long)c->size[0]);
    else
        snprintf(size, sizeof size, "%lldx%lld", (long long)c->size[1], (long long)c->size[0]);
    if (!strcmp(type, "cifar10"))
        kd_str_printf(&s, &err, "dataset cifar10 (%s) is stored as pickles, which are not read; take the binary version: "
                      "kd-prep cifar-10-batches-bin/data_batch_*.bin --size %s | kd-train -c CONFIG", where, size);
    else if (!strcmp(type, "huggingface") || !strcmp(type, "custom"))
        kd_str_printf(&s, &err, "dataset %s (%s) is read by Python code only; save its images to a folder%s, then: "
                      "kd-prep FOLDER --size %s%s%s | kd-train -c CONFIG", type, where,
                      c->classes ? " with one sub-folder a class" : "", size, c->channels == 1 ? " --channels 1" : "",
                      c->classes ? " --labels dir" : "");
    return s.p;
}
