// How scores are told.
#include "metric/score.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

bool kd_set_random(const kd_set *s) { return s->made.extractor && !strncmp(s->made.extractor, "random features", 15); }

static int say_set(kd_str *to, const char *side, const kd_set *s, const char *end, kd_err *err)
{
    KD_TRY(kd_str_printf(to, err, "%-12s %s: ", side, s->name));
    if (s->n) KD_TRY(kd_str_printf(to, err, "%lld images", (long long)s->n));
    else KD_TRY(kd_str_printf(to, err, "number of images not known"));
    if (s->made.extractor) KD_TRY(kd_str_printf(to, err, ", %s", s->made.extractor));
    if (s->made.extractor_hash) KD_TRY(kd_str_printf(to, err, " %s", s->made.extractor_hash));
    if (s->made.resizer) KD_TRY(kd_str_printf(to, err, ", resize %s", s->made.resizer));
    if (s->made.images_resizer) KD_TRY(kd_str_printf(to, err, ", images resized by %s", s->made.images_resizer));
    if (s->made.images_crop) KD_TRY(kd_str_printf(to, err, ", crop %s", s->made.images_crop));
    if (s->made.images_background) KD_TRY(kd_str_printf(to, err, ", background %s", s->made.images_background));
    if (s->made.images_quantize) KD_TRY(kd_str_printf(to, err, ", quantized by %s", s->made.images_quantize));
    return kd_str_printf(to, err, "%s\n", end);
}

int kd_scores_text(kd_str *to, const kd_scores *s, const kd_set *a, const kd_set *b, kd_err *err)
{
    const char *end = kd_set_random(a) || kd_set_random(b) ? " [random features]" : "";
    for (int i = 0; i < s->n; i++) {
        const kd_score *x = &s->score[i];
        KD_TRY(kd_str_printf(to, err, "%-12s %.7g", x->name, x->value));
        if (!isnan(x->deviation)) KD_TRY(kd_str_printf(to, err, " +- %.2g", x->deviation));
        KD_TRY(*x->of ? kd_str_printf(to, err, " (%s)%s\n", x->of, end) : kd_str_printf(to, err, "%s\n", end));
    }
    KD_TRY(say_set(to, "reference", a, end, err));
    KD_TRY(say_set(to, "samples", b, end, err));
    for (int i = 0; i < s->n_notes; i++) KD_TRY(kd_str_printf(to, err, "%-12s %s%s\n", "note", s->note[i], end));
    return 0;
}

static json_t *text(const char *s) { return s ? json_string(s) : json_null(); }
static json_t *real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

// {s:o} with a NULL object fails and frees what came before, so memory is checked once, at the end.
static json_t *set_json(const kd_set *s)
{
    return json_pack("{s:o, s:o, s:I, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "file", text(s->name), "n",
                     s->n ? json_integer(s->n) : json_null(), "dimensions", (json_int_t)s->pool.d, "features", s->feature.x != NULL,
                     "extractor", text(s->made.extractor), "extractor_hash", text(s->made.extractor_hash),
                     "resizer", text(s->made.resizer), "images_resizer", text(s->made.images_resizer),
                     "images_crop", text(s->made.images_crop), "images_background", text(s->made.images_background),
                     "images_quantize", text(s->made.images_quantize));
}

int kd_scores_json(json_t **doc, const kd_scores *s, const kd_set *a, const kd_set *b, kd_err *err)
{
    json_t *scores = json_object(), *notes = json_array();
    bool ok = scores && notes;
    for (int i = 0; ok && i < s->n; i++) {
        const kd_score *x = &s->score[i];
        ok = !json_object_set_new(scores, x->name, json_pack("{s:o, s:o, s:o}", "value", real(x->value), "deviation", real(x->deviation),
                                                             "of", *x->of ? json_string(x->of) : json_null()));
    }
    for (int i = 0; ok && i < s->n_notes; i++) ok = !json_array_append_new(notes, json_string(s->note[i]));
    if (!ok) {
        json_decref(scores), json_decref(notes);
        return kd_fail_memory(err, "scores");
    }
    *doc = json_pack("{s:o, s:o, s:o, s:b, s:o}", "scores", scores, "reference", set_json(a), "samples", set_json(b), "random features",
                     kd_set_random(a) || kd_set_random(b), "notes", notes);
    return *doc ? 0 : kd_fail_memory(err, "scores");
}
