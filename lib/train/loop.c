#include "train/loop.h"
#include "base/io.h"
#include "base/memory.h"
#include "base/talk.h"
#include "train/demo.h"
#include <stdlib.h>
#include <unistd.h>

typedef struct loop {
    kd_trainer *t; const kd_dataset *d; const kd_loop *o;
    double elapsed;                    // seconds in steps, of earlier processes too
    double began; int64_t first;       // of this process: for the time left
    double loss; int64_t losses; double seconds;        // since the last plain line
    int64_t queued; double spent;      // steps since results were last read, and the seconds in them
    double pace;                       // seconds per step, of the steps that were read last; 0: none were
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
    if (kd_log_sync(l->o->log, err) || kd_trainer_save(l->t, path, l->d, err)) goto done;
    l->saved = step;
    if (!l->replaced && kd_run_replace(&l->o->replaced, step, err)) goto done;
    l->replaced = true;
    if (kd_run_prune(l->o->name, step, l->o->keep, err)) goto done;
    l->o->say("saved %s", path);
done:
    free(path);
    return err->code;
}

// Talk -----------------------------------------------------------------------------------------------------------------

static void progress(loop *l, const kd_step_stats *s, double seconds)
{
    const kd_loop *o = l->o;
    const kd_train_opts *to = kd_trainer_opts(l->t);
    const int64_t step = s->step;
    const double per_step = (kd_clock() - l->began) / (double)(kd_trainer_steps(l->t) - l->first);
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

// Steps that were read at once took the same time each.
static int report(loop *l, const kd_step_stats *s, int n, kd_err *err)
{
    const kd_train_opts *to = kd_trainer_opts(l->t);
    if (!n) return 0;
    l->pace = l->spent / (double)l->queued;
    l->spent = 0, l->queued = 0;
    for (int i = 0; i < n; i++) {
        l->elapsed += l->pace;
        KD_TRY(kd_log_step(l->o->log, s[i].step, &s[i], (double)(to->batch * to->accum) / l->pace, l->elapsed, err));
        progress(l, &s[i], l->pace);
    }
    return 0;
}

// Steps are queued for half a second at most: then the status line moves, and a signal does not wait for longer.
static const double MOST_QUEUED = 0.5;

// Reads the results of the steps that are queued, if it is time or if `wait`.
static int read_steps(loop *l, bool wait, kd_err *err)
{
    kd_step_stats s[KD_STEPS_QUEUED];
    kd_err bad = {0};
    int n;
    const double began = kd_clock();
    kd_trainer_results(l->t, wait || l->pace == 0 || (double)l->queued * l->pace >= MOST_QUEUED, s, &n, &bad);
    l->spent += kd_clock() - began;
    KD_TRY(report(l, s, n, err));
    if (!bad.code) return 0;
    *err = bad;
    return fail_step(l, err);
}

// A step that cannot be queued is reported after those before it.
static int one_step(loop *l, bool wait, kd_err *err)
{
    kd_err bad = {0};
    const double began = kd_clock();
    kd_trainer_step(l->t, l->d, &bad);
    l->spent += kd_clock() - began;
    l->queued += !bad.code;
    KD_TRY(read_steps(l, wait || bad.code, err));
    if (!bad.code) return 0;
    *err = bad;
    return fail_step(l, err);
}

static int stop(loop *l, kd_err *err)
{
    KD_TRY(read_steps(l, true, err));
    const int64_t step = kd_trainer_steps(l->t);
    if (step > 0 && l->saved != step) KD_TRY(save(l, err));
    return kd_fail(err, kd_fail_interrupted(&(kd_err){0}), "interrupted after step %lld", (long long)step);
}

// Beside training -------------------------------------------------------------------------------------------------------

static bool due(int64_t every, int64_t step) { return every && step % every == 0; }

// missing: only if the file is not there.
static int demo(loop *l, bool missing, kd_err *err)
{
    char *path = kd_run_demo(l->o->name, kd_trainer_steps(l->t));
    if (!path) return kd_fail_memory(err, "a file name");
    if (missing && !access(path, F_OK)) goto done;
    l->o->status("drawing %s", path);
    if (!kd_demo(l->t, path, l->o->demo_n, err)) l->o->say("drew %s", path);
done:
    free(path);
    return err->code;
}

static int say_scores(const loop *l, const kd_scores *s, bool random, kd_err *err)
{
    kd_str said = {0};
    for (int i = 0; i < s->n && !err->code; i++)
        kd_str_printf(&said, err, "%s %.6g%s", s->score[i].name, s->score[i].value,
                      i + 1 < s->n ? ", " : random ? " [random features]" : "");
    if (!err->code) l->o->say("step %lld: %s", (long long)kd_trainer_steps(l->t), said.p);
    free(said.p);
    return err->code;
}

// The log's line goes first: where the table has one, the log does too.
static int evaluate(loop *l, kd_err *err)
{
    const int64_t step = kd_trainer_steps(l->t);
    kd_eval *e = l->o->eval;
    if (kd_eval_has(e, step)) return 0;
    l->o->status("evaluating step %lld", (long long)step);
    KD_TRY(kd_eval_run(e, l->t, err));
    const kd_scores *s = kd_eval_scores(e);
    const bool random = kd_eval_random(e);
    if (!kd_log_scored(l->o->log, step)) KD_TRY(kd_log_scores(l->o->log, step, s, random, err));
    KD_TRY(kd_eval_record(e, step, l->elapsed, kd_trainer_loss(l->t), err));
    return say_scores(l, s, random, err);
}

static bool any_due(const loop *l, int64_t step)
{
    const kd_loop *o = l->o;
    return due(o->save_every, step) || due(o->demo_every, step) || (o->eval && due(o->eval_every, step));
}

// What is due at this step. missing: of a run that begins here, so some of it may be there.
static int beside(loop *l, bool missing, kd_err *err)
{
    const int64_t step = kd_trainer_steps(l->t);
    if (due(l->o->demo_every, step)) demo(l, missing, err);
    if (!err->code && l->o->eval && due(l->o->eval_every, step)) evaluate(l, err);
    if (!err->code) return 0;

    const kd_err was = *err;
    *err = (kd_err){0};
    if (was.code == KD_EINT || was.code == KD_ETERM) return stop(l, err);
    if (l->saved != step && save(l, err)) return err->code;
    *err = was;
    return err->code;
}

// The loop --------------------------------------------------------------------------------------------------------------

static int train(loop *l, kd_err *err)
{
    const kd_loop *o = l->o;
    const int64_t last = o->steps ? o->steps : KD_MAX_STEP;
    if (l->first > 0) KD_TRY(beside(l, !o->anew, err));
    l->began = kd_clock();
    for (int64_t step = l->first + 1; step <= last; step++) {
        const bool pause = step == last || any_due(l, step);         // the state is that of this step then
        if (kd_interrupted()) return stop(l, err);
        KD_TRY(one_step(l, pause, err));
        if (step == last || due(o->save_every, step)) KD_TRY(save(l, err));
        if (pause) KD_TRY(beside(l, false, err));
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

// Whatever may refuse comes before the first change.
static int begin(loop *l, kd_err *err)
{
    const kd_loop *o = l->o;
    const int64_t keep = o->anew ? -1 : l->first;
    if (o->eval) KD_TRY(open_table(o, keep, err));
    KD_TRY(kd_log_resume(o->log, keep, &l->elapsed, err));
    KD_TRY(kd_run_sweep(o->name, err));
    for (int i = 0; i < o->n_notes; i++) KD_TRY(kd_log_note(o->log, l->first, o->notes[i], err));
    return 0;
}

int kd_train_loop(kd_trainer *t, const kd_dataset *d, const kd_loop *o, kd_err *err)
{
    const int64_t first = kd_trainer_steps(t);
    loop l = { .t = t, .d = d, .o = o, .first = first, .saved = first > 0 ? first : -1, .replaced = o->replaced.n == 0 };

    KD_TRY(begin(&l, err));
    train(&l, err);
    if (!err->code) kd_log_sync(o->log, err);
    return err->code;
}
