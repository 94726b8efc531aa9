#include "train/session.h"
#include "base/memory.h"
#include "train/config_data.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// What is being put together.
typedef struct work {
    kd_session *s; const kd_session_opts *o; kd_backend *be;
    kd_frame *checkpoint; char *checkpoint_path;         // resumed from, or NULL
    kd_config *config;                                   // until the trainer has it
    kd_config *old;                                      // the checkpoint's
    kd_train_opts old_opts, opts;
    kd_model *init;
} work;

// Files of the name ----------------------------------------------------------------------------------------------------

// Nothing is changed before the run is locked, nor by a process that is refused later: what must go goes in the loop.
static int lock(work *w, kd_err *err)
{
    const kd_session_opts *o = w->o;
    KD_TRY(kd_run_lock_take(&w->s->lock, o->name, err));
    char *log = o->log ? kd_strdup(o->log) : kd_run_log(o->name);
    if (!log) return kd_fail_memory(err, "a file name");
    kd_log_open(&w->s->log, log, err);
    free(log);
    return err->code;
}

static int refuse_existing(const work *w, kd_err *err)
{
    const kd_session_opts *o = w->o;
    char *found;
    struct stat st;
    KD_TRY(kd_run_exists(&found, o->name, err));
    if (!found && o->log && !stat(o->log, &st) && S_ISREG(st.st_mode) && st.st_size > 0) found = kd_strdup(o->log);
    if (found && !o->force)
        kd_fail(err, KD_EUSAGE, "%s is there already%s%s: --resume auto goes on with it, --force %s, --name gives another name", found,
                o->resume ? ", of another run than " : "", o->resume ? o->resume : "", o->resume ? "replaces it" : "starts anew");
    free(found);
    return err->code;
}

// A run that goes on from a file: the newest checkpoint of its name, or one of another run that begins a new name here.
static int check_branch(work *w, kd_err *err)
{
    const kd_session_opts *o = w->o;
    kd_run_files *later = &w->s->replaced;
    KD_TRY(kd_run_list(later, o->name, err));
    const int at = kd_run_list_find(later, o->resume);
    if (at < 0) {
        w->s->anew = true;
        return refuse_existing(w, err);
    }
    kd_run_list_cut(later, at);
    if (at > 0 && !o->force)
        return kd_fail(err, KD_EUSAGE, "%s is later than %s: --resume auto goes on from the newest, --force gives up what is later, --name "
                       "gives another name", later->path[0], o->resume);
    return 0;
}

// The newest checkpoint of the name that is whole.
static int find_whole(work *w, kd_err *err)
{
    kd_run_files l;
    KD_TRY(kd_run_list(&l, w->o->name, err));
    for (int i = 0; i < l.n && !w->checkpoint; i++) {
        kd_err bad = {0};
        if (!kd_checkpoint_read(&w->checkpoint, l.path[i], &bad)) {
            if (!(w->checkpoint_path = kd_strdup(l.path[i]))) kd_fail_memory(err, "a file name");
        } else if (bad.code != KD_EFORMAT && bad.code != KD_EUSAGE) {
            kd_fail(err, bad.code, "%s", bad.msg);
            break;
        } else {
            w->o->say("%s; %s", bad.msg, i + 1 < l.n ? "trying the one before" : "no other is left");
        }
    }
    if (!err->code && l.n && !w->checkpoint)
        kd_fail(err, KD_EFORMAT, "%s: none of its %d checkpoints is whole; --force starts anew", w->o->name, l.n);
    if (!l.n) w->o->say("no checkpoint of %s yet: starting", w->o->name);
    kd_run_list_free(&l);
    return err->code;
}

static int open_checkpoint(work *w, kd_err *err)
{
    const char *resume = w->o->resume;
    if (!resume) return 0;
    if (!strcmp(resume, "auto")) KD_TRY(find_whole(w, err));
    else if (kd_checkpoint_read(&w->checkpoint, resume, err) || !(w->checkpoint_path = kd_strdup(resume)))
        return err->code ? err->code : kd_fail_memory(err, "a file name");
    if (!w->checkpoint) return 0;
    return kd_checkpoint_setup(w->checkpoint, w->checkpoint_path, &w->old, &w->old_opts, err);
}

static int look_at_files(work *w, kd_err *err)
{
    const kd_session_opts *o = w->o;
    if (o->plan || o->evaluate) return open_checkpoint(w, err);
    KD_TRY(lock(w, err));
    if (!o->resume) KD_TRY(refuse_existing(w, err));
    if (!o->resume && o->force) KD_TRY(kd_run_list(&w->s->replaced, o->name, err));
    KD_TRY(open_checkpoint(w, err));
    w->s->anew = !w->checkpoint;
    return o->resume && strcmp(o->resume, "auto") ? check_branch(w, err) : 0;
}

