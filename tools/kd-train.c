// kd-train: train a diffusion model. Output: the EMA model on stdout (formats/model.md), and the files of --name.
#include "base/memory.h"
#include "base/opt.h"
#include "base/talk.h"
#include "device/device.h"
#include "metric/find.h"
#include "train/draws.h"
#include "train/loop.h"
#include "train/session.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct args {
    kd_session_opts s; kd_loop l; kd_eval_opts e;
    const char *metrics;
    int64_t data_mem;
    bool profile, eval_only;
    kd_common common;
};

static int parse(struct args *a, int argc, char **argv, kd_err *err)
{
    const kd_opt opts[] = {
        KD_OPT_STR('c', "config", &a->s.config, "FILE", "JSON config (default with --resume or --init: the config of that file)"),
        KD_OPT_ARG("IMAGES", &a->s.images, 0,
                   "Stream of images, - for standard input (default: standard input if a pipe or file, else the config's data set)"),
        KD_OPT_INT(0, "steps", &a->l.steps, 1, KD_MAX_STEP,
                   "Last step, counted from the start of the run (default: train until interrupted)"),
        KD_OPT_INT('b', "batch", &a->s.batch, 1, 65536, "Images per batch (default 64)"),
        KD_OPT_INT(0, "accum", &a->s.accum, 1, 65536, "Batches per optimizer step, whose gradients are averaged (default 1)"),
        KD_OPT_NUM(0, "lr", &a->s.lr, 1e-12, 1e3, "Learning rate (default: the config's)"),
        KD_OPT_NUM(0, "clip", &a->s.clip, 0, 1e30, "Largest norm of the gradient, 0 for no limit (default 1)"),
        KD_OPT_U64(0, "seed", &a->s.seed, "Seed of all random numbers (default 0)"),
        KD_OPT_STR(0, "name", &a->s.name, "NAME", "Start of the names of the run's files (default model)"),
        KD_OPT_INT(0, "save-every", &a->l.save_every, 1, KD_MAX_STEP, "Steps between checkpoints (default 1000)"),
        KD_OPT_INT(0, "keep", &a->l.keep, 0, 1 << 30, "Number of checkpoints to keep, 0 for all (default 0)"),
        KD_OPT_INT(0, "demo-every", &a->l.demo_every, 0, KD_MAX_STEP, "Steps between demo grids, 0 for none (default 0)"),
        KD_OPT_INT(0, "demo-n", &a->l.demo_n, 1, 4096, "Images per demo grid (default 64)"),
        KD_OPT_STR(0, "eval-ref", &a->e.reference, "REF", "Reference for evaluations: images, features or statistics, as in kd-fid"),
        KD_OPT_INT(0, "eval-every", &a->l.eval_every, 1, KD_MAX_STEP, "Steps between evaluations"),
        KD_OPT_INT(0, "eval-n", &a->e.n, 2, 1 << 24, "Images to draw per evaluation (default 2000)"),
        KD_OPT_STR(0, "metrics", &a->metrics, "LIST",
                   "Scores to compute in evaluations, as in kd-fid (default: fid, and kid if REF has features)"),
        KD_OPT_STR(0, "features", &a->e.features, KD_FEATURES_TAKES,
                   "Network that computes features for evaluations, as in kd-fid (default inception)"),
        KD_OPT_FLAG(0, "eval-only", &a->eval_only, "Evaluate the checkpoint of --resume, print the scores and exit"),
        KD_OPT_STR(0, "log", &a->s.log, "FILE", "Log file (default NAME_log.jsonl)"),
        KD_OPT_INT(0, "log-every", &a->l.log_every, 1, KD_MAX_STEP,
                   "Steps between progress lines if standard error is not a terminal (default 25)"),
        KD_OPT_STR(0, "resume", &a->s.resume, "FILE|auto",
                   "Resume from checkpoint FILE, or (auto) from the newest undamaged one of --name"),
        KD_OPT_STR(0, "init", &a->s.init, "MODEL", "Start from the weights of a model, or from the averaged weights of a checkpoint"),
        KD_OPT_FLAG(0, "reset-ema", &a->s.reset_ema,
                    "Replace the trained weights with the averaged ones, and restart the average (with --resume)"),
        KD_OPT_FLAG(0, "force", &a->s.force, "Replace an existing run"),
        KD_OPT_FLAG(0, "checkpointing", &a->s.checkpointing, "Recompute activations in the backward pass instead of keeping them"),
        KD_OPT_FLAG(0, "gns", &a->s.gns, "Log the gradient noise scale (needs --accum 2 or more)"),
        KD_OPT_FLAG(0, "no-gns", &a->s.no_gns, "Stop logging the gradient noise scale (with --resume)"),
        KD_OPT_FLAG(0, "plan", &a->s.plan, "Print the number of parameters, the GFLOP per image and the peak memory, and exit"),
        KD_OPT_FLAG(0, "profile", &a->profile,
                    "Print the time, GFLOP/s and GB/s of each kind of operation on standard error at the end"),
        KD_OPT_INT(0, "data-mem", &a->data_mem, 0, 1 << 30,
                   "Largest data set to keep in memory, in MiB (default: a quarter of the memory)"),
        KD_OPT_END };
    return kd_cli_parse("kd-train", "Train a diffusion model", opts, KD_WITH_OUT | KD_WITH_THREADS | KD_WITH_DEVICE, argc, argv,
                        &a->common, err);
}

