// A training step: its programs are queued, and what they computed is read later, of several steps at once. See trainer.h.
#include "train/schedule.h"
#include "train/trainer_state.h"
#include <assert.h>
#include <math.h>
#include <string.h>

// What a step leaves to be read --------------------------------------------------------------------------------------

// Bytes from the start of its results to the squares of its micro-batches and to their losses.
static size_t squares_at(void) { return 2 * sizeof(double); }
static size_t losses_at(const kd_trainer *t) { return squares_at() + (t->o.gns ? (size_t)t->o.accum * sizeof(double) : 0); }
static size_t losses_bytes(const kd_trainer *t) { return (size_t)(t->o.accum * t->o.batch) * sizeof(float); }

size_t kd_result_bytes(const kd_trainer *t)
{
    return (losses_at(t) + losses_bytes(t) + KD_ALIGN - 1) / KD_ALIGN * KD_ALIGN;
}

// Where the results of the step under way go.
static char *result(const kd_trainer *t) { return t->results + (size_t)t->queued * kd_result_bytes(t); }

// The losses of all micro-batches are also in one array, which the optimizer's program looks at.
static int keep_micro(const kd_trainer *t, int64_t part, kd_err *err)
{
    char *losses = t->losses ? (char *)t->losses : result(t) + losses_at(t);
    KD_TRY(kd_program_take(t->p, t->lg.loss, losses + (size_t)(part * t->o.batch) * sizeof(float), err));
    if (!t->square) return 0;
    return kd_program_take(t->p, t->square, result(t) + squares_at() + (size_t)part * sizeof(double), err);
}

static int keep_step(const kd_trainer *t, kd_err *err)
{
    if (t->losses) KD_TRY(t->be->copy(t->be, result(t) + losses_at(t), t->losses, losses_bytes(t), err));
    return kd_program_take(t->update ? t->update : t->p, t->opt.clip, result(t), err);
}

// A step ---------------------------------------------------------------------------------------------------------------

// Steps and images before the step under way.
static int64_t steps_before(const kd_trainer *t) { return t->step + t->queued; }
static int64_t seen_before(const kd_trainer *t) { return t->seen + t->queued * t->o.batch * t->o.accum; }

// Indices go through kd_program_set, which checks them.
static int at(const kd_trainer *t, kd_val *input, void *to, kd_err *err)
{
    assert(!input || !input->below);
    return kd_program_at(t->p, input, to, err);
}

// Writes micro-batch `part` of a step to the program's inputs, if they do not hold it already. p: positions before it.
static int fill_batch(kd_trainer *t, const kd_dataset *d, int64_t step, int64_t part, int64_t p, kd_err *err)
{
    const kd_config *c = t->c;
    const kd_loss_graph *lg = &t->lg;
    const uint64_t rng[2] = { t->o.seed, (uint64_t)step };
    kd_batch b = { .n = t->o.batch, .h = c->size[0], .w = c->size[1], .c = c->channels, .sigma = t->sigma,
                   .class_cond = lg->in.class_cond ? t->class_cond : NULL };
    if (t->filled == d && t->filled_step == step && t->filled_part == part) return 0;
    t->filled = NULL;
    KD_TRY(at(t, lg->pixels, &b.pixels, err));
    if (!lg->pixels) KD_TRY(at(t, lg->x0, &b.x0, err));
    KD_TRY(at(t, lg->in.aug_cond, &b.aug_cond, err));
    KD_TRY(at(t, lg->index, &b.index, err));
    kd_batch_fill(&b, c, d, t->o.seed, step, p, part, t->o.gns ? 0 : t->o.accum);    // with gns they must be independent
    if (b.class_cond) KD_TRY(kd_program_set(t->p, lg->in.class_cond, b.class_cond, err));
    KD_TRY(kd_program_set(t->p, lg->rng, rng, err));
    KD_TRY(kd_loss_graph_set_sigma(lg, t->p, c, b.sigma, b.n, err));
    t->filled = d, t->filled_step = step, t->filled_part = part;
    return 0;
}

// Prepares the micro-batch after this one while the backend works on this one. If that fails, it is tried again when it is that
// micro-batch's turn, and reported then: this step may be bad, which comes first.
static void fill_next(kd_trainer *t, const kd_dataset *d, int64_t part, int64_t p)
{
    const bool last = part + 1 == t->o.accum;
    const int64_t step = steps_before(t);
    kd_err later = {0};
    if (!t->be->async || p > KD_MAX_SEEN - t->o.batch || (last && step + 1 >= KD_MAX_STEP)) return;
    fill_batch(t, d, last ? step + 1 : step, last ? 0 : part + 1, p, &later);
}

// Loss of a micro-batch, and its gradient.
static int run_micro(kd_trainer *t, const kd_dataset *d, int64_t part, kd_err *err)
{
    const int64_t n = t->o.batch, p = seen_before(t) + part * n;
    KD_TRY(fill_batch(t, d, steps_before(t), part, p, err));
    t->filled = NULL;
    KD_TRY(kd_program_run(t->p, err));
    KD_TRY(keep_micro(t, part, err));
    fill_next(t, d, part, p + n);
    return 0;
}