// Config and settings --------------------------------------------------------------------------------------------------

static int parse_again(kd_config **c, const kd_config *from, kd_err *err)
{
    char *warning = NULL;
    kd_config_parse(c, from->json, from->path, true, &warning, err);
    free(warning);                                       // said when it was first read
    return err->code;
}

static int load_config(work *w, kd_err *err)
{
    const kd_session_opts *o = w->o;
    if (o->init) {
        KD_TRY(kd_model_load(&w->init, o->init, false, err));
        if (w->init->warning) o->say("%s", w->init->warning);
    }
    if (o->config) return kd_config_load(&w->config, o->config, err);
    if (w->old) return parse_again(&w->config, w->old, err);
    if (w->init) return parse_again(&w->config, w->init->config, err);
    return kd_fail(err, KD_EUSAGE, "-c CONFIG is missing (it may be left out with --resume FILE or --init MODEL)");
}

static int note(work *w, kd_err *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int note(work *w, kd_err *err, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    char *copy = kd_strdup(line);
    if (!copy) return kd_fail_memory(err, "a note");
    assert(w->s->n_notes < KD_SESSION_NOTES);
    w->s->note[w->s->n_notes++] = copy;
    w->o->say("%s", line);
    return 0;
}

static int note_number(work *w, const char *what, double now, double was, kd_err *err)
{
    return now == was ? 0 : note(w, err, "%s %.10g, was %.10g", what, now, was);
}

// Keys that the network does not depend on, but training does.
static int note_keys(work *w, kd_err *err)
{
    char *change;
    for (int i = 0; !err->code && (change = kd_config_training_change(w->config, w->old, i)); i++) {
        note(w, err, "%s", change);
        free(change);
    }
    return err->code;
}

// What a resumed run does differently from the one before.
static int note_changes(work *w, kd_err *err)
{
    const kd_config *a = w->config, *b = w->old;
    if (a->sgd != b->sgd)
        KD_TRY(note(w, err, "optimizer.type %s, was %s: it starts with empty moments", a->sgd ? "sgd" : "adamw", b->sgd ? "sgd" : "adamw"));
    KD_TRY(note_number(w, "lr", w->opts.lr, w->old_opts.lr, err));
    KD_TRY(note_number(w, "optimizer.betas[0]", a->beta1, b->beta1, err));
    KD_TRY(note_number(w, "optimizer.betas[1]", a->beta2, b->beta2, err));
    KD_TRY(note_number(w, "optimizer.eps", a->eps, b->eps, err));
    KD_TRY(note_number(w, "optimizer.weight_decay", a->weight_decay, b->weight_decay, err));
    KD_TRY(note_number(w, "optimizer.momentum", a->momentum, b->momentum, err));
    KD_TRY(note_number(w, "optimizer.nesterov", a->nesterov, b->nesterov, err));
    if (a->lr_type != b->lr_type || a->lr_warmup != b->lr_warmup || a->lr_inv_gamma != b->lr_inv_gamma || a->lr_power != b->lr_power
        || a->lr_min != b->lr_min || a->lr_num_steps != b->lr_num_steps || a->lr_decay != b->lr_decay)
        KD_TRY(note(w, err, "lr_sched is another than before"));
    if (a->ema_power != b->ema_power || a->ema_max != b->ema_max) KD_TRY(note(w, err, "ema_sched is another than before"));
    KD_TRY(note_number(w, "batch", (double)w->opts.batch, (double)w->old_opts.batch, err));
    KD_TRY(note_number(w, "accum", (double)w->opts.accum, (double)w->old_opts.accum, err));
    KD_TRY(note_number(w, "clip", w->opts.clip, w->old_opts.clip, err));
    if (w->opts.gns != w->old_opts.gns)
        KD_TRY(note(w, err, w->opts.gns ? "gns, was without: noise levels are no longer stratified"
                                        : "no gns, was with: noise levels are stratified"));
    return note_keys(w, err);
}

static int settle(work *w, kd_err *err)
{
    const kd_session_opts *o = w->o;
    const kd_train_opts first = { .batch = 64, .accum = 1, .seed = 0, .clip = 1, .lr = w->config->lr };
    const kd_train_opts *base = w->old ? &w->old_opts : &first;

    w->opts = (kd_train_opts){
        .batch = o->batch > 0 ? o->batch : base->batch, .accum = o->accum > 0 ? o->accum : base->accum,
        .seed = o->has_seed ? o->seed : base->seed, .clip = o->clip >= 0 ? o->clip : base->clip,
        .checkpointing = o->checkpointing, .gns = !o->no_gns && (o->gns || base->gns),
        // A rate in the config counts on resuming only if it is another than the config had.
        .lr = o->lr > 0 ? o->lr : w->old && w->config->lr != w->old->lr ? w->config->lr : base->lr,
    };
    if (w->opts.gns && w->opts.accum < 2)
        return kd_fail(err, KD_EUSAGE, "--gns compares batches of a step: it needs --accum 2 or more%s",
                       o->gns ? "" : "; --no-gns ends it");
    if (!w->old) return 0;
    if (w->opts.seed != w->old_opts.seed)
        return kd_fail(err, KD_EUSAGE, "--seed %llu: %s was started with %llu", (unsigned long long)w->opts.seed, w->checkpoint_path,
                       (unsigned long long)w->old_opts.seed);
    return note_changes(w, err);
}

// Data -----------------------------------------------------------------------------------------------------------------

// Something on stdin: not a terminal, and not /dev/null.
static bool stdin_has_data(void)
{
    struct stat st;
    return !fstat(STDIN_FILENO, &st) && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode));
}