static int check(struct args *a, kd_err *err)
{
    if (a->s.force && a->s.resume && !strcmp(a->s.resume, "auto"))
        return kd_fail(err, KD_EUSAGE, "--force starts anew, --resume auto goes on: give one of them");
    if (a->s.gns && a->s.no_gns) return kd_fail(err, KD_EUSAGE, "--gns and --no-gns: give one of them");
    if (a->s.no_gns && !a->s.resume) return kd_fail(err, KD_EUSAGE, "--no-gns needs --resume");
    if (a->s.reset_ema && !a->s.resume) return kd_fail(err, KD_EUSAGE, "--reset-ema needs --resume");
    if (!a->e.reference && (a->l.eval_every || a->eval_only || a->metrics || a->e.features || kd_given(&a->common, &a->e.n)))
        return kd_fail(err, KD_EUSAGE, "evaluation needs a reference: --eval-ref REF");
    if (a->e.reference && !a->l.eval_every && !a->eval_only)
        return kd_fail(err, KD_EUSAGE, "--eval-ref: give --eval-every N or --eval-only too");
    if (a->eval_only && !a->s.resume) return kd_fail(err, KD_EUSAGE, "--eval-only needs --resume");
    if (a->eval_only && a->s.plan) return kd_fail(err, KD_EUSAGE, "--plan and --eval-only: give one of them");
    if (a->eval_only && kd_given(&a->common, &a->common.out))
        return kd_fail(err, KD_EUSAGE, "--eval-only prints to standard output: -o is where a trained model goes");
    a->s.evaluate = a->eval_only;
    if (a->metrics) KD_TRY(kd_score_parse(&a->e.score.metrics, a->metrics, err));
    a->s.has_seed = kd_given(&a->common, &a->s.seed);
    a->s.data_mem = kd_given(&a->common, &a->data_mem) ? a->data_mem << 20 : kd_memory_total() / 4;
    a->l.name = a->s.name;
    a->l.terminal = kd_talk_is_terminal();
    return 0;
}

// Finds out now, not after the last step, that the model cannot be written there. *wanted: there is a place for it.
static int try_output(const char *path, bool *wanted, kd_err *err)
{
    kd_out *out;
    *wanted = strcmp(path, "-") || !isatty(STDOUT_FILENO);
    if (!*wanted || !strcmp(path, "-")) return 0;
    KD_TRY(kd_out_open(&out, path, true, err));
    kd_out_close(out);
    return 0;
}

static void print_mib(const char *what, int64_t bytes) { printf("%-36s %10.1f MiB\n", what, (double)bytes / (1 << 20)); }

