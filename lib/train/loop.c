#include "train/loop.h"
#include "base/io.h"
#include "base/memory.h"
#include "base/talk.h"
#include "train/demo.h"
#include "train/log.h"
#include <stdlib.h>
#include <unistd.h>

typedef struct loop {
    kd_trainer *t; const kd_dataset *d; const kd_loop *o;
    kd_log *log;
    double elapsed;                    // seconds in steps, of earlier processes too
    double began; int64_t first;       // of this process: for the time left
    double loss; int64_t losses; double seconds;        // since the last plain line
    int64_t saved;                     // step of the newest checkpoint, -1: none yet
    bool replaced;
} loop;

// Files ----------------------------------------------------------------------------------------------------------------

// Order matters: the log says what the checkpoint says before it is there, and nothing old goes before the new is whole.
static int save(loop *l, kd_err *err)
{
    const int64_t step = kd_trainer_steps(l->t);
    char *path = kd_run_checkpoint(l->o->name, step);
    if (!path) return kd_fail_memory(err, "a file name");
    if (kd_log_sync(l->log, err) || kd_trainer_save(l->t, path, l->d, err)) goto done;
    l->saved = step;
    if (!l->replaced && kd_run_replace(&l->o->replaced, step, err)) goto done;
    l->replaced = true;
    if (kd_run_prune(l->o->name, step, l->o->keep, err)) goto done;
    l->o->say("saved %s", path);
done:
    free(path);
    return err->code;
}

static int demo(loop *l, kd_err *err)
{
    char *path = kd_run_demo(l->o->name, kd_trainer_steps(l->t));
    if (!path) return kd_fail_memory(err, "a file name");
    l->o->status("drawing %s", path);
    if (!kd_demo(l->t, path, l->o->demo_n, err)) l->o->say("drew %s", path);
    free(path);
    return err->code;
}

static int evaluate(loop *l, double ema_loss, kd_err *err)
{
    const int64_t step = kd_trainer_steps(l->t);
    kd_str said = {0};
    l->o->status("evaluating step %lld", (long long)step);
    int code = kd_eval_run(l->o->eval, l->t, err);
    const kd_scores *s = kd_eval_scores(l->o->eval);
    const bool random = kd_eval_random(l->o->eval);
    if (!code) code = kd_log_scores(l->log, step, s, random, err);
    if (!code) code = kd_eval_record(l->o->eval, step, l->elapsed, ema_loss, err);
    for (int i = 0; !code && i < s->n; i++) code = kd_str_printf(&said, err, "%s %.6g%s", s->score[i].name, s->score[i].value,
                                                                 i + 1 < s->n ? ", " : random ? " [random features]" : "");
    if (!code) l->o->say("step %lld: %s", (long long)step, said.p);
    free(said.p);
    return code;
}

// Talk -----------------------------------------------------------------------------------------------------------------

static void progress(loop *l, const kd_step_stats *s, double seconds)
{
    const kd_loop *o = l->o;
    const kd_train_opts *to = kd_trainer_opts(l->t);
    const int64_t step = kd_trainer_steps(l->t);
    const double per_step = (kd_clock() - l->began) / (double)(step - l->first);
    char left[16] = "", total[24] = "";
    l->loss += s->loss;
    l->seconds += seconds;
    l->losses++;
    if (o->steps) {
        kd_duration(left, per_step * (double)(o->steps - step));
        snprintf(total, sizeof total, "/%lld", (long long)o->steps);
    }
    const double speed = (double)(to->batch * to->accum * l->losses) / l->seconds;
    if (o->terminal)
        o->status("step %lld%s  loss %.4f  %.4g images/s%s%s", (long long)step, total, s->ema_loss, speed, *left ? "  left " : "", left);
    if (step % o->log_every) return;
    if (!o->terminal)
        o->say("step %lld%s: loss %.4f, average %.4f, %.4g images/s%s%s", (long long)step, total, l->loss / (double)l->losses,
               s->ema_loss, speed, *left ? ", left " : "", left);
    l->loss = l->seconds = 0;
    l->losses = 0;
}

// A step that failed: the message with the file to go on from.
static int fail_step(const loop *l, kd_err *err)
{
    char *path = l->saved >= 0 ? kd_run_checkpoint(l->o->name, l->saved) : NULL;
    if (path && !access(path, F_OK)) {
        const kd_err was = *err;
        *err = (kd_err){0};
        kd_fail(err, was.code, "%.700s; last good checkpoint: %s", was.msg, path);
    }
    free(path);
    return err->code;
}

// Training -------------------------------------------------------------------------------------------------------------

static int one_step(loop *l, kd_err *err)
{
    const kd_train_opts *to = kd_trainer_opts(l->t);
    kd_step_stats s;
    const double began = kd_clock();
    if (kd_trainer_step(l->t, l->d, &s, err)) return fail_step(l, err);
    const double seconds = kd_clock() - began;
    l->elapsed += seconds;
    KD_TRY(kd_log_step(l->log, kd_trainer_steps(l->t), &s, (double)(to->batch * to->accum) / seconds, l->elapsed, err));
    progress(l, &s, seconds);
    return 0;
}

static int stop(loop *l, kd_err *err)
{
    const int64_t step = kd_trainer_steps(l->t);
    if (step > 0 && l->saved != step) KD_TRY(save(l, err));
    return kd_fail(err, kd_fail_interrupted(&(kd_err){0}), "interrupted after step %lld", (long long)step);
}

static int train(loop *l, kd_err *err)
{
    const kd_loop *o = l->o;
    const int64_t last = o->steps ? o->steps : KD_MAX_STEP;
    for (int64_t step = kd_trainer_steps(l->t); step < last; ) {
        if (kd_interrupted()) return stop(l, err);
        KD_TRY(one_step(l, err));
        step = kd_trainer_steps(l->t);
        if (step == last || step % o->save_every == 0) KD_TRY(save(l, err));
        if (o->demo_every && step % o->demo_every == 0) KD_TRY(demo(l, err));
        if (!o->eval || !o->eval_every || step % o->eval_every || !evaluate(l, kd_trainer_loss(l->t), err)) continue;
        if (!kd_interrupted()) return err->code;
        *err = (kd_err){0};                            // what is not evaluated is saved still
        return stop(l, err);
    }
    return kd_interrupted() ? stop(l, err) : 0;
}

static int open_table(const kd_loop *o, int64_t step, kd_err *err)
{
    char *path = kd_run_metrics(o->name);
    const int code = path ? kd_eval_table(o->eval, path, step, err) : kd_fail_memory(err, "a file name");
    free(path);
    return code;
}

int kd_train_loop(kd_trainer *t, const kd_dataset *d, const kd_loop *o, kd_err *err)
{
    const int64_t first = kd_trainer_steps(t);
    loop l = { .t = t, .d = d, .o = o, .first = first, .saved = first > 0 ? first : -1, .replaced = o->replaced.n == 0 };
    char *log = o->log ? kd_strdup(o->log) : kd_run_log(o->name);

    if (!log) {
        kd_fail_memory(err, "a file name");
        goto done;
    }
    if (kd_log_open(&l.log, log, first, &l.elapsed, err)) goto done;
    if (o->eval && open_table(o, first, err)) goto done;
    for (int i = 0; i < o->n_notes; i++)
        if (kd_log_note(l.log, first, o->notes[i], err)) goto done;
    l.began = kd_clock();
    train(&l, err);
    if (!err->code) kd_log_sync(l.log, err);
done:
    kd_log_close(l.log);
    free(log);
    return err->code;
}