static void (*prep_say)(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say_line(const char *line) { prep_say("%s", line); }

static int read_data(work *w, kd_err *err)
{
    const kd_session_opts *o = w->o;
    if (o->evaluate) return 0;
    const char *path = o->images ? o->images : stdin_has_data() ? "-" : NULL;
    const char *name = !path ? w->config->dataset_location : !strcmp(path, "-") ? "stdin" : path;
    if (path) {
        KD_TRY(kd_dataset_read(&w->s->data, path, o->data_mem, err));
    } else {
        if (o->plan) return 0;
        prep_say = o->say;
        KD_TRY(kd_config_data(&w->s->data, w->config, o->data_mem, say_line, err));
    }
    o->say("%s: %lld images of %lldx%lldx%lld", name, (long long)w->s->data.n, (long long)w->s->data.h, (long long)w->s->data.w,
           (long long)w->s->data.c);
    return kd_train_fits(w->config, &w->s->data, name, err);
}

// The trainer ----------------------------------------------------------------------------------------------------------

// What was read of weights, and goes before a step takes memory: the program, which has room for the gradients, is larger.
static int64_t held(const work *w)
{
    int64_t bytes = w->init ? w->init->params->total * (int64_t)sizeof(float) : 0;
    for (int i = 0; w->checkpoint && i < w->checkpoint->n; i++) bytes += (int64_t)kd_tensor_bytes(&w->checkpoint->t[i]);
    return bytes;
}

static int make_trainer(work *w, kd_err *err)
{
    kd_config *c = w->config;
    w->config = NULL;
    w->s->memory = kd_memory_peak() - held(w);
    w->opts.resumed = w->checkpoint && !w->o->plan;
    KD_TRY(kd_trainer_new(&w->s->t, c, &w->opts, w->init, w->be, err));
    if (w->checkpoint && !w->o->plan) {
        KD_TRY(kd_trainer_load(w->s->t, w->checkpoint, w->checkpoint_path, w->o->evaluate ? NULL : &w->s->data, err));
        w->o->say("%s %s at step %lld", w->o->evaluate ? "evaluating" : "resuming from", w->checkpoint_path,
                  (long long)kd_trainer_steps(w->s->t));
    }
    return w->o->reset_ema ? kd_trainer_reset_ema(w->s->t, err) : 0;
}

static int check_model(work *w, kd_err *err)
{
    if (!w->old || !w->o->config) return 0;
    char *difference = kd_config_model_difference(w->config, w->old);
    if (difference)
        kd_fail(err, KD_EUSAGE, "%s and %s differ in the model: %s", w->o->config, w->checkpoint_path, difference);
    free(difference);
    return err->code;
}

int kd_session_open(kd_session *s, const kd_session_opts *o, kd_backend *be, kd_err *err)
{
    work w = { .s = s, .o = o, .be = be };
    *s = (kd_session){0};
    if (look_at_files(&w, err) || load_config(&w, err) || check_model(&w, err) || settle(&w, err) || read_data(&w, err)) goto done;
    make_trainer(&w, err);
done:
    kd_frame_free(w.checkpoint);
    free(w.checkpoint_path);
    kd_config_free(w.config);
    kd_config_free(w.old);
    kd_model_free(w.init);
    return err->code;
}

void kd_session_close(kd_session *s)
{
    kd_trainer_free(s->t);
    kd_dataset_free(&s->data);
    kd_run_list_free(&s->replaced);
    kd_log_close(s->log);
    kd_run_lock_free(s->lock);
    for (int i = 0; i < s->n_notes; i++) free(s->note[i]);
    *s = (kd_session){0};
}