// What is in memory already is measured, what comes is planned.
static int print_plan(const struct args *a, const kd_session *s, kd_err *err)
{
    const kd_train_plan p = kd_trainer_plan(s->t);
    const kd_dataset *d = &s->data;
    const int64_t data = d->n * d->h * d->w * d->c, batch = kd_trainer_opts(s->t)->batch;
    const int64_t demo = a->l.demo_every ? a->l.demo_n : 0, eval = a->l.eval_every ? a->e.n : 0, drawn = demo > eval ? demo : eval;
    int64_t draws = 0;
    if (drawn) KD_TRY(kd_draws_bytes(&draws, s->t, drawn < batch ? drawn : batch, err));
    const int64_t beside = p.save > draws ? p.save : draws;           // one or the other
    printf("%-36s %10lld\n", "parameters", (long long)kd_trainer_parameters(s->t));
    printf("%-36s %10.4f\n", "GFLOP an image, forward", p.flops_forward / 1e9);
    printf("%-36s %10.4f\n", "GFLOP an image, with gradient", p.flops / 1e9);
    print_mib(d->n ? "memory at its peak" : "memory at its peak, without the images", s->memory + p.state + p.batch + p.program + beside);
    print_mib("  weights, average, optimizer", p.state);
    print_mib("  activations, gradients, scratch", p.program);
    print_mib("  a batch", p.batch);
    if (p.save) print_mib(drawn ? "  a copy while saving, or" : "  a copy while saving", p.save);
    if (drawn) print_mib("  drawing images", draws);
    print_mib("  program and images", s->memory);
    if (d->n) print_mib("    of these images", data);
    return 0;
}

static int train(struct args *a, kd_session *s, bool wanted, kd_err *err)
{
    const int64_t step = kd_trainer_steps(s->t);
    a->l.notes = (const char *const *)s->note;
    a->l.n_notes = s->n_notes;
    a->l.replaced = s->replaced;
    a->l.log = s->log;
    a->l.anew = s->anew;
    if (a->profile) kd_trainer_profile(s->t, true);
    if (a->l.steps && step >= a->l.steps) kd_say("step %lld is done already", (long long)step);
    KD_TRY(kd_train_loop(s->t, &s->data, &a->l, err));
    kd_status_clear();
    return wanted ? kd_trainer_result(s->t, &s->data, a->common.history, a->common.out, err) : 0;
}

static int evaluate(const struct args *a, kd_session *s, kd_err *err)
{
    kd_str text = {0};
    int code = kd_eval_run(a->l.eval, s->t, err);
    if (!code) code = kd_eval_text(&text, a->l.eval, err);
    if (!code) fputs(text.p, stdout);
    free(text.p);
    return code;
}

int main(int argc, char **argv)
{
    struct args a = {
        .s = { .name = "model", .batch = -1, .accum = -1, .clip = -1, .say = kd_say },
        .l = { .save_every = 1000, .demo_n = 64, .log_every = 25, .say = kd_say, .status = kd_status },
        .e = { .n = 2000, .score = kd_score_defaults() } };
    kd_session s = {0};
    kd_backend *be = NULL;
    kd_err err = {0};
    bool wanted = false;

    if (parse(&a, argc, argv, &err)) goto done;
    kd_talk_init("kd-train", a.common.quiet);
    if (check(&a, &err) || (!a.s.plan && !a.eval_only && try_output(a.common.out, &wanted, &err))) goto done;
    kd_catch_signals();
    if (kd_device_open(&be, a.common.device, &err)) goto done;
    if (a.e.reference && kd_eval_open(&a.l.eval, &a.e, be, &err)) goto done;
    if (kd_session_open(&s, &a.s, be, &err)) goto done;
    if (a.eval_only) evaluate(&a, &s, &err);
    else if (a.s.plan) print_plan(&a, &s, &err);
    else train(&a, &s, wanted, &err);
    if (a.profile && s.t) kd_trainer_profile_print(s.t, stderr);
done:
    kd_status_clear();
    kd_session_close(&s);
    kd_eval_close(a.l.eval);
    kd_backend_close(be);
    kd_cli_free(&a.common);
    return kd_tool_exit("kd-train", &err);
}
