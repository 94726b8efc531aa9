#include "train/eval.h"
#include "base/io.h"
#include "metric/open.h"
#include "train/draws.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct kd_eval {
    kd_eval_opts o;
    kd_set_source source;
    kd_set *reference, *samples;       // samples: the latest
    kd_scores scores;
    char *path; kd_str table;          // of the csv
    int64_t last;                      // step of its last line, or -1
};

int kd_eval_open(kd_eval **to, const kd_eval_opts *o, kd_backend *be, kd_err *err)
{
    kd_eval *e = kd_alloc(sizeof *e);
    if (!e) return kd_fail_memory(err, "evaluation");
    e->o = *o;
    e->source.options = (kd_extract_options){ .features = o->features, .be = be, .batch = 8 };
    kd_score_wants(&e->source.options, &o->score);
    int code = kd_set_open(&e->reference, o->reference, &e->source, err);
    if (!code && !e->source.extractor) code = kd_extractor_open(&e->source.extractor, &e->source.options, err);
    if (!code) code = kd_scores_possible(e->reference, &o->score, err);
    if (!code) {
        const kd_made made = kd_extractor_made(e->source.extractor, NULL);
        code = kd_made_alike(&e->reference->made, e->reference->name, &made, "this run", err);
    }
    if (code) kd_eval_close(e);
    else *to = e;
    return code;
}

void kd_eval_close(kd_eval *e)
{
    if (!e) return;
    kd_set_free(e->reference), kd_set_free(e->samples);
    kd_set_source_close(&e->source);
    free(e->path), free(e->table.p);
    kd_free(e);
}

static int draw(kd_eval *e, kd_trainer *t, kd_draws *w, int64_t batch, kd_err *err)
{
    const kd_config *c = kd_trainer_config(t);
    kd_pictures p = { KD_F32, 0, c->size[0], c->size[1], c->channels, NULL, NULL };
    KD_TRY(kd_extract_begin(e->source.extractor, err));
    for (int64_t i = 0; i < e->o.n; i += batch) {
        const float *x;
        if (kd_interrupted()) return kd_fail_interrupted(err);
        p.n = e->o.n - i < batch ? e->o.n - i : batch;
        KD_TRY(kd_draws_make(w, i, p.n, &x, err));
        p.image = x;
        KD_TRY(kd_extract_add(e->source.extractor, &p, err));
    }
    kd_set_free(e->samples);
    e->samples = NULL;
    return kd_extract_end(&e->samples, e->source.extractor, "EMA weights", NULL, err);
}

int kd_eval_run(kd_eval *e, kd_trainer *t, kd_err *err)
{
    const int64_t batch = kd_trainer_opts(t)->batch;
    kd_draws *w = NULL;
    int code = kd_draws_open(&w, t, e->o.n < batch ? e->o.n : batch, err);
    if (!code) code = draw(e, t, w, batch, err);
    kd_draws_close(w);
    return code ? code : kd_scores_of(&e->scores, e->reference, e->samples, &e->o.score, err);
}

const kd_scores *kd_eval_scores(const kd_eval *e) { return &e->scores; }

int kd_eval_text(kd_str *to, const kd_eval *e, kd_err *err) { return kd_scores_text(to, &e->scores, e->reference, e->samples, err); }

bool kd_eval_random(const kd_eval *e) { return kd_set_random(e->reference) || (e->samples && kd_set_random(e->samples)); }

// The table -----------------------------------------------------------------------------------------------------------

static int header(kd_str *s, const kd_eval *e, kd_err *err)
{
    const unsigned standard = KD_SCORE_FID | (e->reference->feature.x ? KD_SCORE_KID : 0);
    KD_TRY(kd_str_printf(s, err, "step,time,loss"));
    KD_TRY(kd_score_names(s, e->o.score.metrics ? e->o.score.metrics : standard, err));
    return kd_str_printf(s, err, "\n");
}

// Keeps whole lines up to `step`.
static int take_lines(kd_eval *e, const char *text, int64_t step, kd_err *err)
{
    const char *line = text + strcspn(text, "\n") + 1;
    for (const char *end; (end = strchr(line, '\n')) && strtoll(line, NULL, 10) <= step; line = end + 1) {
        KD_TRY(kd_str_add(&e->table, line, (size_t)(end - line) + 1, err));
        e->last = strtoll(line, NULL, 10);
    }
    return 0;
}

int kd_eval_table(kd_eval *e, const char *path, int64_t step, kd_err *err)
{
    void *text = NULL;
    size_t n = 0;
    e->path = kd_strdup(path);
    e->last = -1;
    if (!e->path) return kd_fail_memory(err, "evaluation");
    KD_TRY(header(&e->table, e, err));
    if (step <= 0 || (access(path, F_OK) && errno == ENOENT)) return 0;
    KD_TRY(kd_read_file(path, 1 << 28, &text, &n, err));
    int code = 0;
    if (n < e->table.n || memcmp(text, e->table.p, e->table.n))
        code = kd_fail(err, KD_EUSAGE, "%s: has other columns than %.*s: move it away, or ask for its metrics", path,
                       (int)e->table.n - 1, e->table.p);
    else code = take_lines(e, text, step, err);
    free(text);
    return code;
}

bool kd_eval_has(const kd_eval *e, int64_t step) { return e->last == step; }

int kd_eval_record(kd_eval *e, int64_t step, double elapsed, double loss, kd_err *err)
{
    kd_out *out = NULL;
    KD_TRY(kd_str_printf(&e->table, err, "%lld,%.3f,%.9g", (long long)step, elapsed, loss));
    for (int i = 0; i < e->scores.n; i++) KD_TRY(kd_str_printf(&e->table, err, ",%.9g", e->scores.score[i].value));
    KD_TRY(kd_str_printf(&e->table, err, "\n"));
    int code = kd_out_open(&out, e->path, false, err);
    if (!code) code = kd_out_write(out, e->table.p, e->table.n, err);
    if (!code) code = kd_out_commit(out, err);
    kd_out_close(out);
    if (!code) e->last = step;
    return code;
}