static int set_rates(const kd_trainer *t, kd_err *err)
{
    double lr[4], rates[KD_RATES];
    kd_group_rates(lr, kd_lr_at(t->c, t->o.lr, t->lr_step + t->queued));
    kd_opt_rates(rates, t->c, t->opt_step + t->queued + 1, lr, kd_ema_decay_at(t->c, t->ema_step + t->queued));
    return kd_program_set(t->update ? t->update : t->p, t->opt.rates, rates, err);
}

int kd_trainer_step(kd_trainer *t, const kd_dataset *d, kd_err *err)
{
    assert(steps_before(t) < KD_MAX_STEP);
    assert(t->queued + t->n_done < t->room && "kd_trainer_results follows each step");
    if (seen_before(t) > KD_MAX_SEEN - t->o.batch * t->o.accum)
        return kd_fail(err, KD_EFAIL, "step %lld: the random streams end after %lld images", (long long)steps_before(t) + 1,
                       (long long)KD_MAX_SEEN);
    KD_TRY(set_rates(t, err));
    if (t->sum) KD_TRY(t->be->fill(t->be, t->sum, 0, (size_t)t->ps->trained * sizeof(float), err));
    for (int64_t k = 0; k < t->o.accum; k++) KD_TRY(run_micro(t, d, k, err));
    if (t->update) KD_TRY(kd_program_run(t->update, err));
    KD_TRY(keep_step(t, err));
    t->queued++;
    return 0;
}

// Reading --------------------------------------------------------------------------------------------------------------

// Mean loss of a step, and the running average after it, which moves with each micro-batch. losses: [accum,batch]
static int read_losses(const kd_trainer *t, const float *losses, kd_step_stats *s, kd_err *err)
{
    const double keep = pow(kd_ema_decay_at(t->c, t->ema_step), 1 / (double)t->o.accum);
    s->loss = 0, s->ema_loss = t->ema_loss;
    for (int64_t k = 0; k < t->o.accum; k++) {
        double part = 0;
        for (int64_t i = 0; i < t->o.batch; i++) part += losses[k * t->o.batch + i];
        part /= (double)t->o.batch;
        if (!isfinite(part))
            return kd_fail(err, KD_EFAIL, "step %lld: loss is %s", (long long)s->step, isnan(part) ? "NaN" : "infinite");
        s->ema_loss = t->has_loss || k ? s->ema_loss * keep + (1 - keep) * part : part;
        s->loss += part / (double)t->o.accum;
    }
    return 0;
}

// squares: norms of the micro-batches' gradients, squared. A gradient is stored divided by accum.
static double update_gns(kd_trainer *t, const double *squares, double norm)
{
    const double batch = (double)t->o.batch, accum = (double)t->o.accum;
    double sum = 0;
    if (!t->o.gns) return NAN;
    for (int64_t k = 0; t->square && k < t->o.accum; k++) {
        const double each = sqrt(squares[k]) * accum;
        sum += each * each / accum;
    }
    kd_gns_update(&t->gns, sum, norm * norm, batch, batch * accum);
    return kd_gns_value(&t->gns);
}

// The results of the step after t->step, which is then the last.
static int read_step(kd_trainer *t, const void *results, kd_step_stats *s, kd_err *err)
{
    const double *clip = results;
    const char *from = results;
    const void *squares = from + squares_at(), *losses = from + losses_at(t);
    *s = (kd_step_stats){ .step = t->step + 1, .lr = kd_lr_at(t->c, t->o.lr, t->lr_step), .grad_norm = clip[1] };
    KD_TRY(read_losses(t, losses, s, err));
    if (!isfinite(clip[1])) return kd_fail(err, KD_EFAIL, "step %lld: the gradient is not finite", (long long)s->step);
    s->gns = update_gns(t, squares, clip[1]);
    t->step++;
    t->opt_step++;
    t->lr_step++;
    t->ema_step++;
    t->seen += t->o.batch * t->o.accum;
    t->ema_loss = s->ema_loss;
    t->has_loss = true;
    return 0;
}

int kd_trainer_finish(kd_trainer *t, kd_err *err)
{
    const int n = t->queued;
    const size_t bytes = kd_result_bytes(t);
    if (!n) return 0;
    KD_TRY(t->be->download(t->be, t->read, t->results, (size_t)n * bytes, err));
    t->queued = 0;
    for (int k = 0; k < n; k++) {
        if (!read_step(t, t->read + (size_t)k * bytes, &t->done[t->n_done], err)) {
            t->n_done++;
            continue;
        }
        t->filled = NULL;                             // a batch of a later step
        t->be->fill(t->be, t->s.stopped, 0, sizeof *t->s.stopped, &(kd_err){0});
        break;
    }
    return err->code;
}

int kd_trainer_results(kd_trainer *t, bool wait, kd_step_stats *stats, int *n, kd_err *err)
{
    if (wait || t->queued + t->n_done == t->room) kd_trainer_finish(t, err);
    *n = t->n_done;
    memcpy(stats, t->done, (size_t)t->n_done * sizeof *stats);
    t->n_done = 0;
    return err->code;
}
